"""Commands that go on after their call: through a real daemon, as a client and as a model see them."""

import asyncio
import os
import select
import signal
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pytest

from stockade_client import NotPossible, connect
from stockade_client.sync import connect as connect_sync
from tests.end_to_end.jobs import asked, begun, printed, session_of, value_of
from tests.end_to_end.profile_admin import HANG_S
from tests.end_to_end.stockaded import Stockaded, running


@contextmanager
def ending(word: str) -> Iterator[list[int]]:
    """Descriptors (pidfd_open(2)) of the processes with `word` on their command line, of which there are some."""
    with ExitStack() as stack:
        pidfds = []
        for pid in running(word):
            pidfds.append(os.pidfd_open(pid))
            stack.callback(os.close, pidfds[-1])
        assert pidfds
        yield pidfds


def all_ended(pidfds: Sequence[int]) -> bool:
    return all(select.select([each], [], [], HANG_S)[0] for each in pidfds)


async def test_a_job_goes_on_after_its_call_and_has_a_result_of_its_own(shared: Stockaded, workspace: Path) -> None:
    async with session_of(shared, workspace) as session:
        job = await begun(
            session, "echo ready; until read -r line < go 2> /dev/null; do sleep 0.02; done; echo $line; exit 3"
        )
        await printed(job, b"ready\n")
        assert [each.call_id for each in await session.jobs()] == [job.call_id]
        (workspace / "go").write_text("seen live\n")  # a view for looking shows what others change
        result = await job.result()
        assert (result.ok, value_of(result)["exit_code"], value_of(result)["stdout"]) == (True, 3, "ready\nseen live\n")
        assert await session.jobs() == []
        async with session.events(call_id=job.call_id) as events:
            types = [event.type async for event in events]
        assert types == ["tool/call", "policy/guards", "call/dispatched", "policy/post-execute", "tool/result"]


async def test_a_job_that_only_looks_sees_what_others_do(shared: Stockaded, workspace: Path) -> None:
    for name in ("d/replaced", "d/removed", "rewritten"):
        (workspace / name).parent.mkdir(exist_ok=True)
        (workspace / name).write_text("before\n")
    names = "a.txt d/replaced d/removed rewritten d/made made/below"
    script = f"""
        look() {{ for each in {names}; do cat $each 2>/dev/null || echo none; done; }}
        look; echo ready; cd d
        until [ ! -e removed ] && grep -q after replaced && [ -e made ] && [ -e ../made/below ] \
            && grep -q after ../rewritten && grep -q TWO ../a.txt; do sleep 0.02; done
        cd ..; look
    """
    async with session_of(shared, workspace) as session:
        job = await begun(session, script)
        first = await printed(job, b"ready\n")
        assert first == b"one\ntwo\nthree\nbefore\nbefore\nbefore\nnone\nnone\nready\n"
        # By way of another name, as editors and git do; in place; and through the gate.
        (workspace / "d/new").write_text("after\n")
        (workspace / "d/new").replace(workspace / "d/replaced")
        (workspace / "d/removed").unlink()
        with (workspace / "rewritten").open("r+") as file:
            file.write("after \n")
        (workspace / "d/made").write_text("made\n")
        (workspace / "made").mkdir()
        (workspace / "made/below").write_text("below\n")
        assert (await session.call("read", path="a.txt")).ok
        assert (await session.call("edit", path="a.txt", old_string="two", new_string="TWO")).ok
        value = value_of(await job.result())
        assert value["stdout"].partition("ready\n")[2] == "one\nTWO\nthree\nafter\nnone\nafter \nmade\nbelow\n"


async def test_a_job_that_only_looks_cannot_change_the_workspace(shared: Stockaded, workspace: Path) -> None:
    async with session_of(shared, workspace) as session:
        job = await begun(session, "echo own > /tmp/own && cat /tmp/own; echo x > new.txt; echo x >> a.txt; rm a.txt")
        result = await job.result()
        assert value_of(result)["stdout"] == "own\n"
        assert value_of(result)["stderr"].count("Read-only file system") == 3
        assert os.listdir(workspace) == ["a.txt"]
        assert (workspace / "a.txt").read_text() == "one\ntwo\nthree\n"


async def test_what_a_job_on_an_overlay_changes_is_committed_when_it_ends(shared: Stockaded, workspace: Path) -> None:
    async with session_of(shared, workspace) as session:
        script = "echo made > made.txt; echo ready; until [ -e /tmp/go ]; do sleep 0.02; done"
        job = await begun(session, f"trap 'touch /tmp/go' USR1; {script}", workspace="overlay")
        await printed(job, b"ready\n")
        assert not (workspace / "made.txt").exists()
        await job.signal("SIGUSR1")
        result = await job.result()
        assert result.ok, result
        assert (value_of(result)["effects_disposition"], (workspace / "made.txt").read_text()) == (
            "committed",
            "made\n",
        )


