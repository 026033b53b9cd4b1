"""A turn of calls keeps its order, lets those overlap that may, and ends with one result for each."""

import asyncio
import tempfile
from collections.abc import AsyncIterator
from pathlib import Path

import grpc
import pytest
import pytest_asyncio
from grpc import aio

from stockade.v1 import calls_pb2
from stockade_client import NotFound, connect
from stockade_client.link import Link
from tests.pipeline.turns import a_shop, alone, beside, codes, request, served, states, story, until
from tests.tools.shop import Shop

CALLS = ("tool/call", "tool/result")


@pytest_asyncio.fixture(scope="module", loop_scope="session")
async def waiting(scratch: Path) -> AsyncIterator[str]:
    """The address of one daemon for all of these tests, each of which has a session of its own there."""
    async with served(Path(tempfile.mkdtemp(dir=scratch))) as address:
        yield address


@pytest_asyncio.fixture
async def both(waiting: str, scratch: Path) -> AsyncIterator[tuple[Shop, Link]]:
    async with a_shop(waiting, Path(tempfile.mkdtemp(dir=scratch))) as both:
        yield both


async def start(link: Link, wanted: calls_pb2.StartTurnRequest) -> calls_pb2.Turn:
    return await link.ask(link.calls.StartTurn, wanted, "run a turn", wait_s=wanted.wait_s)


async def finished(link: Link, wanted: calls_pb2.StartTurnRequest) -> list[str]:
    wanted.wait_s = 60
    return states(await start(link, wanted))


def write(shop: Shop, *files: str) -> None:
    for file in files:
        (shop.workspace / file).write_text("now\n")


async def test_safe_bodies_overlap_and_their_results_are_in_the_order_of_the_calls(both: tuple[Shop, Link]) -> None:
    shop, link = both
    wanted = request(shop.session, beside("x0"), beside("x1"), beside("x2"))
    await start(link, wanted)
    seen = await until(shop.session, "call/dispatched", "c0", "c1", "c2")
    assert "tool/result" not in [event.type for event in seen]
    # The last one ends first: its file comes while the others have none, and it is seen to have ended by its output.
    write(shop, "x2")
    read = calls_pb2.ReadOutputRequest(
        session_id=shop.session.session_id, call_id="c2", part=calls_pb2.OUTPUT_PART_STDOUT, follow=True
    )
    async for chunk in link.calls.ReadOutput(read):
        assert chunk.data == b"seen\n"
        break
    assert await story(shop.session, "tool/result") == []
    write(shop, "x1", "x0")
    assert await finished(link, wanted) == ["ok"] * 3
    assert await story(shop.session, *CALLS) == [
        *(f"tool/call c{number}" for number in range(3)),
        *(f"tool/result c{number}" for number in range(3)),
    ]
    reviewed = await story(shop.session, "policy/post-execute")
    assert reviewed == [f"policy/post-execute c{number}" for number in range(3)]


async def test_a_tool_that_is_not_safe_beside_others_is_a_barrier(both: tuple[Shop, Link]) -> None:
    shop, link = both
    wanted = request(shop.session, beside("x"), alone("x"), beside("y"), beside("y"))
    await start(link, wanted)
    await until(shop.session, "call/dispatched", "c0")
    write(shop, "x")
    await until(shop.session, "call/dispatched", "c2", "c3")
    write(shop, "y")
    assert await finished(link, wanted) == ["ok"] * 4
    assert await story(shop.session, *CALLS) == [
        "tool/call c0",
        "tool/result c0",
        "tool/call c1",
        "tool/result c1",
        "tool/call c2",
        "tool/call c3",
        "tool/result c2",
        "tool/result c3",
    ]


async def test_ten_bodies_overlap_and_no_more(both: tuple[Shop, Link]) -> None:
    shop, link = both
    wanted = request(shop.session, beside("first"), *(beside("x"),) * 10)
    await start(link, wanted)
    await until(shop.session, "call/dispatched", *(f"c{number}" for number in range(10)))
    write(shop, "first")
    await until(shop.session, "call/dispatched", "c10")
    write(shop, "x")
    assert await finished(link, wanted) == ["ok"] * 11
    order = await story(shop.session, "tool/call", "policy/post-execute")
    assert order.index("tool/call c9") < order.index("policy/post-execute c0") < order.index("tool/call c10")


