"""What stays unknown is resolved by somebody, once, beside the kept result."""

import asyncio
import sqlite3
from collections.abc import Mapping
from contextlib import closing

import pytest

from stockade_daemon.errors import RequestError
from stockade_daemon.ledger import Ledger, Resolution
from stockade_daemon.values import Json

UNKNOWN: Mapping[str, Json] = {"ok": False, "error": {"code": "TOOL_OUTCOME_UNKNOWN", "message": "?"}}


async def unknown(ledger: Ledger, call_id: str = "c") -> None:
    await ledger.start_call("s", call_id, "shell", "d", {})
    await ledger.dispatched("s", call_id)
    await ledger.settle("s", call_id, UNKNOWN)


async def refused(ledger: Ledger, call_id: str = "c", *, done: bool = True, note: str = "") -> RequestError:
    with pytest.raises(RequestError) as caught:
        await ledger.resolve("s", call_id, done=done, note=note)
    return caught.value


async def test_a_resolution_stands_beside_the_result_and_in_the_events(ledger: Ledger) -> None:
    await unknown(ledger)
    resolved = await ledger.resolve("s", "c", done=True, note="the file is there")
    assert resolved.result is not None
    assert resolved.result["error"] == UNKNOWN["error"]
    assert resolved.resolution is not None
    assert (resolved.resolution.done, resolved.resolution.note) == (True, "the file is there")
    assert await ledger.call("s", "c") == resolved
    events = await ledger.read("s", call_id="c")
    assert [event.type for event in events] == ["tool/call", "call/dispatched", "tool/result", "call/resolved"]
    assert events[-1].body == {"outcome": "done", "note": "the file is there"}
    assert events[-1].time_ms == resolved.resolution.time_ms
    assert [event.seq for event in await ledger.read("s")] == [1, 2, 3, 4, 5]


async def test_the_same_again_is_nothing_and_another_is_refused(ledger: Ledger) -> None:
    await unknown(ledger)
    first = await ledger.resolve("s", "c", done=False, note="n")
    assert await ledger.resolve("s", "c", done=False, note="n") == first
    for done, note in ((True, "n"), (False, "m")):
        error = await refused(ledger, done=done, note=note)
        assert error.status == "ALREADY_EXISTS"
        assert "resolved before, as not done" in error.message
    assert len(await ledger.read("s")) == 5


async def test_of_many_at_once_one_is_recorded(ledger: Ledger) -> None:
    await unknown(ledger)
    outcomes = await asyncio.gather(
        *(ledger.resolve("s", "c", done=bool(number % 2), note=str(number)) for number in range(20)),
        return_exceptions=True,
    )
    assert sum(not isinstance(each, RequestError) for each in outcomes) == 1
    assert [event.type for event in await ledger.read("s")].count("call/resolved") == 1


async def test_only_an_unknown_outcome_can_be_resolved(ledger: Ledger) -> None:
    assert (await refused(ledger)).status == "NOT_FOUND"
    await ledger.start_call("s", "c", "shell", "d", {})
    pending = await refused(ledger)
    assert (pending.status, "has no result yet" in pending.message) == ("FAILED_PRECONDITION", True)
    await ledger.settle("s", "c", {"ok": True})
    assert "ended with ok" in (await refused(ledger)).message
    await ledger.start_call("s", "d", "shell", "d", {})
    await ledger.settle("s", "d", {"ok": False, "error": {"code": "TOOL_FAILED", "message": "no"}})
    assert "ended with TOOL_FAILED" in (await refused(ledger, "d")).message


async def test_a_call_of_a_closed_session_is_resolved_behind_its_end(ledger: Ledger) -> None:
    await unknown(ledger)
    await ledger.close_session("s")
    resolved = await ledger.resolve("s", "c", done=True, note="")
    assert isinstance(resolved.resolution, Resolution)
    assert [(event.seq, event.type) for event in await ledger.read("s", after=4)] == [
        (5, "session/closed"),
        (6, "call/resolved"),
    ]
    assert [event.seq async for event in ledger.follow("s")] == [1, 2, 3, 4, 5, 6]
    with pytest.raises(RequestError, match="is closed"):
        await ledger.append("s", "x")


async def test_the_schema_itself_forbids_a_second_resolution(ledger: Ledger, path: str) -> None:
    await unknown(ledger)
    await ledger.resolve("s", "c", done=True, note="")
    with closing(sqlite3.connect(path)) as outside, pytest.raises(sqlite3.IntegrityError):
        outside.execute("INSERT INTO events VALUES (1, 9, 'call/resolved', 'c', 0, '{}', 1, 'x')")
