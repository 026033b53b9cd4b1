"""What commands print, through a real daemon: head and tail, both streams in order, text, and output past the limit."""

import re
from pathlib import Path
from typing import Any

import pytest

from stockade_client import Daemon
from stockade_client.results import CallResult
from stockade_client.session import Session

MB = 1 << 20
STOPPING = '[limits]\noutput_mb = 1\noutput_past = "stop"\n'
CUTTING = "[limits]\noutput_mb = 1\n"
# Each line is written when the daemon has read the one before: its pipe is empty.
IN_TURNS = """
import fcntl, os, sys, termios, array
def written(descriptor, text):
    os.write(descriptor, text)
    left = array.array("i", [1])
    while left[0]:
        fcntl.ioctl(descriptor, termios.FIONREAD, left)
for number in range({count}):
    written(1, b"out %d\\n" % number)
    written(2, b"err %d\\n" % number)
"""


def value(result: CallResult) -> Any:
    return result.value


@pytest.fixture
def profiles(workspace: Path) -> dict[str, Path]:
    found = {}
    for name, text in (("stopping", STOPPING), ("cutting", CUTTING)):
        found[name] = workspace.parent / f"{workspace.name}-{name}.toml"
        found[name].write_text(text)
    return found


async def test_head_and_tail_of_what_was_not_kept_are_in_the_result(
    daemon: Daemon, workspace: Path, profiles: dict[str, Path]
) -> None:
    async with daemon.session(workspace=workspace, profile=profiles["cutting"]) as session:
        call = await session.start("shell", command="seq 1000000; echo THE END")
        result = await call.result()
        whole = "".join(f"{number}\n" for number in range(1, 1_000_001)) + "THE END\n"
        found = value(result)
        assert result.ok
        assert found["truncated"]
        assert (found["stdout_bytes"], found["stdout_kept"]) == (len(whole), MB)
        for text in (found["stdout"], result.content[0]):
            head, left_out, tail = told(text)
            assert whole.startswith(head)
            assert whole.endswith(tail)
            assert len(head) + left_out + len(tail) == len(whole)
            assert f"the first {MB} were kept (limits.output_mb)" in text
            assert told_to_people(call.call_id, len(head), text) == (text is found["stdout"])
            assert ("a command that prints only that part" in text) == (text is not found["stdout"])
        async with call.output(offset=MB - 10) as chunks:
            assert b"".join([chunk async for chunk in chunks]).decode() == whole[MB - 10 : MB]


def told_to_people(call_id: str, offset: int, text: str) -> bool:
    return f"`stockade output {call_id} --offset {offset}` reads on from here" in text


def told(text: str) -> tuple[str, int, str]:
    """Head, how much is left out, tail."""
    found = re.fullmatch(r"(.*)\n\[(\d+) bytes left out[^\]]*\]\n(.*)", text, re.DOTALL)
    assert found, text[:200]
    return found[1], int(found[2]), found[3]


async def test_what_is_left_out_begins_and_ends_between_characters(session: Session) -> None:
    for begin in range(4):
        program = f"import sys; sys.stdout.buffer.write(b'a' * {begin} + '\\U0001F600'.encode() * 50_000)"
        result = await session.call("shell", argv=["python3", "-c", program])
        for text in (value(result)["stdout"], result.content[0]):
            assert "\ufffd" not in text
            head, left_out, tail = told(text)
            assert len(head.encode()) + left_out + len(tail.encode()) == begin + 200_000


async def test_output_past_the_limit_ends_the_command_where_the_profile_says_so(
    daemon: Daemon, workspace: Path, profiles: dict[str, Path]
) -> None:
    async with daemon.session(workspace=workspace, profile=profiles["stopping"]) as session:
        result = await session.call("shell", command="echo begun > new; yes >&2")
        assert result.error is not None
        assert result.error.code == "OUTPUT_LIMIT"
        assert "more than 1 MiB to stderr (limits.output_mb of profile" in result.error.message
        found = value(result)
        assert (found["killed"], found["timed_out"], found["stderr_kept"]) == (True, False, MB)
        assert found["stderr"].startswith("y\ny\n")
        assert found["stderr"].endswith("y\n")
        assert found["effects_disposition"] == "discarded"
        assert not (workspace / "new").exists()
        # Also what ends by itself, whichever comes first; and what stays within is not concerned.
        result = await session.call("shell", command=f"head -c {MB + 1} /dev/zero")
        assert result.error is not None
        assert result.error.code == "OUTPUT_LIMIT"
        assert (await session.call("shell", command=f"head -c {MB} /dev/zero; head -c {MB} /dev/zero >&2")).ok


async def test_both_streams_are_read_in_the_order_in_which_they_arrived(session: Session) -> None:
    program = IN_TURNS.format(count=300)
    call = await session.start("shell", argv=["python3", "-c", program])
    while_it_runs = await both_of(call)
    assert (await call.result()).ok
    wanted = "".join(f"out {number}\nerr {number}\n" for number in range(300)).encode()
    assert b"".join(data for _, _, data in while_it_runs) == wanted
    assert b"".join(data for part, _, data in while_it_runs if part == "stderr").startswith(b"err 0\nerr 1\n")
    afterwards = await both_of(call)
    assert b"".join(data for _, _, data in afterwards) == wanted
    for offset in (1, 5999, len(wanted) - 1, len(wanted), len(wanted) + 1):
        rest = await both_of(call, offset)
        assert b"".join(data for _, _, data in rest) == wanted[offset:]
        assert not rest or rest[0][1] == offset


async def both_of(call: Any, offset: int = 0) -> list[tuple[str, int, bytes]]:
    async with call.pieces(offset) as pieces:
        return [(piece.part, piece.offset, piece.data) async for piece in pieces]


async def test_both_streams_too_long_for_memory_are_read_in_their_order(session: Session) -> None:
    command = (
        "for i in 1 2 3; do head -c 300000 /dev/zero | tr '\\0' o; head -c 300000 /dev/zero | tr '\\0' e >&2; done"
    )
    call = await session.start("shell", command=command)
    assert (await call.result()).ok
    pieces = await both_of(call)
    assert [offset for _, offset, _ in pieces] == [
        sum(len(data) for _, _, data in pieces[:number]) for number in range(len(pieces))
    ]
    for part, letter in (("stdout", b"o"), ("stderr", b"e")):
        assert b"".join(data for of, _, data in pieces if of == part) == letter * 900_000


async def test_text_that_comes_in_pieces_has_whole_characters(session: Session) -> None:
    program = (
        "import os, time\n"
        "for byte in '\\u00e9\\u20ac\\U0001F600'.encode() * 20:\n    os.write(1, bytes([byte])); os.write(2, b'.')\n"
        "os.write(1, b'\\xff')"
    )
    call = await session.start("shell", argv=["python3", "-c", program])
    async with call.text(part="stdout") as texts:
        assert "".join([text async for text in texts]) == "é€😀" * 20 + "\ufffd"
    async with call.text() as texts:
        text = "".join([text async for text in texts])
    assert text.replace(".", "") == "é€😀" * 20 + "\ufffd"
    assert text.count(".") == 180
