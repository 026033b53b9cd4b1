"""Asks and answers through a real daemon."""

import asyncio
from collections.abc import AsyncGenerator
from pathlib import Path

import pytest

from stockade_client import (
    Ask,
    AskAlreadyDecided,
    AskChanged,
    CallResult,
    Daemon,
    NoAnswer,
    NotFound,
    Session,
    Stream,
)
from stockade_client.approvals import _answer_all

EDIT = {"path": "a.txt", "old_string": "two", "new_string": "2"}


async def edited(session: Session) -> CallResult:
    """An edit that is asked about: the file has been read."""
    read = await session.call("read", path="a.txt")
    assert read.ok, read.error
    return await session.call("edit", **EDIT)


def code(result: CallResult) -> str:
    return result.error.code if result.error else ""


async def test_an_allowed_edit_is_committed_and_was_shown_exactly(daemon: Daemon, workspace: Path) -> None:
    asks: list[Ask] = []

    async def approve(ask: Ask) -> bool:
        asks.append(ask)
        return True

    async with daemon.session(workspace, "dev", approve=approve) as session:
        result = await edited(session)
    assert result.ok, result.error
    assert (workspace / "a.txt").read_text() == "one\n2\nthree\n"
    (ask,) = asks
    difference = ask.card["difference"]
    assert isinstance(difference, str)
    assert "-two\n" in difference
    assert "+2\n" in difference
    assert ask.card["profile"] == "dev"
    assert ask.call == result.call_id
    assert ask.answer is not None


async def test_a_no_leaves_the_file_and_its_reason_reaches_the_agent(daemon: Daemon, workspace: Path) -> None:
    async def approve(ask: Ask) -> None:
        await ask.decide(False, "not on a Friday")

    async with daemon.session(workspace, "dev", approve=approve) as session:
        result = await edited(session)
    assert code(result) == "APPROVAL_REJECTED"
    assert "not on a Friday" in str(result.error)
    assert (workspace / "a.txt").read_text() == "one\ntwo\nthree\n"


async def test_an_approver_that_fails_or_says_nothing_has_refused(daemon: Daemon, workspace: Path) -> None:
    async def fails(ask: Ask) -> bool:
        raise RuntimeError("out of coffee")

    async def silent(ask: Ask) -> None:
        return None

    for approve, reason in ((fails, "out of coffee"), (silent, "gave no answer")):
        async with daemon.session(workspace, "dev", approve=approve) as session:
            result = await edited(session)
        assert code(result) == "APPROVAL_REJECTED"
        assert reason in str(result.error)


async def test_without_an_approver_the_answer_is_unavailable(daemon: Daemon, workspace: Path) -> None:
    async with daemon.session(workspace, "dev") as session:
        assert code(await edited(session)) == "APPROVAL_UNAVAILABLE"


async def test_the_policy_never_rejects_without_asking(daemon: Daemon, workspace: Path) -> None:
    asked: list[Ask] = []

    async def approve(ask: Ask) -> bool:
        asked.append(ask)
        return True

    async with daemon.session(workspace, "dev", approve=approve, approval_policy="never") as session:
        assert code(await edited(session)) == "APPROVAL_REJECTED"
    assert asked == []


async def test_the_first_answer_wins(daemon: Daemon, workspace: Path) -> None:
    async with daemon.session(workspace, "dev") as session, daemon.approvals(session.session_id) as asks:
        editing = asyncio.create_task(edited(session))
        ask = await anext(asks)
        async with daemon.approvals(session.session_id) as others:
            same = await anext(others)
            first = await ask.decide(True)
            assert (await ask.decide(True)) == first
            with pytest.raises(AskAlreadyDecided):
                await same.decide(False)
        assert (await editing).ok


async def test_an_answer_to_something_else_than_was_shown_is_refused(daemon: Daemon, workspace: Path) -> None:
    async with daemon.session(workspace, "dev") as session, daemon.approvals() as asks:
        editing = asyncio.create_task(edited(session))
        async for ask in asks:
            if ask.session_id == session.session_id:
                break
        shown, ask.shown_hash = ask.shown_hash, "0" * 64
        with pytest.raises(AskChanged):
            await ask.decide(True)
        ask.shown_hash = shown
        await ask.decide(False)
        assert code(await editing) == "APPROVAL_REJECTED"


async def test_a_call_taken_back_while_it_asks_never_began(daemon: Daemon, workspace: Path) -> None:
    async with daemon.session(workspace, "dev") as session, daemon.approvals(session.session_id) as asks:
        await session.call("read", path="a.txt")
        call = await session.start("edit", **EDIT)
        ask = await anext(asks)
        await call.cancel()
        result = await call.result()
        assert code(result) in ("ABORTED", "ABORTED_BEFORE_DISPATCH")
        with pytest.raises(NotFound, match="withdrawn"):
            await ask.decide(True)
    assert (workspace / "a.txt").read_text() == "one\ntwo\nthree\n"


async def test_an_error_in_a_session_with_an_approver_is_raised_as_it_is(daemon: Daemon, workspace: Path) -> None:
    async def approve(ask: Ask) -> bool:
        return True

    with pytest.raises(ZeroDivisionError):
        async with daemon.session(workspace, "dev", approve=approve):
            raise ZeroDivisionError


async def test_an_approver_whose_daemon_is_gone_fails_with_the_clients_own_error() -> None:
    async def asks() -> AsyncGenerator[Ask, None]:
        nothing: tuple[Ask, ...] = ()
        for ask in nothing:
            yield ask
        raise NoAnswer("the daemon is gone")

    async def approve(ask: Ask) -> bool:
        return True

    with pytest.raises(NoAnswer):
        await _answer_all(Stream(asks()), approve)
