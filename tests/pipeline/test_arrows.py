"""Every step from one part of a call's way to the next, by the recorded order of events."""

from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from stockade_daemon.policy.decisions import Accept, Ask, Deny
from stockade_daemon.policy.subjects import Settled
from stockade_daemon.values import Outcome
from tests.pipeline.conftest import Staged

PLACES = {
    "message", "call", "pending card", "pre", "approval", "guards", "denied", "around", "body", "gate", "owned", "post",
    "final", "result", "completed card", "all results", "context",
}  # fmt: skip

# Which events show an arrow: of the story's call, in this order, and none of `not` among them.
Story = Callable[[Staged], Awaitable[None]]


async def _read(staged: Staged) -> None:
    await staged.call("c", "read", path="a.txt")


async def _edit(staged: Staged) -> None:
    await staged.call("r", "read", path="a.txt")
    await staged.call("c", "edit", path="a.txt", old_string="one", new_string="two")


async def _wrapped(staged: Staged) -> None:
    async def wrap(judged: Any, following: Any) -> Outcome:
        outcome: Outcome = await following()
        return Outcome(value={"wrapped": outcome.ok}, content=("wrapped",))

    staged.services.execute.add(wrap)
    await staged.call("c", "read", path="a.txt")


async def _denied(staged: Staged) -> None:
    async def deny(judged: Any, following: Any) -> Any:
        return Deny("no")

    staged.services.pre_execute.add(deny)
    await staged.call("c", "read", path="a.txt")


async def _guarded(staged: Staged) -> None:
    staged.services.guards.add(lambda judged: "no")
    await staged.call("c", "read", path="a.txt")


async def _ask(staged: Staged, *, allow: bool) -> None:
    async def ask(judged: Any, following: Any) -> Any:
        return Ask("sure?")

    staged.services.pre_execute.add(ask)
    with staged.services.approvals.watching("s") as watcher:
        await staged.engine.begin("s", "c", "read", b'{"path": "a.txt"}')
        async for asked in watcher.asks():
            await staged.services.approvals.decide(
                asked.ask_id, asked.shown_hash, allow=allow, reason="", decision_id="d"
            )
            break
        await staged.engine.wait("s", "c", 30.0)


async def _allowed_once(staged: Staged) -> None:
    await _ask(staged, allow=True)


async def _rejected(staged: Staged) -> None:
    await _ask(staged, allow=False)


async def _context(staged: Staged) -> None:
    async def tell(finished: Any, following: Any) -> Any:
        return Accept(context=("told",))

    staged.services.post_execute.add(tell)
    await staged.call("c", "read", path="a.txt")


PRE, GUARDS, POST = "policy/pre-execute", "policy/guards", "policy/post-execute"
RAN, RESULT, ASKED, DECIDED = "call/dispatched", "tool/result", "approval/asked", "approval/decided"
SKIPPED = [RAN, "fs/observed"]

ARROWS: dict[tuple[str, str], tuple[Story, list[str], list[str]]] = {
    ("message", "call"): (_read, ["tool/call"], []),
    ("call", "pending card"): (_read, ["tool/call", PRE], []),
    ("call", "pre"): (_read, ["tool/call", PRE], []),
    ("pre", "guards"): (_read, [PRE, GUARDS], [ASKED]),
    ("guards", "around"): (_wrapped, [GUARDS, RAN, "policy/execute"], []),
    ("guards", "denied"): (_guarded, [PRE, GUARDS, POST], SKIPPED),
    ("around", "body"): (_read, [GUARDS, RAN, "fs/observed"], []),
    ("pre", "denied"): (_denied, [PRE, POST], [GUARDS, *SKIPPED]),
    ("pre", "approval"): (_allowed_once, [PRE, ASKED, DECIDED], []),
    ("approval", "guards"): (_allowed_once, [DECIDED, GUARDS, RAN], []),
    ("approval", "denied"): (_rejected, [ASKED, DECIDED, POST], [GUARDS, *SKIPPED]),
    ("denied", "post"): (_denied, [PRE, POST, RESULT], SKIPPED),
    ("body", "gate"): (_edit, [RAN, "fs/edit-intent"], []),
    ("gate", "body"): (_edit, ["fs/edit-intent", "policy/transaction", "fs/begun", "fs/committed", POST], []),
    ("body", "owned"): (_read, [RAN, "fs/observed", POST], []),
    ("body", "around"): (_wrapped, [RAN, "fs/observed", "policy/execute"], []),
    ("around", "post"): (_wrapped, ["policy/execute", POST], []),
    ("post", "final"): (_read, [POST, RESULT], []),
    ("final", "result"): (_read, [POST, RESULT], []),
    ("result", "completed card"): (_read, [RESULT], []),
    ("result", "all results"): (_context, [RESULT, "context/message"], []),
    ("all results", "context"): (_context, [POST, RESULT, "context/message"], []),
}


def test_there_are_twenty_two_arrows_between_all_places() -> None:
    assert len(ARROWS) == 22
    assert {place for arrow in ARROWS for place in arrow} == PLACES


@pytest.mark.parametrize("arrow", ARROWS, ids=[f"{one} to {other}" for one, other in ARROWS])
async def test_the_events_show_the_arrow(staged: Staged, arrow: tuple[str, str]) -> None:
    story, expected, never = ARROWS[arrow]
    observed: list[tuple[Outcome, list[str]]] = []
    staged.observers.append(lambda settled: observed.append((settled.outcome, [settled.call.call_id])))
    await story(staged)
    types = await staged.types("c")
    places = [types.index(each) for each in expected]
    assert places == sorted(places), types
    assert not set(never) & set(types), types
    assert types.count(RESULT) == types.count("tool/call") == 1
    assert types[0] == "tool/call"
    # The observers have seen the outcome that was recorded, once.
    (outcome,) = [outcome for outcome, calls in observed if calls == ["c"]]
    recorded = await staged.body("c", RESULT)
    assert (outcome.ok, list(outcome.content)) == (recorded["ok"], recorded["content"])


async def test_the_cards_go_out_with_call_and_result(staged: Staged) -> None:
    await _read(staged)
    assert (await staged.body("c", "tool/call"))["card"]["title"] == "Read a.txt"
    assert (await staged.body("c", RESULT))["card"] == {
        "title": "Read a.txt", "view": "read", "path": "a.txt", "ok": True, "first": 1, "last": 1, "total": 1,
    }  # fmt: skip


async def test_observers_come_after_post_execute_and_before_the_record(staged: Staged) -> None:
    order: list[str] = []

    async def review(finished: Any, following: Any) -> Any:
        order.append("post")
        return await following()

    def look(settled: Settled) -> None:
        under_way = staged.engine._under_way[("s", "c")]
        order.append("final" if under_way.record is None else "recorded")

    staged.services.post_execute.add(review)
    staged.observers.append(look)
    await _read(staged)
    assert order == ["post", "final"]
