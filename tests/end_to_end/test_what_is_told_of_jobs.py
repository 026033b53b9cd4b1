"""Background jobs through a real daemon: how many are remembered, how they count, what is told of their output."""

import signal
from pathlib import Path
from typing import Any

from stockade_client import connect
from stockade_daemon.registry import Registry
from tests.end_to_end.jobs import asked, begun, printed, session_of, value_of
from tests.end_to_end.session_s import code, opened, start_with
from tests.end_to_end.stockaded import Stockaded

# Its last word is written when the daemon has read all the rest.
TWO_MB = """
import array, fcntl, os, sys, termios
data = b"x" * (2 << 20)
while data:
    data = data[os.write(1, data):]
left = array.array("i", [1])
while left[0]:
    fcntl.ioctl(1, termios.FIONREAD, left)
os.write(2, b"all of it\\n")
import signal
signal.pause()
"""


async def test_the_last_64_jobs_are_listed(shared: Stockaded, workspace: Path) -> None:
    async with session_of(shared, workspace) as session:
        names = []
        for number in range(65):
            job = await begun(session, "true")
            names.append(job.call_id)
            await job.result()
            if number == 63:
                assert [each["job"] for each in (await asked(session, "list"))["jobs"]] == names
        assert [each["job"] for each in (await asked(session, "list"))["jobs"]] == names[1:]
        (oldest,) = (await asked(session, "wait", job=names[0]))["jobs"]
        assert (oldest["state"], oldest["exit_code"]) == ("ended", 0)


async def test_what_a_running_job_has_printed_is_told_whole(shared: Stockaded, workspace: Path) -> None:
    async with session_of(shared, workspace, tightening="limits.output_mb = 1") as session:
        result = await session.call("shell", argv=["python3", "-c", TWO_MB], background=True)
        job = session.job(value_of(result)["job"])
        async with job.output(part="stderr") as pieces:
            assert await anext(aiter(pieces)) == b"all of it\n"
        (listed,) = (await asked(session, "list"))["jobs"]
        assert (listed["state"], listed["stdout_bytes"]) == ("running", 2 << 20)
        await job.kill()
        (listed,) = (await asked(session, "list"))["jobs"]
        assert (listed["state"], listed["stdout_bytes"]) == ("ended", 2 << 20)


async def test_the_longest_read_of_bytes_that_are_no_text_reaches_the_model_whole(
    shared: Stockaded, workspace: Path
) -> None:
    schema: Any = Registry.load().find("job").input_schema
    most = schema["properties"]["limit"]["maximum"]
    async with session_of(shared, workspace) as session:
        job = await begun(session, f"head -c {2 * most} /dev/zero | tr '\\0' '\\377'")
        await job.result()
        result = await session.call("job", action="read", job=job.call_id, limit=most)
        assert value_of(result)["text"] == "\ufffd" * most
        assert result.content[0].startswith(f"{value_of(result)['text']}\n[{job.call_id} ")
        assert code(await session.call("job", action="read", job=job.call_id, limit=most + 1)) == "INVALID_ARGS"


async def test_a_view_without_a_job_is_refused_before_anybody_is_asked(stockaded: Stockaded, workspace: Path) -> None:
    start_with(stockaded, {"asking": '[approval]\ncommands = "ask"\nwait_s = 1\n'})
    async with opened(stockaded, workspace) as (_, session):
        for more in ({}, {"background": False}):
            result = await session.call("shell", command="true", workspace="read", **more)
            assert code(result) == "INVALID_ARGS"
        async with session.events(follow=False) as events:
            types = [event.type async for event in events]
    assert types == ["session/opened", *("tool/call", "tool/result") * 2]


async def test_a_job_and_the_call_that_starts_it_count_as_one(stockaded: Stockaded, workspace: Path) -> None:
    stockaded.start()
    async with session_of(stockaded, workspace, id="kept", tightening="budget.calls = 3") as session:
        await (await begun(session, "true")).result()
        assert (await session.call("read", path="a.txt")).ok
        stockaded.end(signal.SIGKILL)
        stockaded.start()
        await (await begun(session, "true")).result()
        assert code(await session.call("read", path="a.txt")) == "DENIED"


async def test_parents_are_told_of_jobs(shared: Stockaded, workspace: Path) -> None:
    async with session_of(shared, workspace) as session, connect(shared.address) as daemon:
        call = await session.start("shell", command="echo ready; sleep 1000", background=True)
        await call.result()
        (job,) = await session.jobs()
        await printed(job, b"ready\n")
        (listed,) = await daemon.calls(session.session_id)
        assert (listed.call_id, listed.parent) == (job.call_id, call.call_id)
        async with session.events(call_id=job.call_id) as events:
            first = await anext(aiter(events))
        assert (first.body["parent"], first.body["background"]) == (call.call_id, True)


async def test_a_job_that_could_change_nothing_is_not_said_to_have_lost_changes(
    shared: Stockaded, workspace: Path
) -> None:
    ends = {"read": "so it had changed nothing there", "overlay": "what it had changed was discarded"}
    async with session_of(shared, workspace) as session:
        for view, said in ends.items():
            job = await begun(session, "sleep 1000", workspace=view, timeout_s=1)
            result = await job.result()
            assert code(result) == "TOOL_TIMEOUT"
            assert result.error is not None
            assert said in result.error.message