async def test_the_model_lists_reads_on_waits_signals_and_kills(shared: Stockaded, workspace: Path) -> None:
    async with session_of(shared, workspace) as session:
        script = "trap 'echo heard; exit 7' TERM; printf 'h\\303\\251llo\\n'; while :; do sleep 0.02; done"
        job = (await begun(session, script)).call_id
        await printed(session.job(job), b"llo\n")
        listed = (await asked(session, "list"))["jobs"]
        assert [(each["job"], each["state"]) for each in listed] == [(job, "running")]
        first = await asked(session, "read", job=job, limit=4)
        assert (first["text"], first["next"], first["end"]) == ("hél", 4, False)
        cut = await asked(session, "read", job=job, offset=1, limit=4)
        assert cut["text"] == "éll"
        rest = await asked(session, "read", job=job, offset=first["next"])
        assert (rest["text"], rest["next"], rest["end"]) == ("lo\n", 7, False)
        assert (await asked(session, "wait", job=job, wait_s=0))["jobs"][0]["state"] == "running"
        await asked(session, "signal", job=job, signal="SIGTERM")
        (ended,) = (await asked(session, "wait", job=job))["jobs"]
        assert (ended["state"], ended["exit_code"]) == ("ended", 7)
        last = await asked(session, "read", job=job, offset=7)
        assert (last["text"], last["end"]) == ("heard\n", True)

        other = await begun(session, "sleep 1000")
        (killed,) = (await asked(session, "kill", job=other.call_id))["jobs"]
        assert killed["state"] == "ended"
        assert killed["error"].startswith("ABORTED: ")


async def test_a_handle_waits_signals_and_kills(shared: Stockaded, workspace: Path) -> None:
    async with session_of(shared, workspace) as session:
        job = await begun(session, "exec sleep 1000")
        assert await job.wait(0) is None
        await job.signal("SIGINT")
        assert value_of(await job.result())["signal"] == signal.SIGINT
        with pytest.raises(NotPossible, match="runs no command"):
            await job.signal("SIGINT")
        other = await begun(session, "sleep 1000")
        result = await other.kill()
        assert result.error is not None
        assert result.error.code == "ABORTED"


def test_jobs_without_asyncio(shared: Stockaded, workspace: Path) -> None:
    with connect_sync(shared.address) as daemon, daemon.session(workspace, "ci") as session:
        result = session.call("shell", command="echo out; exec sleep 1000", background=True)
        (job,) = session.jobs()
        assert value_of(result)["job"] == job.call_id
        assert job.wait(0) is None
        job.signal("SIGTERM")
        assert value_of(job.result())["signal"] == signal.SIGTERM
        assert session.job(job.call_id).kill().ok  # it has its result, and that stays


async def test_one_job_more_than_the_profile_allows_is_refused(shared: Stockaded, workspace: Path) -> None:
    async with session_of(shared, workspace, tightening="limits.jobs = 1") as session:
        job = await begun(session, "sleep 1000")
        result = await session.call("shell", command="true", background=True)
        assert result.error is not None
        assert result.error.code == "RESOURCE_LIMIT"
        assert f"1 are under way ({job.call_id})" in result.error.message
        await job.kill()
        await (await begun(session, "true")).result()


async def test_a_job_has_a_longest_time_of_its_own(shared: Stockaded, workspace: Path) -> None:
    tightening = "limits.wall_s = 0.1\nlimits.job_s = 0.3"
    async with session_of(shared, workspace, tightening=tightening) as session:
        result = await (await begun(session, "sleep 1000")).result()
        assert result.error is not None
        assert (result.error.code, "limits.job_s of profile ci" in result.error.message) == ("TOOL_TIMEOUT", True)


async def test_two_sessions_do_not_see_each_others_jobs(shared: Stockaded, workspace: Path) -> None:
    async with session_of(shared, workspace) as one, session_of(shared, workspace) as other:
        job = await begun(one, "sleep 1000")
        assert await other.jobs() == []
        assert (await asked(other, "list"))["jobs"] == []
        for action in ("read", "wait", "signal", "kill"):
            result = await other.call("job", action=action, job=job.call_id)
            assert result.error is not None
            assert "this session has no job" in result.error.message
        assert await job.wait(0) is None


async def test_a_call_that_is_no_job_is_none_to_the_tool(shared: Stockaded, workspace: Path) -> None:
    async with session_of(shared, workspace) as session:
        call = await session.start("shell", command="sleep 1000")
        result = await session.call("job", action="kill", job=call.call_id)
        assert result.error is not None
        assert result.error.code == "INVALID_ARGS"
        assert call.settled is None
        await call.cancel()


async def test_a_job_ends_with_its_session(shared: Stockaded, workspace: Path) -> None:
    async with session_of(shared, workspace) as session:
        job = await begun(session, ": ends-with-session; echo ready; sleep 1000; true")
        await printed(job, b"ready\n")
        assert running("ends-with-session") != []
    assert running("ends-with-session") == []
    async with connect(shared.address) as daemon:
        result = await daemon.call(session.session_id, job.call_id).result()
    assert result.error is not None
    assert result.error.code == "ABORTED"


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGKILL])
async def test_nothing_is_left_of_a_job_when_the_daemon_ends(
    stockaded: Stockaded, workspace: Path, number: signal.Signals
) -> None:
    word = f"ends-with-daemon-{number.name}"
    stockaded.start()
    async with session_of(stockaded, workspace, id="kept") as session:
        job = await begun(session, f": {word}; echo ready; sleep 1000; true")
        await printed(job, b"ready\n")
        with ending(word) as left:
            stockaded.end(number)
            # After SIGKILL the kernel alone ends them.
            assert await asyncio.to_thread(all_ended, left)
        assert running(word) == []
        stockaded.start()
        result = await job.result()
        assert result.error is not None
        assert result.error.code == ("ABORTED" if number == signal.SIGTERM else "TOOL_OUTCOME_UNKNOWN")
        assert await session.jobs() == []
        (told,) = (await asked(session, "wait", job=job.call_id))["jobs"]
        assert told["state"] == "ended"
