"""Events: numbered without gaps, in order, durable when awaited, and followed without loss."""

import asyncio
from collections.abc import Callable
from contextlib import aclosing

import pytest

from stockade_daemon.errors import RequestError
from stockade_daemon.ledger import Ledger, SessionRecord
from stockade_daemon.values import Event, Json

Make = Callable[[str], SessionRecord]


async def test_events_are_numbered_from_one_without_gaps_per_session(ledger: Ledger, record: Make) -> None:
    await ledger.open_session(record("other"))
    for number in range(3):
        await ledger.append("s", "x", body={"n": number})
        await ledger.append("other", "x")
    assert [event.seq for event in await ledger.read("s")] == [1, 2, 3, 4]
    assert [event.seq for event in await ledger.read("other")] == [1, 2, 3, 4]


async def test_an_event_reads_back_as_append_returned_it(ledger: Ledger) -> None:
    body: dict[str, Json] = {"big": 2**53 + 1, "list": [1, "ä", None], "z": 1, "a": {"k": True}}
    event = await ledger.append("s", "x/y", "c1", body)
    assert event == Event("s", 2, "x/y", "c1", event.time_ms, body)
    assert await ledger.read("s", after=1) == [event]
    assert list(event.body) == ["big", "list", "z", "a"]


async def test_a_body_that_changes_later_does_not_change_the_record(ledger: Ledger) -> None:
    inner = ["as it was"]
    ledger.note("s", "x", body={"text": inner})
    inner[0] = "rewritten"
    event = await ledger.append("s", "y")
    assert [item.body for item in await ledger.read("s", after=1, limit=1)] == [{"text": ["as it was"]}]
    assert event.seq == 3


async def test_notes_keep_their_place_and_are_durable_with_the_next_append(ledger: Ledger) -> None:
    for number in range(50):
        ledger.note("s", "note", body={"n": number})
    last = await ledger.append("s", "append")
    found = await ledger.read("s", after=1)
    assert [event.body.get("n") for event in found] == [*range(50), None]
    assert last.seq == 52


async def test_a_note_is_committed_though_nothing_follows(ledger: Ledger) -> None:
    ledger.note("s", "note")
    async with asyncio.timeout(10), aclosing(ledger.follow("s", after=1)) as events:
        assert (await anext(events)).type == "note"


async def test_a_thousand_concurrent_appends_share_few_transactions(ledger: Ledger) -> None:
    before = ledger.transactions
    events = await asyncio.gather(*(ledger.append("s", "x", body={"n": n}) for n in range(1000)))
    assert sorted(event.seq for event in events) == list(range(2, 1002))
    assert [event.body["n"] for event in sorted(events, key=lambda event: event.seq)] == list(range(1000))
    assert ledger.transactions - before <= 10
    assert ledger.changes >= 1000


async def test_reading_is_bounded_resumes_and_filters_by_call(ledger: Ledger) -> None:
    for number in range(20):
        ledger.note("s", "x", f"c{number % 2}")
    await ledger.append("s", "x")
    assert [event.seq for event in await ledger.read("s", after=5, limit=3)] == [6, 7, 8]
    ones = await ledger.read("s", call_id="c1")
    assert [event.seq for event in ones] == list(range(3, 23, 2))
    assert [event.seq for event in await ledger.read("s", call_id="c1", after=9, limit=2)] == [11, 13]
    assert await ledger.read("nobody") == []


async def test_an_event_of_no_session_is_refused_and_spares_its_group(ledger: Ledger) -> None:
    results = await asyncio.gather(
        ledger.append("s", "a"),
        ledger.append("nobody", "b"),
        ledger.append("s", "c"),
        return_exceptions=True,
    )
    assert isinstance(results[1], RequestError)
    assert results[1].status == "NOT_FOUND"
    assert [(event.seq, event.type) for event in await ledger.read("s", after=1)] == [(2, "a"), (3, "c")]