async def test_a_call_is_judged_when_the_one_before_it_has_been(waiting: str, scratch: Path) -> None:
    place = Path(tempfile.mkdtemp(dir=scratch))
    profile = place / "asks.toml"
    profile.write_text('extends = "dev"\n[approval]\nreads = "ask"\n')
    async with a_shop(waiting, place, profile=str(profile)) as (shop, link):
        wanted = request(shop.session, beside("x"), beside("x"))
        await start(link, wanted)
        await until(shop.session, "call/dispatched", "c0", "c1")  # a yes to the one does not wait for its body
        write(shop, "x")
        assert await finished(link, wanted) == ["ok"] * 2
        order = await story(shop.session, "tool/call", "approval/decided", "policy/guards")
    assert order == [
        f"{type} {call}" for call in ("c0", "c1") for type in ("tool/call", "approval/decided", "policy/guards")
    ]


async def test_a_call_that_cannot_run_is_a_result_among_the_others(both: tuple[Shop, Link]) -> None:
    shop, _ = both
    write(shop, "x")
    results = await shop.session.call_many(
        [("beside", {"file": "x"}), ("no_such_tool", {}), ("read", b'{"path": 1'), ("read", {"path": "a.txt"})]
    )
    assert codes(results) == ["ok", "UNKNOWN_TOOL", "INVALID_ARGS", "ok"]
    assert results[3].text.endswith("two") or "two" in results[3].text


async def test_a_cancelled_turn_has_a_result_for_every_call(both: tuple[Shop, Link]) -> None:
    shop, link = both
    wanted = request(shop.session, beside("never"), alone("x"), ("read", '{"path": "a.txt"}'))
    await start(link, wanted)
    await until(shop.session, "call/dispatched", "c0")
    cancel = calls_pb2.CancelTurnRequest(session_id=shop.session.session_id, turn_id="t")
    cancelled = await link.ask(link.calls.CancelTurn, cancel, "cancel a turn")
    assert states(cancelled) == ["ABORTED", "ABORTED_BEFORE_DISPATCH", "ABORTED_BEFORE_DISPATCH"]
    assert await story(shop.session, *CALLS, "call/dispatched") == [
        "tool/call c0",
        "call/dispatched c0",
        *("tool/result c0", "tool/call c1", "tool/result c1", "tool/call c2", "tool/result c2"),
    ]
    with pytest.raises(NotFound, match="is over"):
        await link.ask(link.calls.CancelTurn, cancel, "cancel a turn")
    assert await finished(link, wanted) == states(cancelled)


async def test_a_turn_whose_caller_is_cancelled_is_taken_back(both: tuple[Shop, Link]) -> None:
    shop, _ = both
    calling = asyncio.create_task(shop.session.call_many([("alone", {"file": "never"}), ("read", {"path": "a.txt"})]))
    async with shop.session.events(follow=True) as events:
        async for event in events:
            if event.type == "call/dispatched":
                break
    calling.cancel()
    with pytest.raises(asyncio.CancelledError):
        await calling
    async with shop.session.events() as events:
        results = [event.body["error"] async for event in events if event.type == "tool/result"]
    assert [each["code"] for each in results if isinstance(each, dict)] == ["ABORTED", "ABORTED_BEFORE_DISPATCH"]


async def test_a_session_that_closes_in_the_middle_has_a_result_for_every_call(both: tuple[Shop, Link]) -> None:
    shop, link = both
    async with connect(shop.address) as daemon, daemon.session(shop.workspace, "dev", id="closing") as session:
        wanted = request(session, beside("never"), beside("never"), alone("x"), beside("x"))
        await start(link, wanted)
        await until(session, "call/dispatched", "c0", "c1")
        await session.close()
        assert await finished(link, wanted) == ["ABORTED"] * 2 + ["ABORTED_BEFORE_DISPATCH"] * 2
        assert (await story(session, *CALLS, "session/closed"))[-1] == "session/closed "


