"""What stands at an offset of an output never changes: through a kill of the daemon, and while somebody is asked."""

import asyncio
import json
import signal
from pathlib import Path
from typing import Any

import pytest

from stockade_client import Call
from stockade_client.approvals import Ask
from tests.end_to_end.session_s import asked, code, opened, result_of, start_with
from tests.end_to_end.stockaded import COMMAND_S, SLEEPER, Stockaded, woken

PROFILES = {
    "asking": '[approval]\nreads = "allow"\ncommands = "allow"\nwrites = "ask"\neffects = "ask"\nwait_s = 600\n',
}
# Each line is written when the daemon has read the one before.
IN_TURNS = """
import array, fcntl, os, termios, time
def written(descriptor, text):
    os.write(descriptor, text)
    left = array.array("i", [1])
    while left[0]:
        fcntl.ioctl(descriptor, termios.FIONREAD, left)
for number in range(300):
    written(1, b"out %04d\\n" % number * 40)
    written(2, b"err %04d\\n" % number * 50)
time.sleep(600)
"""
# Ends when the daemon has read what is in both pipes.
READ = """python3 -c '
import array, fcntl, termios
for descriptor in (1, 2):
    left = array.array("i", [1])
    while left[0]:
        fcntl.ioctl(descriptor, termios.FIONREAD, left)
'"""
WANTED = b"".join(b"out %04d\n" % number * 40 + b"err %04d\n" % number * 50 for number in range(300))


@pytest.fixture
def served(stockaded: Stockaded) -> Stockaded:
    return start_with(stockaded, PROFILES)


async def read(call: Call, part: Any = "both", offset: int = 0, *, follow: bool = False) -> bytes:
    async with asyncio.timeout(COMMAND_S), call.output(offset, part, follow) as pieces:
        return b"".join([piece async for piece in pieces])


async def test_after_a_kill_of_the_daemon_both_streams_are_what_was_read_before(
    served: Stockaded, workspace: Path
) -> None:
    """A reader in the middle goes on at his offset by himself; one who comes later finds the same."""
    async with opened(served, workspace) as (_, session), asyncio.timeout(COMMAND_S):
        call = await session.start("shell", call_id="c", argv=["python3", "-c", IN_TURNS])
        seen, killed = b"", False
        async with call.output(part="both") as pieces:
            async for piece in pieces:
                seen += piece
                if len(seen) > 150_000 and not killed:
                    await printed(call, len(WANTED))
                    served.end(signal.SIGKILL)
                    served.start()
                    killed = True
        assert code(await call.result()) == "TOOL_OUTCOME_UNKNOWN"
        assert seen == WANTED
        assert await read(call) == WANTED
        assert await read(call, offset=150_001) == WANTED[150_001:]
        assert await read(call, "stderr") == b"".join(b"err %04d\n" % number * 50 for number in range(300))


async def printed(call: Call, size: int) -> None:
    """Waits until so much of both can be read."""
    async with call.output(part="both") as pieces:
        async for piece in pieces:
            size -= len(piece)
            if not size:
                return
    raise AssertionError("it ended before")


async def asked_about(served: Stockaded, workspace: Path, command: str, number: signal.Signals) -> Ask:
    """The ask about what call `c` changed; the daemon that ran it has ended meanwhile."""
    async with opened(served, workspace) as (daemon, session):
        await session.start("shell", call_id="c", command=command)
        ask = await asked(daemon)
        served.end(number)
    served.start()
    return ask


@pytest.mark.parametrize(
    ("number", "lines"), [(signal.SIGKILL, 3), (signal.SIGKILL, 30_000), (signal.SIGTERM, 3), (signal.SIGTERM, 30_000)]
)
async def test_the_output_of_a_command_whose_changes_are_asked_about_outlives_its_daemon(
    served: Stockaded, workspace: Path, number: signal.Signals, lines: int
) -> None:
    out = b"".join(b"%d\n" % each for each in range(1, lines + 1))
    command = f"seq {lines}; {READ}; echo err >&2; {READ}; echo last; echo new > new"
    await asked_about(served, workspace, command, number)
    async with opened(served, workspace) as (daemon, _):
        ask = await asked(daemon)
        call = daemon.call("s", "c", "shell")
        assert await read(call) == out + b"err\nlast\n"
        following = asyncio.create_task(read(call, offset=len(out), follow=True))
        assert (await ask.decide(True)).allow
        result = await result_of(daemon)
        assert result.ok, result.error
        assert result.field("stdout_bytes") == len(out) + len(b"last\n")
        assert await following == b"err\nlast\n"
        assert await read(call) == out + b"err\nlast\n"
        assert await read(call, "stdout") == out + b"last\n"
        assert await read(call, "stderr", 1) == b"rr\n"
    assert (workspace / "new").read_text() == "new\n"


async def test_whoever_follows_a_call_of_a_turn_before_its_place_has_come_reads_all_of_it(
    served: Stockaded, workspace: Path
) -> None:
    async with opened(served, workspace) as (daemon, session), asyncio.timeout(COMMAND_S):
        turn = asyncio.create_task(
            session.turn_json(
                [
                    ("shell", json.dumps({"command": f"{SLEEPER} || :"}).encode(), "one"),
                    ("shell", b'{"command": "echo two"}', "two"),
                ]
            )
        )
        while [each.call_id for each in await daemon.calls("s")] != ["one", "two"]:
            assert not turn.done()
        following = asyncio.create_task(read(daemon.call("s", "two", "shell"), follow=True))
        await daemon.calls("s")  # a request after that one
        assert not turn.done()
        await woken()
        assert await following == b"two\n"
        assert [result.ok for result in await turn] == [True, True]
