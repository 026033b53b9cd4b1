"""What a turn does when its tools change, when it is taken back early, and when what orders it fails."""

import asyncio
from collections.abc import Mapping
from dataclasses import fields
from typing import Any

import pytest

from stockade_daemon.errors import RequestError
from stockade_daemon.pipeline.turn import Turn
from stockade_daemon.policy.asks import Watcher
from stockade_daemon.policy.decisions import POST_DECISIONS, Accept, Allow, Ask, Replace
from stockade_daemon.policy.subjects import Finished, Judged
from stockade_daemon.policy.waterfall import Next
from stockade_daemon.registry import programs
from stockade_daemon.registry.registry import Registry
from stockade_daemon.values import Json, Manifest, Outcome
from tests.pipeline.conftest import HANG_S, Staged
from tests.pipeline.turns import TOOLS


def beside(*, safe: bool) -> Manifest:
    """The tool `beside`, which waits until there is something in a file."""
    text = TOOLS["beside.toml" if safe else "alone.toml"]
    return programs.read(text.encode(), origin="beside.toml", stem="beside", built_in=())


async def begin(staged: Staged, *files: str) -> Turn:
    """A turn of calls c0, c1, … of `beside`."""
    for file in files:
        (staged.workspace / file).touch()
    calls = [(f"c{number}", "beside", b'{"file": "%s"}' % file.encode()) for number, file in enumerate(files)]
    return await staged.engine.begin_turn("s", "t", calls)


async def ended(turn: Turn) -> None:
    async with asyncio.timeout(HANG_S):
        await turn.over.wait()


async def story(staged: Staged, *types: str) -> list[str]:
    """`TYPE CALL` of the events of these types, in order."""
    return [f"{each.type} {each.call_id}" for each in await staged.ledger.read("s") if each.type in types]


async def asks_of(watcher: Watcher) -> list[str]:
    """The ids of what an approver is shown, until it is closed."""
    return [ask.ask_id async for ask in watcher.asks()]


def fill(staged: Staged, *files: str) -> None:
    for file in files:
        (staged.workspace / file).write_text("now\n")


async def test_a_tool_that_becomes_exclusive_in_the_middle_of_a_turn_is_a_barrier_for_what_begins_then(
    staged: Staged,
) -> None:
    staged.services.tools.succeed([beside(safe=True)], [])
    running = asyncio.Event()

    async def change(judged: Judged, following: Next[Any]) -> Any:
        if judged.call.call_id == "c0":
            staged.services.tools.succeed([beside(safe=False)], [])
        return await following()

    async def run(judged: Judged, following: Next[Outcome]) -> Outcome:
        running.set()
        return await following()

    staged.services.pre_execute.add(change)
    staged.services.execute.add(run)
    turn = await begin(staged, "x0", "x1", "x1")
    await running.wait()
    fill(staged, "x0", "x1")
    await ended(turn)
    assert await story(staged, "tool/call", "tool/result") == [
        f"{type} {call}" for call in ("c0", "c1", "c2") for type in ("tool/call", "tool/result")
    ]
    assert [(await staged.body(call, "tool/result"))["ok"] for call in ("c0", "c1", "c2")] == [True] * 3


async def test_calls_overlap_as_the_generation_says_that_they_were_taken_with(staged: Staged) -> None:
    staged.services.tools.succeed([beside(safe=True)], [])

    async def change(judged: Judged, following: Next[Any]) -> Any:
        if judged.call.call_id == "c1":  # by now both have been taken
            staged.services.tools.succeed([beside(safe=False)], [])
        return await following()

    async def run(judged: Judged, following: Next[Outcome]) -> Outcome:
        if judged.call.call_id == "c1":
            fill(staged, "x0")  # what the body of c0 waits for: one that waited for c0 would never come here
        return await following()

    staged.services.pre_execute.add(change)
    staged.services.execute.add(run)
    turn = await begin(staged, "x0", "x0")
    await ended(turn)
    assert await story(staged, "tool/call", "tool/result") == [
        f"{type} {call}" for type in ("tool/call", "tool/result") for call in ("c0", "c1")
    ]


async def test_a_tool_that_goes_in_the_middle_of_a_turn_is_unknown_to_what_begins_then(staged: Staged) -> None:
    staged.services.tools.succeed([beside(safe=True)], [])

    async def change(judged: Judged, following: Next[Any]) -> Any:
        staged.services.tools.succeed([], [])
        return await following()

    staged.services.pre_execute.add(change)
    turn = await begin(staged, "x0", "x0")
    fill(staged, "x0")
    await ended(turn)
    assert (await staged.body("c0", "tool/result"))["ok"]
    assert (await staged.body("c1", "tool/result"))["error"]["code"] == "UNKNOWN_TOOL"


async def test_a_turn_that_is_taken_back_while_a_call_is_judged_starts_no_body(staged: Staged) -> None:
    staged.services.tools.succeed([beside(safe=True)], [])
    judging = asyncio.Event()

    async def hold(judged: Judged, following: Next[Any]) -> Any:
        judging.set()
        await staged.engine._under_way["s", "c0"].stop.requested.wait()
        return await following()

    staged.services.pre_execute.add(hold)
    await begin(staged, "x0", "x0")
    await judging.wait()
    async with asyncio.timeout(HANG_S):
        await staged.engine.cancel_turn("s", "t")
    assert "call/dispatched" not in [each.type for each in await staged.ledger.read("s")]
    for call in ("c0", "c1"):
        assert (await staged.body(call, "tool/result"))["error"]["code"] == "ABORTED_BEFORE_DISPATCH"


