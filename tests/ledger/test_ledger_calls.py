"""Sessions and calls: idempotent starts, one result each, values beside the event where they are large."""

import asyncio
import hashlib
import json
import sqlite3
from collections.abc import Callable
from contextlib import closing
from dataclasses import replace

import pytest

from stockade_daemon.errors import RequestError
from stockade_daemon.ledger import INLINE_VALUE_BYTES, Ledger, SessionRecord
from stockade_daemon.values import Json

Make = Callable[[str], SessionRecord]

RESULT: dict[str, Json] = {"ok": True, "value": {"n": 1}, "content": ["one"]}


async def test_a_session_reads_back_as_it_was_opened(ledger: Ledger, record: Make) -> None:
    assert await ledger.session("s") == replace(record("s"), last_seq=1)
    assert await ledger.session("nobody") is None
    assert [event.type for event in await ledger.read("s")] == ["session/opened"]


async def test_opening_a_session_again_returns_the_stored_one(ledger: Ledger, record: Make) -> None:
    await ledger.append("s", "x")
    again = await ledger.open_session(replace(record("s"), profile_name="ci", opened_ms=5))
    assert again == replace(record("s"), last_seq=2)
    assert [item.session_id for item in await ledger.sessions()] == ["s"]


async def test_a_closed_session_takes_nothing_more(ledger: Ledger, record: Make) -> None:
    await ledger.close_session("s", {"reason": "done"})
    await ledger.close_session("s")
    assert [event.type for event in await ledger.read("s")] == ["session/opened", "session/closed"]
    for refused in (ledger.append("s", "x"), ledger.start_call("s", "c", "read", "d", {})):
        with pytest.raises(RequestError) as caught:
            await refused
        assert caught.value.status == "FAILED_PRECONDITION"
    stored = await ledger.open_session(record("s"))
    assert (stored.state, stored.last_seq) == ("closed", 2)


async def test_a_session_with_a_call_under_way_cannot_be_closed(ledger: Ledger) -> None:
    await ledger.start_call("s", "c", "read", "d", {})
    with pytest.raises(RequestError, match="without a result"):
        await ledger.close_session("s")
    await ledger.settle("s", "c", RESULT)
    await ledger.close_session("s")


async def test_the_same_start_is_the_same_call(ledger: Ledger) -> None:
    first, new = await ledger.start_call("s", "c", "read", "digest", {"arguments": "{}"})
    assert (first.state, first.result, new) == ("pending", None, True)
    again, new = await ledger.start_call("s", "c", "edit", "another", {})
    assert (again, new) == (first, False)
    await ledger.dispatched("s", "c", {"worker": 1})
    await ledger.settle("s", "c", RESULT)
    settled, new = await ledger.start_call("s", "c", "read", "digest", {})
    assert (settled.state, new) == ("settled", False)
    assert settled.result == {**RESULT, "value_size": 7}
    assert await ledger.call("s", "c") == settled
    types = [event.type for event in await ledger.read("s", call_id="c")]
    assert types == ["tool/call", "call/dispatched", "tool/result"]


async def test_of_many_concurrent_starts_one_is_new(ledger: Ledger) -> None:
    started = await asyncio.gather(*(ledger.start_call("s", "c", "read", "d", {}) for _ in range(50)))
    assert sum(new for _, new in started) == 1
    assert len(await ledger.read("s", call_id="c")) == 1


async def test_of_many_concurrent_results_one_is_recorded(ledger: Ledger) -> None:
    await ledger.start_call("s", "c", "read", "d", {})
    outcomes = await asyncio.gather(
        *(ledger.settle("s", "c", {"ok": True, "value": n}) for n in range(20)), return_exceptions=True
    )
    refused = [item for item in outcomes if isinstance(item, RequestError)]
    assert len(refused) == 19
    assert {item.status for item in refused} == {"FAILED_PRECONDITION"}
    assert [event.type for event in await ledger.read("s", call_id="c")] == ["tool/call", "tool/result"]


async def test_a_settled_call_is_not_dispatched_again(ledger: Ledger) -> None:
    await ledger.start_call("s", "c", "read", "d", {})
    await ledger.settle("s", "c", RESULT)
    with pytest.raises(RequestError, match="its result already"):
        await ledger.dispatched("s", "c")
    with pytest.raises(RequestError, match="no call"):
        await ledger.settle("s", "other", RESULT)


async def test_the_schema_itself_forbids_a_second_result_and_a_number_twice(ledger: Ledger, path: str) -> None:
    await ledger.start_call("s", "c", "read", "d", {})
    await ledger.settle("s", "c", RESULT)
    with closing(sqlite3.connect(path)) as outside:
        for seq, type_ in ((4, "tool/result"), (4, "tool/call"), (3, "x")):
            with pytest.raises(sqlite3.IntegrityError):
                outside.execute("INSERT INTO events VALUES (1, ?, ?, 'c', 0, '{}', 1, 'x')", (seq, type_))


async def test_a_large_value_is_kept_beside_the_event(ledger: Ledger) -> None:
    value = {"text": "ä" * INLINE_VALUE_BYTES}
    text = json.dumps(value, ensure_ascii=False, separators=(",", ":")).encode()
    await ledger.start_call("s", "c", "read", "d", {})
    event = await ledger.settle("s", "c", {"ok": True, "value": value}, {"stdout": b"\xff\0"})
    assert event.body == {
        "ok": True,
        "value_size": len(text),
        "value_digest": hashlib.sha256(text).hexdigest(),
    }
    assert await ledger.output("s", "c", "value") == text
    assert await ledger.output("s", "c", "stdout") == b"\xff\0"
    assert await ledger.output("s", "c", "stderr") is None


@pytest.mark.parametrize("beyond", [0, 1])
async def test_a_value_is_inline_up_to_the_limit_exactly(ledger: Ledger, beyond: int) -> None:
    value = "x" * (INLINE_VALUE_BYTES - 2 + beyond)  # two quotes
    await ledger.start_call("s", "c", "read", "d", {})
    event = await ledger.settle("s", "c", {"ok": True, "value": value})
    assert ("value" in event.body) == (beyond == 0)
    assert ((await ledger.output("s", "c", "value")) is not None) == (beyond == 1)


async def test_a_value_of_null_is_a_value(ledger: Ledger) -> None:
    for call_id, result in (("c", {"ok": True, "value": None}), ("d", {"ok": False})):
        await ledger.start_call("s", call_id, "read", "d", {})
        await ledger.settle("s", call_id, result)
    with_null, without = [await ledger.call("s", call_id) for call_id in "cd"]
    assert with_null is not None
    assert with_null.result == {"ok": True, "value": None, "value_size": 4}
    assert without is not None
    assert without.result == {"ok": False, "value_size": 0}


async def test_unsettled_calls_come_with_their_stories_in_order(ledger: Ledger, record: Make) -> None:
    await ledger.open_session(record("t"))
    for session_id, call_id in (("s", "z"), ("t", "q"), ("s", "done"), ("s", "a")):
        await ledger.start_call(session_id, call_id, "read", "d", {})
    await ledger.settle("s", "done", RESULT)
    await ledger.dispatched("s", "a")
    await ledger.append("s", "fs/begun", "a", {"path": "x"})
    found = await ledger.unsettled()
    assert [(item.call.session_id, item.call.call_id, item.call.state) for item in found] == [
        ("s", "z", "pending"),
        ("s", "a", "running"),
        ("t", "q", "pending"),
    ]
    assert [event.type for event in found[1].events] == ["tool/call", "call/dispatched", "fs/begun"]
    assert found[1].profile_digest == "d" * 64
