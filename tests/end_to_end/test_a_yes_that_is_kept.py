"""What is kept of an ask between two daemons counts only as long as it is what was shown, through the wire."""

import asyncio
import contextlib
import sqlite3
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from stockade_client import Call, CallResult, Daemon, NoAnswer, connect
from stockade_client.session import Session
from tests.end_to_end.session_s import asked
from tests.end_to_end.stockaded import COMMAND_S, Stockaded

TOOL = """
description = "Greets."
access = "overlay"
kind = "command"
title = "Greet"
[program]
argv = ["echo", "hello"]
"""
EDIT = {"path": "a.txt", "old_string": "two", "new_string": "2"}
BEFORE = "one\ntwo\nthree\n"


class KilledWhenAnswered(Stockaded):
    """The first daemon ends with the first answer that it records."""

    first = True

    @property
    def command(self) -> list[str]:
        found = super().command
        if self.first:
            found[found.index("stockade_daemon")] = "tests.end_to_end.killed_when_answered"
        return found


@pytest.fixture
def served(stockaded: Stockaded) -> KilledWhenAnswered:
    """A running daemon with a profile that asks, and a tool of the admin's; the fixture of all ends it."""
    profiles, tools = stockaded.directory / "profiles", stockaded.directory / "tools"
    for each in (profiles, tools):
        each.mkdir()
    (profiles / "asking.toml").write_text('[approval]\nwrites = "ask"\ncommands = "ask"\nwait_s = 600\n')
    (tools / "greet.toml").write_text(TOOL)
    with stockaded.configuration.open("a") as configuration:
        configuration.write(f'[profiles]\npaths = ["{profiles}"]\n[tools]\npaths = ["{tools}"]\n')
    stockaded.__class__ = KilledWhenAnswered
    assert isinstance(stockaded, KilledWhenAnswered)
    stockaded.start()
    return stockaded


@asynccontextmanager
async def opened(served: Stockaded, workspace: Path) -> AsyncIterator[tuple[Daemon, Session]]:
    """A session that stays open when the client goes."""
    async with connect(served.address) as daemon, daemon.session(workspace, "asking", id="s") as session:
        yield daemon, session


async def left(served: KilledWhenAnswered, workspace: Path, tool: str, answer: bool, **arguments: str) -> None:
    """A call `c` that asks, whose daemon was killed: when a yes was recorded (`answer`), or while it waited."""
    async with connect(served.address) as daemon:
        session = await daemon.session(workspace, "asking", id="s").__aenter__()
        if tool == "edit":
            assert (await session.call("read", path="a.txt")).ok
        await session.start(tool, call_id="c", **arguments)
        ask = await asked(daemon)
        assert served.process is not None
        if answer:
            daemon._link.patience_s = 0.0
            with pytest.raises(NoAnswer):
                await ask.decide(True)
            await asyncio.to_thread(served.process.wait, COMMAND_S)
        else:
            served.process.kill()
            await asyncio.to_thread(served.process.wait, COMMAND_S)
    assert served.process.stdout is not None
    served.process.stdout.close()
    served.first = False


async def told(session: Session) -> tuple[CallResult, list[str]]:
    """The call's result, and the types of its events."""
    call = Call(session._link, "s", "c", "")
    async with asyncio.timeout(COMMAND_S):
        result = await call.result()
    async with session.events(call_id="c") as events:
        return result, [event.type async for event in events]


async def test_a_recorded_yes_is_void_when_the_tool_has_changed_before_the_next_daemon(
    served: KilledWhenAnswered, workspace: Path
) -> None:
    await left(served, workspace, "greet", True)
    (served.directory / "tools" / "greet.toml").write_text(TOOL.replace("hello", "goodbye"))
    served.start()
    async with opened(served, workspace) as (_, session):
        result, types = await told(session)
    assert result.error is not None, result.value
    assert result.error.code == "APPROVAL_MISMATCH"
    assert "the tool greet has changed" in result.error.message
    assert "call/dispatched" not in types


async def test_a_recorded_yes_runs_once_under_the_next_daemon_where_nothing_has_changed(
    served: KilledWhenAnswered, workspace: Path
) -> None:
    await left(served, workspace, "greet", True)
    served.start()
    async with opened(served, workspace) as (_, session):
        result, types = await told(session)
    assert result.ok, result.error
    assert types.count("approval/decided") == types.count("call/dispatched") == 1


@pytest.mark.parametrize("answer", [True, False], ids=["answered", "waiting"])
async def test_staged_bytes_that_are_not_those_that_were_shown_are_never_committed(
    served: KilledWhenAnswered, workspace: Path, answer: bool
) -> None:
    await left(served, workspace, "edit", answer, **EDIT)
    change_staged(served.state / "ledger.sqlite3")
    served.start()
    async with opened(served, workspace) as (daemon, session):
        result, types = await told(session)
        assert result.error is not None, result.value
        assert result.error.code == "TOOL_OUTCOME_UNKNOWN"
        assert "effects: none" in result.error.message
        assert "what was staged is not what was shown" in served.log.read_text()
        assert await daemon.calls("s") == []  # nothing waits for an answer any more
    assert types.count("approval/decided") == 1
    assert "fs/begun" not in types
    assert (workspace / "a.txt").read_text() == BEFORE


def change_staged(ledger: Path) -> None:
    """The last byte of what the call would write, as a disk or somebody else may change it."""
    with contextlib.closing(sqlite3.connect(ledger)) as connection, connection:
        ((data,),) = connection.execute("SELECT data FROM outputs WHERE part = 'staged'").fetchall()
        assert data.endswith(b"one\n2\nthree\n")
        connection.execute("UPDATE outputs SET data = ? WHERE part = 'staged'", (data[:-2] + b"E\n",))
