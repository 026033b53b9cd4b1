"""`stockade approve` as a command: plain lines through pipes and at a terminal, and the screen at a terminal."""

import asyncio
import re
import signal
from collections.abc import Callable
from pathlib import Path
from subprocess import CompletedProcess

import pytest

from stockade_client import CallResult, Daemon, Session
from tests.client.approver import approving

Stockade = Callable[..., "CompletedProcess[bytes]"]
EDIT = {"path": "a.txt", "old_string": "two", "new_string": "2"}


async def edited(session: Session) -> "asyncio.Task[CallResult]":
    read = await session.call("read", path="a.txt")
    assert read.ok, read.error
    return asyncio.create_task(session.call("edit", **EDIT))


@pytest.mark.parametrize("terminal", [False, True], ids=["pipes", "terminal"])
async def test_plain_lines_show_the_whole_ask_and_take_yes_and_no(
    daemon: Daemon, environment: dict[str, str], workspace: Path, terminal: bool
) -> None:
    async with daemon.session(workspace, "dev") as session:
        arguments = ("--plain", "--session", session.session_id)
        with approving(environment, *arguments, terminal=terminal) as approver:
            await asyncio.to_thread(approver.until, b"Waiting for asks.")
            editing = await edited(session)
            _, shown = await asyncio.to_thread(approver.question)
            for part in (
                "Ask: Edit a.txt",
                "tool edit",
                "profile dev",
                "-two",
                "+2",
                "asked by",
                "waited",
                session.session_id,
            ):
                assert part.encode() in shown
            assert b"\x1b" not in shown
            approver.type(b"n not like this\n")
            result = await editing
            assert result.error is not None
            assert "said no: not like this." in result.error.message
            editing = await edited(session)
            other, _ = await asyncio.to_thread(approver.question)
            approver.type(b"y 00000000\n")
            await asyncio.to_thread(approver.until, b"Card 00000000 is not the one")
            approver.type(b"perhaps\n")
            await asyncio.to_thread(approver.until, b"Answer y, n")
            approver.type(f"y {other}\n".encode())
            assert (await editing).ok
            await asyncio.to_thread(approver.until, b"You said yes.")
            approver.process.send_signal(signal.SIGINT)
            assert await asyncio.to_thread(approver.ended) == 130
            assert b"Traceback" not in approver.shown


async def test_an_ask_that_ends_elsewhere_is_told_and_the_line_typed_for_it_is_not_kept(
    daemon: Daemon, environment: dict[str, str], workspace: Path
) -> None:
    async with daemon.session(workspace, "dev") as session, daemon.approvals(session.session_id) as asks:
        with approving(environment, "--plain", "--session", session.session_id, terminal=True) as approver:
            await asyncio.to_thread(approver.until, b"Waiting for asks.")
            editing = await edited(session)
            await asyncio.to_thread(approver.question)
            approver.type(b"y")  # no line yet
            await (await anext(asks)).decide(False, "elsewhere")
            await asyncio.to_thread(approver.until, b"Somebody else said no")
            await editing
            editing = await edited(session)
            await asyncio.to_thread(approver.question)
            approver.type(b"\n")
            await asyncio.to_thread(approver.until, b"Answer y, n")
            approver.type(b"q\n")
            assert await asyncio.to_thread(approver.ended) == 0
            await (await anext(asks)).decide(True)
            assert (await editing).ok


async def test_plain_lines_tell_who_else_begins_to_look_and_looks_away(
    daemon: Daemon, environment: dict[str, str], workspace: Path
) -> None:
    async with (
        daemon.session(workspace, "dev") as session,
        daemon.approvals(session.session_id, changes=True) as asks,
    ):
        with approving(environment, "--plain", "--session", session.session_id) as approver:
            await asyncio.to_thread(approver.until, b"Waiting for asks.")
            editing = await edited(session)
            ask = await anext(asks)
            card, _ = await asyncio.to_thread(approver.question)
            while not ask.claims:
                await anext(asks)
            async with ask.claim("zoe at pts/7"):
                again, shown = await asyncio.to_thread(approver.question)
                assert re.fullmatch(r"[^\n]*\nzoe at pts/7 \(\S+\) looks at it too\n", shown.decode())
            once_more, shown = await asyncio.to_thread(approver.question)
            assert shown.decode().endswith("\nNobody else looks at it any more.\n")
            assert card == again == once_more
            approver.type(b"y\n")
            assert (await editing).ok


