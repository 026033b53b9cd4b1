"""What a command printed, when its changes are asked about and another daemon takes the answer: all of it, in order."""

import signal
from pathlib import Path
from typing import Any

import pytest

from stockade_client import Call
from stockade_client.calls import Part
from tests.end_to_end.session_s import asked, code, opened, result_of, start_with
from tests.end_to_end.stockaded import Stockaded

ASKING = '[approval]\nwrites = "allow"\ncommands = "allow"\neffects = "ask"\nwait_s = 600\n[limits]\noutput_mb = 1\n'
PARTS: tuple[Part, ...] = ("stdout", "stderr", "both")
# Each piece is written when the daemon has read the one before: its pipe is empty.
SCRIPT = """
import array, fcntl, os, sys, termios
def written(descriptor, data):
    while data:
        data = data[os.write(descriptor, data):]
    left = array.array("i", [1])
    while left[0]:
        fcntl.ioctl(descriptor, termios.FIONREAD, left)
for number in range(int(sys.argv[1])):
    written(1, bytes([number % 251, 255, 10]) * int(sys.argv[2]))
    written(2, b"err %d\\n" % number)
open("made", "w").close()
"""


async def whole(call: Call, *, follow: bool) -> dict[Part, list[Any]]:
    """Every part: who wrote the bytes, and which."""
    found: dict[Part, list[Any]] = {}
    for part in PARTS:
        found[part] = []
        async with call.pieces(part=part, follow=follow) as pieces:
            async for piece in pieces:
                if found[part] and found[part][-1][0] == piece.part:
                    found[part][-1][1] += piece.data
                else:
                    found[part].append([piece.part, piece.data])
    return found


@pytest.mark.parametrize(
    ("pieces", "size", "number"),
    [
        pytest.param(40, 20, signal.SIGTERM, id="in memory"),
        pytest.param(5, 10_000, signal.SIGKILL, id="in a file"),
        pytest.param(5, 100_000, signal.SIGTERM, id="more than is kept"),
    ],
)
async def test_what_was_printed_before_the_restart_is_read_after_it(
    stockaded: Stockaded, workspace: Path, pieces: int, size: int, number: signal.Signals
) -> None:
    served = start_with(stockaded, {"asking": ASKING})
    async with opened(served, workspace) as (daemon, session):
        call = await session.start("shell", call_id="c", argv=["python3", "-c", SCRIPT, str(pieces), str(size)])
        await asked(daemon)
        before = await whole(call, follow=False)
        served.end(number)
    assert len(before["both"]) == min(pieces, 1 + (1 << 20) // (3 * size)) * 2
    served.start()
    async with opened(served, workspace) as (daemon, session):
        ask = await asked(daemon)
        assert await whole(daemon.call("s", "c"), follow=False) == before
        await ask.decide(True)
        result = await result_of(daemon)
        assert code(result) == "ok"
        value: Any = result.value
        assert await whole(daemon.call("s", "c"), follow=True) == before
        for part in ("stdout", "stderr"):
            kept = sum(len(data) for _, data in before[part])
            assert value[f"{part}_kept"] == kept
        assert value["stdout_bytes"] == 3 * size * pieces
    served.end(signal.SIGKILL)
    served.start()
    async with opened(served, workspace) as (daemon, _):
        assert await whole(daemon.call("s", "c"), follow=False) == before
