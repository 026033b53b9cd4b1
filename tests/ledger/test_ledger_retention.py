"""Old closed sessions leave the ledger whole; nothing else does."""

import asyncio
import os
import sqlite3
import time
from collections.abc import Callable
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import pytest

from stockade_daemon.ledger import Ledger, SessionRecord, file
from stockade_daemon.pipeline.arrival import Arrival
from stockade_daemon.pipeline.kept_bytes import FILES, KeptBytes, file_of
from stockade_daemon.pipeline.output import Output
from stockade_daemon.pipeline.retention import expire, keeping

Make = Callable[[str], SessionRecord]
DAY_MS = 24 * 60 * 60 * 1000


@pytest.fixture
def outputs(path: str) -> Path:
    directory = Path(path).parent / "outputs"
    directory.mkdir(mode=0o700)
    return directory


async def session(ledger: Ledger, record: SessionRecord, outputs: Path, *, closed: bool, settled: bool = True) -> None:
    """With a call that has a large value, and a long output in a file."""
    id = record.session_id
    await ledger.open_session(record)
    await ledger.start_call(id, "c", "shell", "d", {}, {"arguments": b"{}"})
    out, err, order = (file_of(outputs, id, "c", part) for part in FILES)
    arrival = Arrival()
    kept = KeptBytes((out, err, order), arrival)
    await Output(kept, arrival, 0, cap=1 << 20).append(b"x" * 100_000)
    kept.close()
    if settled:
        await ledger.settle(id, "c", {"ok": True, "value": "x" * 100_000})
    if closed:
        await ledger.close_session(id)


def days_ago(path: str, session_id: str, days: int) -> None:
    """Sets the times of a session's events, as if all had happened so long ago."""
    then = time.time_ns() // 1_000_000 - days * DAY_MS
    with closing(sqlite3.connect(path)) as connection:
        connection.execute(
            "UPDATE events SET time_ms = ? WHERE session_no = (SELECT session_no FROM sessions WHERE session_id = ?)",
            (then, session_id),
        )
        connection.commit()


def size_of(path: str) -> int:
    return os.path.getsize(path)


def rows(path: str) -> dict[str, int]:
    with closing(sqlite3.connect(path)) as connection:
        return {
            table: connection.execute(f"SELECT count(*) FROM {table}").fetchone()[0]
            for table in ("sessions", "events", "calls", "outputs")
        }


async def test_only_closed_sessions_that_are_old_enough_are_removed_and_whole(
    path: str, record: Make, outputs: Path
) -> None:
    async with Ledger.open(path) as ledger:
        for id, closed in (("old", True), ("young", True), ("open", False)):
            await session(ledger, record(id), outputs, closed=closed)
        await session(ledger, record("unsettled"), outputs, closed=False, settled=False)
        for id, days in (("old", 31), ("young", 29), ("open", 31), ("unsettled", 31)):
            days_ago(path, id, days)
        async with keeping(ledger, outputs, keep_days=30):
            pass
        assert [each.session_id for each in await ledger.sessions()] == ["young", "open", "unsettled"]
        assert await ledger.read("old") == []
        assert await ledger.call("old", "c") is None
        assert await ledger.output("old", "c", "value") is None
        assert rows(path) == {"sessions": 3, "events": 4 + 3 + 2, "calls": 3, "outputs": 2 + 2 + 1}
    kept = {file_of(outputs, id, "c", "stdout").name for id in ("young", "open", "unsettled")}
    assert set(os.listdir(outputs)) == kept


async def test_a_closed_session_with_a_call_without_a_result_would_stay(path: str, record: Make, outputs: Path) -> None:
    """The ledger lets none be closed so; a file that says it all the same keeps what recovery needs."""
    async with Ledger.open(path) as ledger:
        await session(ledger, record("s"), outputs, closed=False, settled=False)
        with closing(sqlite3.connect(path)) as connection:
            connection.execute("UPDATE sessions SET state = 'closed'")
            connection.commit()
        days_ago(path, "s", 400)
        assert await expire(ledger, outputs, before_ms=time.time_ns() // 1_000_000) == 0
        assert len(await ledger.unsettled()) == 1
    assert len(os.listdir(outputs)) == 1


async def test_a_session_is_as_old_as_its_newest_event(path: str, record: Make, outputs: Path) -> None:
    async with Ledger.open(path) as ledger:
        await session(ledger, replace(record("s"), opened_ms=0), outputs, closed=True)
        assert await ledger.expired(time.time_ns() // 1_000_000 - DAY_MS) == []
        assert await ledger.remove_session("s", time.time_ns() // 1_000_000 - DAY_MS) is False
        assert await ledger.session("s") is not None


async def test_without_keep_days_nothing_is_removed(path: str, record: Make, outputs: Path) -> None:
    async with Ledger.open(path) as ledger:
        await session(ledger, record("s"), outputs, closed=True)
        days_ago(path, "s", 36_000)
        async with keeping(ledger, outputs, keep_days=0):
            await asyncio.sleep(0)
        assert await ledger.session("s") is not None


async def test_an_id_can_be_used_again_and_begins_anew(path: str, record: Make, outputs: Path) -> None:
    async with Ledger.open(path) as ledger:
        await session(ledger, record("s"), outputs, closed=True)
        days_ago(path, "s", 2)
        assert await expire(ledger, outputs, before_ms=time.time_ns() // 1_000_000 - DAY_MS) == 1
        await session(ledger, record("s"), outputs, closed=False)
        assert [event.seq for event in await ledger.read("s")] == [1, 2, 3]


async def test_a_file_that_cannot_be_removed_leaves_its_session_for_the_next_time(
    path: str, record: Make, outputs: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async with Ledger.open(path) as ledger:
        await session(ledger, record("s"), outputs, closed=True)
        days_ago(path, "s", 2)
        stuck = file_of(outputs, "s", "c", "stderr")
        stuck.mkdir()
        async with keeping(ledger, outputs, keep_days=1):
            assert await ledger.session("s") is not None
        assert "could not be removed" in caplog.text
        stuck.rmdir()
        with caplog.at_level("INFO"):
            async with keeping(ledger, outputs, keep_days=1):
                assert await ledger.session("s") is None
        assert "1 closed sessions of more than 1 days ago were removed" in caplog.text


async def test_it_is_done_again_while_the_daemon_runs(path: str, record: Make, outputs: Path) -> None:
    async with Ledger.open(path) as ledger, keeping(ledger, outputs, keep_days=1, every_s=0.01):
        await session(ledger, record("s"), outputs, closed=True)
        days_ago(path, "s", 2)
        while await ledger.session("s") is not None:
            pass


@pytest.mark.parametrize(("room", "smaller"), [(1, True), (1 << 40, False)])
async def test_the_file_gives_back_room_at_the_next_start_where_it_is_most_of_it(
    path: str, record: Make, outputs: Path, monkeypatch: pytest.MonkeyPatch, room: int, smaller: bool
) -> None:
    monkeypatch.setattr(file, "COMPACT_BYTES", room)
    async with Ledger.open(path) as ledger:
        await ledger.open_session(record("stays"))
        for number in range(20):
            await session(ledger, record(f"s{number}"), outputs, closed=True)
            days_ago(path, f"s{number}", 2)
        assert await expire(ledger, outputs, before_ms=time.time_ns() // 1_000_000 - DAY_MS) == 20
    before = size_of(path)
    async with Ledger.open(path) as ledger:
        assert [each.session_id for each in await ledger.sessions()] == ["stays"]
    assert (size_of(path) < before / 4) == smaller
