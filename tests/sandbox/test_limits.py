"""Bodies that use up what they can: each ends in a typed result in time, and others go on working.

With control groups, where this host gives some, and without. Every bomb has a small cap of its own.
"""

import signal
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio

from tests.sandbox.limited import Limited, limited

FORKS = """
import os, signal
made = refused = 0
for _ in range(300):
    try:
        if os.fork() == 0:
            signal.pause()
        made += 1
    except OSError:
        refused += 1
print(made, refused)
"""
DESCRIPTORS = """
import os
held = []
try:
    while len(held) < 5000:
        held.append(os.open("/dev/null", os.O_RDONLY))
except OSError as error:
    print(len(held), error.strerror)
"""
NAMES = """
made = 0
try:
    for made in range(5000):
        open(f"/tmp/{made}", "w").close()
except OSError as error:
    print(made, error.strerror)
"""


@pytest_asyncio.fixture(params=[True, False], ids=["cgroups", "no cgroups"])
async def both(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[Limited]:
    async with limited(tmp_path, cgroups=request.param) as found:
        yield found


def in_force(result: Any) -> bool:
    """Whether the call's processes were in a control group with all limits."""
    return any(layer["name"] == "cgroup" and layer["held"] for layer in result["layers"])


def code(result: Any) -> str:
    return "" if result["ok"] else str(result["error"]["code"])


async def test_a_fork_bomb_is_held_at_its_number_of_processes(both: Limited) -> None:
    result, answered = await both.beside("c", "shell", argv=["python3", "-c", FORKS])
    made, refused = map(int, result["value"]["stdout"].split())
    assert 50 < made <= 64
    assert refused == 300 - made
    assert result["value"]["limits_hit"] == (["processes"] if in_force(result) else [])
    assert answered


async def test_a_command_over_its_memory_ends_with_the_limits_name(both: Limited) -> None:
    bomb = "import time; held = bytearray(600 << 20); time.sleep(15)"
    result, answered = await both.beside("c", "shell", argv=["python3", "-c", bomb])
    value = result["value"]
    assert code(result) == "RESOURCE_LIMIT"
    assert "limits.memory_mb" in result["error"]["message"]
    if in_force(result):
        assert (value["oom"], value["killed"], value["limits_hit"]) == (True, False, ["memory"])
        assert result["usage"]["max_rss_bytes"] <= 128 << 20
    else:
        assert (value["oom"], value["killed"], value["limits_hit"]) == (None, True, ["memory (sampled)"])
    assert not value["timed_out"]
    assert answered


async def test_memory_is_counted_of_all_processes_together(both: Limited) -> None:
    part = "python3 -c 'import time; held = bytearray(50 << 20); time.sleep(60)' &"
    result = await both.call("c", "shell", command=f"{part * 4} wait")
    assert code(result) == "RESOURCE_LIMIT"
    assert not result["value"]["timed_out"]


async def test_a_burning_processor_ends_with_the_limits_name(both: Limited) -> None:
    result, answered = await both.beside("c", "shell", command="while :; do :; done")
    assert code(result) == "RESOURCE_LIMIT"
    assert result["value"]["signal"] == signal.SIGXCPU
    assert result["value"]["limits_hit"] == ["cpu"]
    assert 0.7 < result["usage"]["cpu_s"] < 1.4  # the kernel measures for this limit by clock ticks
    assert answered


async def test_who_ignores_the_end_of_its_processor_time_is_killed_a_second_later(both: Limited) -> None:
    result = await both.call("c", "shell", command="trap '' XCPU; while :; do :; done")
    assert (code(result), result["value"]["signal"]) == ("RESOURCE_LIMIT", signal.SIGKILL)


async def test_a_program_of_a_shell_that_met_its_processor_time_is_told_from_a_status(both: Limited) -> None:
    burning = await both.call("c", "shell", command="(while :; do :; done); exit $?")
    assert (code(burning), burning["value"]["exit_code"]) == ("RESOURCE_LIMIT", 128 + signal.SIGXCPU)
    pretended = await both.call("d", "shell", command=f"exit {128 + signal.SIGXCPU}")
    assert pretended["ok"]


async def test_a_file_over_its_size_ends_with_the_limits_name(both: Limited) -> None:
    result = await both.call("c", "shell", argv=["dd", "if=/dev/zero", "of=x", "bs=1M", "count=16"])
    assert (code(result), result["value"]["limits_hit"]) == ("RESOURCE_LIMIT", ["file size"])


@pytest.mark.parametrize(
    ("program", "most", "reason"),
    [(DESCRIPTORS, 64, "Too many open files"), (NAMES, 128, "No space left on device")],
    ids=["descriptors", "names in /tmp"],
)
async def test_what_runs_out_is_the_programs_to_deal_with(both: Limited, program: str, most: int, reason: str) -> None:
    result, answered = await both.beside("c", "shell", argv=["python3", "-c", program])
    number, said = result["value"]["stdout"].split(" ", 1)
    assert (result["ok"], said) == (True, f"{reason}\n")
    assert most / 2 < int(number) <= most
    assert answered


async def test_tmp_holds_no_more_than_its_size(both: Limited) -> None:
    filling = "for n in 1 2 3 4 5 6; do head -c 3M /dev/zero > /tmp/$n || break; done; du -sk /tmp | cut -f1"
    result, answered = await both.beside("c", "shell", command=filling)
    assert int(result["value"]["stdout"]) <= 8 * 1024 + 64  # directories of it take no memory
    assert "No space left on device" in result["value"]["stderr"]
    assert answered


async def test_a_flood_of_output_is_drained_and_cut(both: Limited) -> None:
    result, answered = await both.beside("c", "shell", command="yes | head -c 100M; yes | head -c 100M >&2")
    value = result["value"]
    assert (result["ok"], value["truncated"]) == (True, True)
    assert (value["stdout_bytes"], value["stderr_bytes"]) == (100 << 20, 100 << 20)
    assert answered


@pytest.mark.parametrize(
    ("what", "expected"),
    [
        ("too much memory", "RESOURCE_LIMIT"),
        ("too much time", "RESOURCE_LIMIT"),
        ("too large a file", "RESOURCE_LIMIT"),
        ("its own end", "TOOL_FAILED"),
    ],
)
async def test_a_function_that_meets_a_limit_ends_with_the_limits_name(both: Limited, what: str, expected: str) -> None:
    result = await both.call("c", "read", path=what)
    assert code(result) == expected, result
    assert "effects: none (proven)" in result["error"]["message"]
    assert result["effects"] == "none (proven)"


async def test_how_a_command_ended_is_several_facts(both: Limited) -> None:
    facts = ("exit_code", "signal", "timed_out", "killed", "limits_hit")

    async def ended(call_id: str, command: str, **more: Any) -> tuple[Any, ...]:
        result = await both.call(call_id, "shell", command=command, **more)
        assert result["value"]["oom"] is (False if in_force(result) else None)
        return tuple(result["value"][name] for name in facts)

    assert await ended("a", "exit 3") == (3, None, False, False, [])
    assert await ended("b", "kill -ABRT $$") == (None, signal.SIGABRT, False, False, [])
    assert await ended("c", "kill -KILL $$") == (None, signal.SIGKILL, False, False, [])
    assert await ended("d", "sleep 60", timeout_s=1) == (None, None, True, True, [])