async def test_what_is_not_json_is_refused_at_once(ledger: Ledger) -> None:
    with pytest.raises(ValueError, match="JSON"):
        ledger.note("s", "x", body={"n": float("nan")})
    with pytest.raises(TypeError):
        await ledger.append("s", "x", body={"n": object()})  # type: ignore[dict-item]
    assert (await ledger.append("s", "y")).seq == 2


async def test_an_event_that_changes_a_state_cannot_be_appended(ledger: Ledger) -> None:
    for type_ in ("session/opened", "session/closed", "tool/call", "call/dispatched", "tool/result"):
        with pytest.raises(ValueError, match="another state"):
            await ledger.append("s", type_, "c")


async def test_a_cancelled_append_is_recorded_all_the_same(ledger: Ledger) -> None:
    task = asyncio.create_task(ledger.append("s", "x"))
    await asyncio.sleep(0)  # it has queued its change
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    await ledger.append("s", "y")
    assert [event.type for event in await ledger.read("s", after=1)] == ["x", "y"]


async def test_a_follower_catches_up_waits_and_ends_with_the_session(ledger: Ledger) -> None:
    for number in range(1200):  # more than a page
        ledger.note("s", "old", body={"n": number})
    await ledger.append("s", "old")
    seen: list[int] = []
    caught_up = asyncio.Event()

    async def follow() -> None:
        async for event in ledger.follow("s"):
            seen.append(event.seq)
            if event.seq == 1202:
                caught_up.set()

    async with asyncio.timeout(30), asyncio.TaskGroup() as tasks:
        tasks.create_task(follow())
        await caught_up.wait()
        for _ in range(100):
            await ledger.append("s", "new")
        await ledger.close_session("s")
    assert seen == list(range(1, 1304))


async def test_a_follower_resumes_where_it_was_cut(ledger: Ledger) -> None:
    seen: list[int] = []

    async def cut_again_and_again() -> None:
        while True:
            async with aclosing(ledger.follow("s", after=len(seen))) as events:
                taken = 0
                async for event in events:
                    seen.append(event.seq)
                    if event.type == "session/closed":
                        return
                    taken += 1
                    if taken == 7:
                        break

    async with asyncio.timeout(30), asyncio.TaskGroup() as tasks:
        tasks.create_task(cut_again_and_again())
        for _ in range(200):
            await ledger.append("s", "x")
        await ledger.close_session("s")
    assert seen == list(range(1, 203))


async def test_a_follower_that_does_not_read_slows_nobody(ledger: Ledger) -> None:
    async with asyncio.timeout(30), aclosing(ledger.follow("s")) as events:
        assert (await anext(events)).seq == 1  # and then it does not come back for long
        for _ in range(300):
            await ledger.append("s", "x", body={"text": "x" * 10_000})
        await ledger.close_session("s")
        assert [event.seq async for event in events] == list(range(2, 303))


async def test_a_follower_of_one_call_sees_only_its_events_and_ends_too(ledger: Ledger) -> None:
    async with asyncio.timeout(30), asyncio.TaskGroup() as tasks:

        async def follow() -> list[str]:
            return [event.type async for event in ledger.follow("s", call_id="c")]

        task = tasks.create_task(follow())
        await ledger.append("s", "a", "c")
        await ledger.append("s", "b", "d")
        await ledger.append("s", "c", "c")
        await ledger.close_session("s")
    assert task.result() == ["a", "c"]
    assert [event async for event in ledger.follow("s", after=10_000)] == []


async def test_following_no_session_is_refused(ledger: Ledger) -> None:
    with pytest.raises(RequestError, match="no session"):
        await anext(ledger.follow("nobody"))


async def test_followers_end_when_the_ledger_closes(path: str, record: Make) -> None:
    async with asyncio.timeout(30), asyncio.TaskGroup() as tasks, Ledger.open(path) as ledger:
        await ledger.open_session(record("s"))
        first = asyncio.Event()

        async def follow() -> int:
            count = 0
            async for _ in ledger.follow("s"):
                count += 1
                first.set()
            return count

        task = tasks.create_task(follow())
        await first.wait()
    assert task.result() == 1
