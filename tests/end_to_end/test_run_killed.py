"""`stockade run` at a shared daemon that is killed: its sessions end by themselves, and one that lives keeps its."""

import asyncio
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from stockade_client import Daemon, connect
from tests.end_to_end.stockaded import COMMAND_S, Stockaded, running
from tests.end_to_end.test_leases import ended_by_its_lease, told
from tests.end_to_end.test_run_command import READ, shell, write

# The command with a shorter lease than people's.
RUN = (
    "import sys; from stockade_client.runs import scheduling; scheduling.LEASE_S = float(sys.argv.pop(1)); "
    "from stockade_client.__main__ import main; main()"
)


@contextmanager
def started(daemon: Stockaded, workspace: Path, lease_s: float, *arguments: str) -> Iterator[subprocess.Popen[str]]:
    with subprocess.Popen(
        [sys.executable, "-c", RUN, str(lease_s), "run", *arguments, "--profile", "ci"],
        cwd=workspace,
        env=daemon.environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as process:
        try:
            yield process
        finally:
            process.kill()


async def calling(daemon: Daemon, count: int) -> set[str]:
    """The sessions whose calls are running, once there are so many."""
    async with asyncio.timeout(COMMAND_S):
        while True:
            sessions = {call.session_id for call in await daemon.calls() if call.state == "running"}
            if len(sessions) == count:
                return sessions


async def test_what_a_killed_run_has_left_at_a_shared_daemon_ends_by_itself(
    stockaded: Stockaded, workspace: Path, directory: Path
) -> None:
    word = f"6{os.getpid()}01"
    calls = write(directory / "calls.jsonl", *[{"name": f"{n}", **shell(f"exec sleep {word}")} for n in range(2)])
    stockaded.start()
    async with connect(stockaded.address) as daemon:
        with started(stockaded, workspace, 2, calls, "--jobs", "2") as process:
            sessions = await calling(daemon, 2)
            assert set(os.listdir(stockaded.state / "copies")) == {f"of-{each}" for each in sessions}
            process.kill()
            process.wait()
            for each in sessions:
                events = await told(daemon, each)
                (result,) = [event for event in events if event.type == "tool/result"]
                assert "the session's lease ended while it ran" in str(result.body["error"])
                assert ended_by_its_lease(events[-1], 2)
                await daemon.close_session(each)  # returns when all that it held is gone
        assert os.listdir(stockaded.state / "copies") == []
        assert running(word) == []
        assert {each.state for each in await daemon.sessions()} == {"closed"}
        # The daemon is as it was.
        async with daemon.session(workspace, "ci", workspace_view="copy") as session:
            assert (await session.call("shell", command="cat a.txt")).field("stdout") == "one\ntwo\nthree\n"
    assert stockaded.end() == 0


async def test_a_run_that_stood_still_longer_than_its_lease_plays_once_more_what_it_has_lost(
    stockaded: Stockaded, workspace: Path, directory: Path
) -> None:
    calls = write(directory / "calls.jsonl", {"name": "slow", **shell("sleep 3")})
    stockaded.start()
    async with connect(stockaded.address) as daemon:
        with started(stockaded, workspace, 2, calls) as process:
            (session,) = await calling(daemon, 1)
            process.send_signal(signal.SIGSTOP)
            assert ended_by_its_lease((await told(daemon, session))[-1], 2)
            process.send_signal(signal.SIGCONT)
            out, err = await asyncio.to_thread(process.communicate, timeout=COMMAND_S)
    assert process.returncode == 0, out + err
    assert "1 passed" in out
    assert "attempt 2" in out


def test_a_run_that_takes_longer_than_several_leases_is_not_cut(
    shared: Stockaded, workspace: Path, directory: Path
) -> None:
    together = [{"isolation": "run"}, {"name": "long", **shell("sleep 10; echo x > b")}, {"name": "after", **READ}]
    calls = write(directory / "calls.jsonl", *together, {"name": "kept", "tool": "read", "args": {"path": "b"}})
    with started(shared, workspace, 3, calls) as process:
        out, err = process.communicate(timeout=COMMAND_S)
    assert process.returncode == 0, out + err
    assert "3 passed" in out
    assert "attempt" not in out