async def test_one_call_of_a_turn_can_be_taken_back_before_its_place_has_come(both: tuple[Shop, Link]) -> None:
    shop, link = both
    wanted = request(shop.session, alone("x"), alone("y"), beside("x"))
    await start(link, wanted)
    await until(shop.session, "call/dispatched", "c0")
    cancel = calls_pb2.CancelCallRequest(session_id=shop.session.session_id, call_id="c1")
    cancelled = await link.ask(link.calls.Cancel, cancel, "cancel a call")
    write(shop, "x")
    assert cancelled.state == calls_pb2.CALL_STATE_PENDING
    assert await finished(link, wanted) == ["ok", "ABORTED_BEFORE_DISPATCH", "ok"]


async def test_a_turn_goes_on_when_its_client_has_gone_and_is_the_same_when_it_comes_back(
    both: tuple[Shop, Link],
) -> None:
    shop, link = both
    wanted = request(shop.session, beside("x"), alone("x"), wait_s=60)
    asking = asyncio.ensure_future(start(link, wanted))
    await until(shop.session, "call/dispatched", "c0")
    asking.cancel()
    with pytest.raises(asyncio.CancelledError):
        await asking
    write(shop, "x")
    await until(shop.session, "tool/result", "c0", "c1")
    again = await asyncio.gather(*(finished(link, wanted) for _ in range(20)))
    assert again == [["ok", "ok"]] * 20
    assert len(await story(shop.session, *CALLS)) == 4


async def test_twenty_racing_starts_of_one_turn_run_it_once(both: tuple[Shop, Link]) -> None:
    shop, link = both
    write(shop, "x")
    wanted = request(shop.session, beside("x"), alone("x"), beside("x"))
    assert await asyncio.gather(*(finished(link, wanted) for _ in range(20))) == [["ok"] * 3] * 20
    assert len(await story(shop.session, *CALLS, "call/dispatched")) == 9


@pytest.mark.parametrize(
    ("calls", "status", "words"),
    [
        ([], grpc.StatusCode.INVALID_ARGUMENT, "1 to 128 calls"),
        ([beside("x")] * 129, grpc.StatusCode.INVALID_ARGUMENT, "1 to 128 calls"),
        ([("read", "{}")], grpc.StatusCode.ALREADY_EXISTS, "other calls"),
        ([beside("never"), beside("y")], grpc.StatusCode.ALREADY_EXISTS, "other calls"),
    ],
)
async def test_a_turn_that_cannot_be_taken_records_nothing(
    both: tuple[Shop, Link], calls: list[tuple[str, str]], status: grpc.StatusCode, words: str
) -> None:
    shop, link = both
    await start(link, request(shop.session, beside("never")))
    await until(shop.session, "call/dispatched", "c0")
    with pytest.raises(aio.AioRpcError, match=words) as refused:
        await link.calls.StartTurn(request(shop.session, *calls))
    assert refused.value.code() is status
    assert await story(shop.session, "tool/call") == ["tool/call c0"]


async def test_ids_of_a_turn_are_its_own(both: tuple[Shop, Link]) -> None:
    shop, link = both
    twice = request(shop.session, beside("x"), beside("y"))
    twice.calls[1].call_id = "c0"
    with pytest.raises(aio.AioRpcError, match="two calls c0"):
        await link.calls.StartTurn(twice)
    await start(link, request(shop.session, alone("never"), beside("x")))
    with pytest.raises(aio.AioRpcError, match="belongs to turn t"):
        await link.calls.StartTurn(request(shop.session, beside("x"), turn="u"))
    other = calls_pb2.StartCallRequest(session_id=shop.session.session_id, call_id="c1", tool="read", arguments=b"{}")
    with pytest.raises(aio.AioRpcError, match="another tool or other arguments"):
        await link.calls.Start(other)


async def test_calls_under_way_are_listed_with_what_they_wait_for(both: tuple[Shop, Link]) -> None:
    shop, link = both
    await start(link, request(shop.session, beside("never"), alone("never"), beside("never")))
    await until(shop.session, "call/dispatched", "c0")
    listed = await link.ask(link.calls.List, calls_pb2.ListCallsRequest(), "list calls")
    assert [(each.call_id, each.turn_id, each.state, each.waits_for) for each in listed.calls] == [
        ("c0", "t", calls_pb2.CALL_STATE_RUNNING, ""),
        ("c1", "t", calls_pb2.CALL_STATE_PENDING, "turn"),
        ("c2", "t", calls_pb2.CALL_STATE_PENDING, "turn"),
    ]
    assert all(each.since_ms for each in listed.calls)
