"""`stockade record` of background jobs, whose names are others each time, and of outputs too long for a file."""

import json
from pathlib import Path
from typing import Any

from stockade_client import Ask, connect
from tests.end_to_end.conftest import Stockade
from tests.end_to_end.jobs import value_of
from tests.end_to_end.stockaded import Stockaded


async def allowed(ask: Ask) -> bool:
    return True


def played(stockade: Stockade, calls: Path, *more: str) -> tuple[int, dict[str, list[str]]]:
    """The exit status, and by name why each entry is not as expected."""
    done = stockade("run", str(calls), "--profile", "dev", "--json", *more)
    assert done.stdout, done.stderr
    *outcomes, _ = [json.loads(line) for line in done.stdout.splitlines()]
    return done.returncode, {each["name"]: each["reasons"] for each in outcomes if each["outcome"] != "passed"}


def copy_with(workspace: Path, to: Path, **changed: str) -> Path:
    to.mkdir()
    for each in workspace.iterdir():
        (to / each.name).write_text(changed.get(each.stem, each.read_text()))
    return to


async def test_jobs_are_started_again_under_other_names_and_asked_for_by_these(
    shared: Stockaded, stockade: Stockade, workspace: Path, directory: Path
) -> None:
    async with (
        connect(shared.address) as daemon,
        daemon.session(workspace, "dev", id="jobs", approve=allowed) as session,
    ):
        first = await session.call("shell", command="cat a.txt; echo $$ >&2; exit 3", background=True)
        second = await session.call("shell", command="until [ -e none ]; do sleep 0.02; done", background=True)
        jobs = [value_of(each)["job"] for each in (first, second)]
        await session.call("job", action="read", job=jobs[1])
        await session.call("job", action="wait", job=jobs[0], wait_s=60)
        await session.call("job", action="read", job=jobs[0])
        await session.call("shell", command=f"echo {jobs[1]} of {workspace}/x '${{job 1}}'")
        await session.call("job", action="kill", job=jobs[1])
        await session.call("job", action="list")
        await session.call("job", action="read", job="job-none")
    done = stockade("record", "jobs")
    assert done.returncode == 0, done.stderr
    assert done.stderr == ""
    assert not any(each in done.stdout for each in jobs)
    lines: list[Any] = [json.loads(line) for line in done.stdout.splitlines()][1:]
    assert [each["args"].get("job") for each in lines[2:5]] == ["${job 2}", "${job 1}", "${job 1}"]
    assert lines[3]["expect"]["value"]["jobs"][0]["exit_code"] == 3
    assert lines[4]["expect"]["value"]["text"] == "one\ntwo\nthree\n"
    assert lines[5]["expect"]["stdout"] == "${job 2} of ${workspace}/x $${job 1}\n"
    calls = directory / "calls.jsonl"
    calls.write_text(done.stdout)
    assert played(stockade, calls) == (0, {})
    elsewhere = copy_with(workspace, directory / "elsewhere", a="changed\n")
    status, differ = played(stockade, calls, "--workspace", str(elsewhere))
    assert (status, list(differ)) == (1, [f"005 {lines[4]['name'][4:]}"])


async def test_an_output_that_is_too_long_is_compared_whole_all_the_same(
    shared: Stockaded, stockade: Stockade, workspace: Path, directory: Path
) -> None:
    (workspace / "numbers.txt").write_text("".join(f"{each}\n" for each in range(20000)))
    commands = [
        "cat numbers.txt",
        "cat numbers.txt >&2; cat numbers.txt; false",
        "date +%T.%N; cat numbers.txt; pwd",
        "head -c 20000000 /dev/zero | tr '\\\\0' x",
    ]
    async with (
        connect(shared.address) as daemon,
        daemon.session(workspace, "dev", id="long", approve=allowed) as session,
    ):
        for command in commands:
            assert (await session.call("shell", command=command)).ok
    done = stockade("record", "long")
    assert done.returncode == 0, done.stderr
    assert len(done.stdout) < 20_000
    assert "printed to stdout, which was not kept whole" in done.stderr
    calls = directory / "calls.jsonl"
    calls.write_text(done.stdout)
    assert played(stockade, calls) == (0, {})
    # In the middle, which no value shows.
    numbers = (workspace / "numbers.txt").read_text().replace("\n10000\n", "\n10x00\n")
    elsewhere = copy_with(workspace, directory / "elsewhere", numbers=numbers)
    status, differ = played(stockade, calls, "--workspace", str(elsewhere))
    assert (status, [name[:3] for name in differ]) == (1, ["001", "002"])
    assert all("should have the SHA-256" in why[0] for why in differ.values())
    # At the end, which is compared where the rest is not the same twice.
    elsewhere = copy_with(workspace, directory / "other", numbers=numbers + "more\n")
    status, differ = played(stockade, calls, "--workspace", str(elsewhere))
    assert (status, [name[:3] for name in differ]) == (1, ["001", "002", "003"])


def test_what_looks_like_a_place_and_is_none_is_told_with_its_column(stockade: Stockade, directory: Path) -> None:
    calls = directory / "calls.jsonl"
    calls.write_text(
        '{"tool": "shell", "args": {"command": "echo ${job x}"}}\n'
        '{"tool": "job", "args": {"action": "read", "job": "${job 0}"}, "expect": {"text": "$${job x} ${job"}}\n'
        '{"tool": "shell", "args": {"command": "echo $${job x} ${job:1} ${jobs}"}, '
        '"expect": {"stdout": {"$sha256": "1"}}}\n'
    )
    done = stockade("run", str(calls), "--profile", "dev")
    assert done.returncode == 2, done.stdout
    told = [line.split(": ", 2)[1:] for line in done.stderr.splitlines() if str(calls) in line]
    assert [where.removeprefix(f"{calls}:") for where, _ in told] == ["1:28", "2:44", "3:97"]
    assert "'${job x}' is no place: " in told[0][1]


def test_a_job_that_no_call_has_started_is_named(stockade: Stockade, directory: Path) -> None:
    calls = directory / "calls.jsonl"
    calls.write_text('{"tool": "job", "args": {"action": "read", "job": "${job 1}"}}\n')
    status, differ = played(stockade, calls)
    assert status == 1
    assert differ == {
        "job (line 1)": ["${job 1} stands for a job that no call of this session has started: none so far"]
    }
