"""What a call used is told within a tenth, with control groups and without."""

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio

from tests.sandbox.limited import Limited, limited

BURN = """
import time
held = bytearray(100_000_000)
while time.process_time() < 1.0:
    pass
"""
# Four processes at once that hold 40 MB each, and burn half a second each. Prints what all of them have used.
SHARED = """
import os, time
ends = [os.pipe() for _ in range(2)]
for _ in range(4):
    if os.fork() == 0:
        held = bytearray(40_000_000)
        begun = time.process_time()
        while time.process_time() - begun < 0.5:
            pass
        os.write(ends[0][1], b"x")
        os.close(ends[1][1])
        os.read(ends[1][0], 1)
        os._exit(0)
for _ in range(4):
    os.read(ends[0][0], 1)
time.sleep(0.3)
os.close(ends[1][1])
for _ in range(4):
    os.wait()
print(sum(os.times()[:4]))
"""


@pytest_asyncio.fixture(params=[True, False], ids=["cgroups", "no cgroups"])
async def both(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[Limited]:
    async with limited(tmp_path, cgroups=request.param, memory_mb=512, cpu_s=60) as found:
        yield found


def check(result: Any, *, cpu_s: float = 1.0, bytes: int = 100_000_000) -> None:
    usage = result["usage"]
    held = any(layer["name"] == "cgroup" and layer["held"] for layer in result["layers"])
    assert usage["source"] == ("cgroup" if held else "sampled")
    assert usage["cpu_s"] == pytest.approx(cpu_s, rel=0.1)
    assert usage["max_rss_bytes"] == pytest.approx(bytes, rel=0.1)


async def test_a_second_and_a_hundred_megabytes_of_a_command_are_told(both: Limited) -> None:
    check(await both.call("c", "shell", argv=["python3", "-c", BURN]))


async def test_a_second_and_a_hundred_megabytes_of_a_function_are_told(both: Limited) -> None:
    check(await both.call("c", "read", path="burn"))


async def test_processes_are_counted_together(both: Limited) -> None:
    result = await both.call("c", "shell", argv=["python3", "-c", SHARED])
    check(result, cpu_s=float(result["value"]["stdout"]), bytes=160_000_000)


async def test_a_process_that_is_left_running_is_counted(both: Limited) -> None:
    left = "import time\nwhile time.process_time() < 0.5: pass\nprint(flush=True)\nwhile True: pass"
    result = await both.call("c", "shell", command=f"read < <(python3 -c '{left}')")
    assert result["ok"]
    assert 0.48 < result["usage"]["cpu_s"] < 2


async def test_a_command_that_is_stopped_has_used_what_it_had_used(both: Limited) -> None:
    result = await both.call("c", "shell", command=f"python3 -c '{BURN}\ntime.sleep(60)'", timeout_s=5)
    assert result["value"]["timed_out"]
    check(result)


async def test_bytes_that_reached_storage_are_told(both: Limited, tmp_path: Path) -> None:
    result = await both.call("c", "shell", command="head -c 3M /dev/zero > x; head -c 1M /dev/zero > /tmp/x")
    assert 3 << 20 <= result["usage"]["written_bytes"] < 4 << 20