class Faulty(Registry):
    """Looks at the arguments of one call, and breaks at those of the next."""

    def __init__(self, tools: Mapping[str, Manifest]) -> None:
        super().__init__(tools)
        self.broke = asyncio.Event()

    def parse(self, manifest: Manifest, text: bytes) -> Mapping[str, Json]:
        if b"fault" in text:
            self.broke.set()
            raise RuntimeError("a fault of the scheduler")
        return super().parse(manifest, text)


async def test_a_fault_in_the_middle_of_a_turn_lets_bodies_end_and_makes_up_no_result(staged: Staged) -> None:
    tools = Faulty({"beside": beside(safe=True)})
    staged.services.tools.current = tools
    running = asyncio.Event()

    async def run(judged: Judged, following: Next[Outcome]) -> Outcome:
        running.set()
        return await following()

    staged.services.execute.add(run)
    turn = await begin(staged, "x0", "fault", "x0")
    async with asyncio.timeout(HANG_S):
        await tools.broke.wait()
        await running.wait()
    assert not turn.over.is_set(), "a body runs"
    assert [each.call.call_id for each in staged.engine._under_way.values()] == ["c0"]
    fill(staged, "x0")
    await ended(turn)
    assert isinstance(turn.failure, RuntimeError)
    assert (await staged.body("c0", "tool/result"))["ok"]
    assert await story(staged, "tool/call", "call/dispatched", "tool/result") == [
        "tool/call c0",
        "call/dispatched c0",
        "tool/result c0",
    ]
    # The daemon is none the worse; the same turn again says of what was left that it has not been started.
    staged.services.tools.current = Registry({"beside": beside(safe=True)})
    again = await begin(staged, "x0", "fault", "x0")
    await ended(again)
    codes = [(await staged.body(call, "tool/result")).get("error", {}).get("code") for call in ("c0", "c1", "c2")]
    assert codes == [None, "TOOL_NOT_STARTED", "TOOL_NOT_STARTED"]


async def test_who_replaces_what_calls_came_to_cannot_exchange_them(staged: Staged) -> None:
    staged.services.tools.succeed([beside(safe=True)], [])
    seen: dict[str, Outcome] = {}

    async def exchange(finished: Finished, following: Next[Any]) -> Any:
        seen[finished.judged.call.call_id] = finished.outcome
        value = finished.outcome.value
        if finished.judged.call.call_id == "c1":
            value = seen["c0"].value
        assert isinstance(value, Mapping)
        return Replace({**value, "stdout": f"of {finished.judged.call.call_id}"}, (finished.judged.call.call_id,))

    staged.services.post_execute.add(exchange)
    turn = await begin(staged, "x0", "x0")
    fill(staged, "x0")
    await ended(turn)
    for call in ("c0", "c1"):
        result = await staged.body(call, "tool/result")
        assert (result["content"], result["value"]["stdout"]) == ([call], f"of {call}")
    # There is no word in a decision for which call it is of.
    words = {field.name for decision in POST_DECISIONS for field in fields(decision)}
    assert words == {"context", "content", "value", "feedback"}


async def test_nobody_is_asked_about_a_call_that_was_taken_back_meanwhile(staged: Staged) -> None:
    async def late(judged: Judged, following: Next[Any]) -> Any:
        staged.engine._under_way["s", "c"].stop.request("cancelled")
        return Ask("sure?")

    staged.services.pre_execute.add(late)
    with staged.services.approvals.watching("s") as watcher:
        told = asyncio.create_task(asks_of(watcher))
        result = await staged.call("c", "shell", command="true")
        watcher.close()
    assert await told == []
    assert result["error"]["code"] == "ABORTED_BEFORE_DISPATCH"
    assert "approval/asked" not in await staged.types("c")


@pytest.mark.parametrize(("call_id", "status"), [("c", "FAILED_PRECONDITION"), ("none", "NOT_FOUND")])
async def test_an_ask_outside_of_a_call_under_way_is_refused_and_writes_nothing(
    staged: Staged, call_id: str, status: str
) -> None:
    kept: list[Judged] = []

    async def keep(judged: Judged, following: Next[Any]) -> Any:
        kept.append(judged)
        return Allow()

    staged.services.pre_execute.add(keep)
    await staged.call("c", "shell", command="true")
    before = await staged.ledger.read("s")
    approvals = staged.services.approvals
    with approvals.watching("s") as watcher:
        told = asyncio.create_task(asks_of(watcher))
        with pytest.raises(RequestError) as refused:
            await approvals.ask(kept[0].session, call_id, "shell", {"title": "late"}, asyncio.Event())
        watcher.close()
    assert refused.value.status == status
    assert await told == []
    assert approvals.waiting_for("s", call_id) == ""
    assert await staged.ledger.read("s") == before


async def test_context_of_a_turn_waits_for_all_results_also_where_it_is_taken_back(staged: Staged) -> None:
    staged.services.tools.succeed([beside(safe=False)], [])

    async def tell(finished: Finished, following: Next[Any]) -> Any:
        return Accept((f"of {finished.judged.call.call_id}",))

    async def take_back(judged: Judged, following: Next[Outcome]) -> Outcome:
        outcome = await following()
        staged.engine._turns.turn("s", "t").halt("cancelled")
        return outcome

    staged.services.post_execute.add(tell)
    staged.services.execute.add(take_back)
    turn = await begin(staged, "x0", "x0")
    fill(staged, "x0")
    await ended(turn)
    await staged.ledger.append("s", "policy/guards")  # durable behind what was noted
    assert await story(staged, "tool/result", "context/message") == [
        "tool/result c0",
        "tool/result c1",
        "context/message c0",
    ]
