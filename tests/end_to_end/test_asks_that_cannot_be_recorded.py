"""What the ledger does not take has not been asked, and has not been answered, through the wire."""

import asyncio
import contextlib
import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from stockade_client.errors import DaemonError
from tests.end_to_end.session_s import asked, code, opened, result_of, start_with
from tests.end_to_end.stockaded import COMMAND_S, Stockaded

COMMAND = {"command": "touch made", "call_id": "c"}


@pytest.fixture
def served(stockaded: Stockaded) -> Stockaded:
    """A running daemon; the fixture of all ends it."""
    return start_with(stockaded, {"asking": '[approval]\ncommands = "ask"\nwait_s = 600\n'})


@contextmanager
def refusing(served: Stockaded, kind: str) -> Iterator[None]:
    """The ledger's own database refuses events of this type, for as long as the block runs."""
    ledger = served.state / "ledger.sqlite3"
    made = (
        f"CREATE TRIGGER refusing BEFORE INSERT ON events WHEN NEW.type = '{kind}' "
        "BEGIN SELECT RAISE(ABORT, 'not this one'); END"
    )
    with contextlib.closing(sqlite3.connect(ledger)) as connection:
        connection.execute(made)
        try:
            yield
        finally:
            connection.execute("DROP TRIGGER refusing")


async def test_an_ask_that_cannot_be_recorded_is_shown_to_nobody_and_runs_nothing(
    served: Stockaded, workspace: Path
) -> None:
    async with opened(served, workspace) as (daemon, session), daemon.approvals("s", changes=True) as asks:
        with refusing(served, "approval/asked"):
            call = await session.start("shell", **COMMAND)
            async with asyncio.timeout(COMMAND_S):
                assert code(await call.result()) != "ok"
        # What is heard of first is the next one.
        later = await session.start("shell", command="touch later")
        async with asyncio.timeout(COMMAND_S):
            ask = await anext(asks)
            assert ask.call == later.call_id
            await ask.decide(True)
            assert (await later.result()).ok, await later.result()
        async with session.events(call_id="c") as events:
            types = [event.type async for event in events]
    assert "approval/asked" not in types
    assert "call/dispatched" not in types
    assert types[-1] == "tool/result"
    assert not (workspace / "made").exists()


async def test_a_yes_that_cannot_be_recorded_is_none(served: Stockaded, workspace: Path) -> None:
    async with opened(served, workspace) as (daemon, session):
        await session.start("shell", **COMMAND)
        ask = await asked(daemon)
        with refusing(served, "approval/decided"):
            with pytest.raises(DaemonError):
                await ask.decide(True)
            result = await result_of(daemon)
        assert code(result) != "ok"
        async with session.events(call_id="c") as events:
            types = [event.type async for event in events]
    assert types.count("tool/result") == 1
    assert "approval/decided" not in types
    assert "call/dispatched" not in types
    assert not (workspace / "made").exists()