async def test_lines_of_a_file_answer_and_its_end_leaves_the_rest(
    daemon: Daemon, stockade: Stockade, workspace: Path
) -> None:
    async with daemon.session(workspace, "dev") as session, daemon.approvals(session.session_id) as asks:
        editing = await edited(session)
        ask = await anext(asks)
        for lines, words in ((b"s\n", b"what waits goes on waiting."), (b"s\nq\n", b"Left for later")):
            arguments = ("approve", "--plain", "--session", session.session_id)
            done = await asyncio.to_thread(stockade, *arguments, stdin=lines)
            assert done.returncode == 0, done
            assert b"Ask: Edit a.txt" in done.stdout
            assert words in done.stdout
        assert not editing.done()
        await ask.decide(True)
        assert (await editing).ok


def test_without_a_terminal_it_says_what_to_do(stockade: Stockade) -> None:
    done = stockade("approve")
    assert done.returncode == 2
    assert b"add --plain" in done.stderr


async def test_an_unknown_session_is_told_with_a_near_name(daemon: Daemon, stockade: Stockade, workspace: Path) -> None:
    async with daemon.session(workspace, "dev", id="greeter-one"):
        done = await asyncio.to_thread(stockade, "approve", "--plain", "--session", "greter-one")
        await daemon.close_session("greeter-one")
    assert done.returncode == 2
    assert b"perhaps greeter-one" in done.stderr


@pytest.mark.parametrize(("end", "status"), [(b"q", 0), (b"\x03", 130), (signal.SIGTERM, 143)])
def test_the_screen_at_a_terminal_gives_the_terminal_back(
    environment: dict[str, str], end: "bytes | signal.Signals", status: int
) -> None:
    with approving({**environment, "TERM": "xterm-256color"}, terminal=True) as approver:
        approver.until(b"nothing waits")
        if isinstance(end, bytes):
            approver.type(end)
        else:
            approver.process.send_signal(end)
        assert approver.ended() == status
        assert b"\x1b[?1049l" in approver.shown  # the alternate screen is left
        assert b"Traceback" not in approver.shown


def test_the_screen_honours_no_color(environment: dict[str, str]) -> None:
    with approving({**environment, "TERM": "xterm-256color", "NO_COLOR": "1"}, terminal=True) as approver:
        approver.until(b"nothing waits")
        approver.type(b"q")
        assert approver.ended() == 0


def test_a_terminal_that_cannot_be_drawn_on_gets_plain_lines(environment: dict[str, str]) -> None:
    with approving({**environment, "TERM": "dumb"}, terminal=True) as approver:
        approver.until(b"Waiting for asks.")
        approver.process.send_signal(signal.SIGINT)
        assert approver.ended() == 130
        assert b"\x1b" not in approver.shown


def test_a_line_at_a_terminal_while_nothing_waits_hinders_no_later_one(environment: dict[str, str]) -> None:
    with approving(environment, "--plain", terminal=True) as approver:
        approver.until(b"Waiting for asks.")
        approver.type(b"\ny\nq\n")
        assert approver.ended() == 0


def test_a_pipe_that_ends_while_nothing_waits_ends_it_whatever_lines_it_had(environment: dict[str, str]) -> None:
    for lines in (b"", b"perhaps\ny 00000000\nno newline", b"\n\n"):
        with approving(environment, "--plain") as approver:
            approver.until(b"Waiting for asks.")
            approver.type(lines)
            approver.close()
            assert approver.ended() == 0
            assert (b"answered nothing" in approver.shown) == bool(lines.strip())


async def test_lines_of_a_pipe_that_has_ended_answer_what_waited_before_them(
    daemon: Daemon, environment: dict[str, str], workspace: Path
) -> None:
    async with daemon.session(workspace, "dev") as session, daemon.approvals(session.session_id) as asks:
        editing = await edited(session)
        await anext(asks)
        with approving(environment, "--plain", "--session", session.session_id) as approver:
            approver.type(b"y\n")
            approver.close()
            assert await asyncio.to_thread(approver.ended) == 0
            assert b"You said yes." in approver.shown
        assert (await editing).ok
