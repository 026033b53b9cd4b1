"""Every step from one part of a call's way to the next, by the recorded order of events."""

import asyncio
import hashlib
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any

import pytest

from stockade_daemon.policy.decisions import Accept, Ask, Deny
from stockade_daemon.policy.subjects import Settled
from stockade_daemon.values import Outcome
from tests.pipeline.conftest import HANG_S, Staged

READ = b'{"path": "a.txt"}'
PLACES = {
    "message", "call", "pending card", "pre", "approval", "guards", "denied", "around", "body", "gate", "owned", "post",
    "final", "result", "completed card", "all results", "context",
}  # fmt: skip

# A story is of one call, "c". Its events show the arrow: these in this order, and none of `never` among them.
Story = Callable[[Staged], Awaitable[None]]


async def _read(staged: Staged) -> None:
    await staged.call_json("c", "read", READ)


async def _edit(staged: Staged) -> None:
    """The body says the digest that it was told: it is the one of what lies there."""
    await staged.call("r", "read", path="a.txt")
    result = await staged.call("c", "edit", path="a.txt", old_string="one", new_string="two")
    lies_there = hashlib.sha256((staged.workspace / "a.txt").read_bytes()).hexdigest()
    assert result["value"]["digest"] == lies_there == (await staged.body("c", "fs/committed"))["after"]


async def _wrapped(staged: Staged) -> None:
    async def wrap(judged: Any, following: Any) -> Outcome:
        outcome: Any = await following()
        return Outcome(value={**outcome.value, "content": "wrapped"}, content=("wrapped",))

    staged.services.execute.add(wrap)
    await staged.call("c", "read", path="a.txt")


async def _seen_by_wrapper(staged: Staged) -> None:
    """What surrounds the body reads what is recorded before and after it, and says that as the call's text."""

    async def look(judged: Any, following: Any) -> Outcome:
        before = RAN in await staged.types("c")
        outcome: Outcome = await following()
        value: Any = outcome.value
        return replace(outcome, content=(f"{before} {RAN in await staged.types('c')} {value['path']}",))

    staged.services.execute.add(look)
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
        async with asyncio.timeout(HANG_S):
            asked = await anext(watcher.asks())
        await staged.services.approvals.decide(asked.ask_id, asked.shown_hash, allow=allow, reason="", decision_id="d")
        await staged.engine.wait("s", "c", 30.0)


async def _allowed_once(staged: Staged) -> None:
    await _ask(staged, allow=True)


async def _rejected(staged: Staged) -> None:
    await _ask(staged, allow=False)


async def _turn(staged: Staged) -> None:
    """Of three reads, of which "c" is the first and the last to end; something is told about each."""
    others: set[str] = set()
    ended = asyncio.Event()

    async def last(judged: Any, following: Any) -> Outcome:
        outcome: Outcome = await following()
        if judged.call.call_id == "c":
            await ended.wait()
        else:
            others.add(judged.call.call_id)
        if others == {"d", "e"}:
            ended.set()
        return outcome

    async def tell(finished: Any, following: Any) -> Any:
        return Accept(context=(f"of {finished.judged.call.call_id}",))

    staged.services.execute.add(last)
    staged.services.post_execute.add(tell)
    turn = await staged.engine.begin_turn("s", "t", [(call_id, "read", READ) for call_id in ("c", "d", "e")])
    async with asyncio.timeout(HANG_S):
        await turn.over.wait()


async def _replaced(staged: Staged) -> None:
    async def replace(finished: Any, following: Any) -> Any:
        return Accept(content=("another text",))

    staged.services.post_execute.add(replace)
    await staged.call("c", "read", path="a.txt")


async def _seen_by_pre(staged: Staged) -> None:
    """Pre-execute reads what is recorded, and says it as the reason of its denial."""

    async def look(judged: Any, following: Any) -> Any:
        (first,) = await staged.events("c")
        card: Any = first.body["card"]
        return Deny(f"{first.type} {card['title']}")

    staged.services.pre_execute.add(look)
    await staged.call("c", "read", path="a.txt")


PRE, GUARDS, POST = "policy/pre-execute", "policy/guards", "policy/post-execute"
RAN, RESULT, ASKED, DECIDED = "call/dispatched", "tool/result", "approval/asked", "approval/decided"
SKIPPED = [RAN, "fs/observed"]


@dataclass(frozen=True, slots=True)
class Shown:
    """What a story came to: the events of "c" by type, those of the session as `TYPE CALL`, what observers saw."""

    bodies: Mapping[str, Any]
    session: list[str]
    observed: list[tuple[Outcome, bool]]  # each outcome, and whether it was recorded by then


def _as_it_came(shown: Shown) -> bool:
    call = shown.bodies["tool/call"]
    return bool(call["tool"] == "read" and call["arguments"] == READ.decode())


def _pending_card(shown: Shown) -> bool:
    return bool(shown.bodies["tool/call"]["card"]["title"] == "Read a.txt")


def _recorded_before_judged(shown: Shown) -> bool:
    return bool(shown.bodies[PRE]["reason"] == "tool/call Read a.txt")


def _observed_what_post_made(shown: Shown) -> bool:
    (outcome, _) = shown.observed[0]
    return outcome.content == ("another text",) and len(shown.observed) == 1


def _observed_then_recorded(shown: Shown) -> bool:
    (outcome, recorded) = shown.observed[0]
    result = shown.bodies[RESULT]
    return not recorded and (outcome.ok, list(outcome.content)) == (result["ok"], result["content"])


def _completed_card(shown: Shown) -> bool:
    return bool(
        shown.bodies[RESULT]["card"]
        == {"title": "Read a.txt", "view": "read", "path": "a.txt", "ok": True, "first": 1, "last": 1, "total": 1}
    )


def _all_results_first(shown: Shown) -> bool:
    """Nothing is told before the last call has its result, and they are in the order of the calls."""
    after = shown.session[: shown.session.index("context/message c")]
    return [each for each in after if each.startswith(RESULT)] == [f"{RESULT} {call}" for call in "cde"]


def _told_in_order(shown: Shown) -> bool:
    told = [each for each in shown.session if each.startswith("context/message")]
    return told == [f"context/message {call}" for call in "cde"] == shown.session[-3:]


def _text_of_the_wrapper(shown: Shown) -> bool:
    """The wrapper was given what the body came to, and what it made of that is the result."""
    return bool(shown.bodies[RESULT]["value"]["content"] == "wrapped")


def _surrounded(shown: Shown) -> bool:
    """The body ran between what came before it and what came after, which was given what the body came to."""
    return bool(shown.bodies[RESULT]["content"] == ["False True a.txt"])


def _guard_has_answered(shown: Shown) -> bool:
    return bool(shown.bodies[GUARDS]["decision"] == "abstain")


def _error(shown: Shown) -> str:
    return str((shown.bodies[RESULT].get("error") or {}).get("code"))


def _denied_code(shown: Shown) -> bool:
    return _error(shown) == "DENIED" and len(shown.observed) == 1


def _rejected_code(shown: Shown) -> bool:
    return _error(shown) == "APPROVAL_REJECTED" and len(shown.observed) == 1


def _ok(shown: Shown) -> bool:
    return bool(shown.bodies[RESULT]["ok"])


ARROWS: dict[tuple[str, str], tuple[Story, list[str], list[str], Callable[[Shown], bool]]] = {
    ("message", "call"): (_read, ["tool/call"], [], _as_it_came),
    ("call", "pending card"): (_read, ["tool/call", PRE], [], _pending_card),
    ("call", "pre"): (_seen_by_pre, ["tool/call", PRE], SKIPPED, _recorded_before_judged),
    ("pre", "guards"): (_read, [PRE, GUARDS], [ASKED], _guard_has_answered),
    ("guards", "around"): (_wrapped, [GUARDS, RAN, "policy/execute"], [], _ok),
    ("guards", "denied"): (_guarded, [PRE, GUARDS, POST], SKIPPED, _denied_code),
    ("around", "body"): (_seen_by_wrapper, [GUARDS, RAN, "policy/execute"], ["fs/observed"], _surrounded),
    ("pre", "denied"): (_denied, [PRE, POST], [GUARDS, *SKIPPED], _denied_code),
    ("pre", "approval"): (_allowed_once, [PRE, ASKED, DECIDED], [], _ok),
    ("approval", "guards"): (_allowed_once, [DECIDED, GUARDS, RAN], [], _guard_has_answered),
    ("approval", "denied"): (_rejected, [ASKED, DECIDED, POST], [GUARDS, *SKIPPED], _rejected_code),
    ("denied", "post"): (_denied, [PRE, POST, RESULT], SKIPPED, _denied_code),
    ("body", "gate"): (_edit, [RAN, "fs/edit-intent"], [], _ok),
    ("gate", "body"): (_edit, ["fs/edit-intent", "policy/transaction", "fs/begun", "fs/committed", POST], [], _ok),
    ("body", "owned"): (_read, [RAN, POST, "fs/observed", RESULT], [], _ok),
    ("body", "around"): (_seen_by_wrapper, [RAN, "policy/execute"], ["fs/observed"], _surrounded),
    ("around", "post"): (_wrapped, ["policy/execute", POST], [], _text_of_the_wrapper),
    ("post", "final"): (_replaced, [POST, RESULT], [], _observed_what_post_made),
    ("final", "result"): (_read, [POST, RESULT], [], _observed_then_recorded),
    ("result", "completed card"): (_read, [RESULT], [], _completed_card),
    ("result", "all results"): (_turn, [RESULT, "context/message"], [], _all_results_first),
    ("all results", "context"): (_turn, [POST, RESULT, "context/message"], [], _told_in_order),
}


def test_there_are_twenty_two_arrows_between_all_places() -> None:
    assert len(ARROWS) == 22
    assert {place for arrow in ARROWS for place in arrow} == PLACES


@pytest.mark.parametrize("arrow", ARROWS, ids=[f"{one} to {other}" for one, other in ARROWS])
async def test_the_events_show_the_arrow(staged: Staged, arrow: tuple[str, str]) -> None:
    story, expected, never, shows = ARROWS[arrow]
    observed: list[tuple[Outcome, bool]] = []

    def look(settled: Settled) -> None:
        if settled.call.call_id == "c":
            observed.append((settled.outcome, staged.engine._under_way["s", "c"].record is not None))

    staged.observers.append(look)
    await story(staged)
    await staged.ledger.append("s", "policy/guards")  # durable behind what was noted
    events = [event for event in await staged.ledger.read("s") if event.call_id]
    of_c = {event.type: event.body for event in events if event.call_id == "c"}
    types = [event.type for event in events if event.call_id == "c"]
    places = [types.index(each) for each in expected]
    assert places == sorted(places), types
    assert not set(never) & set(types), types
    assert types.count(RESULT) == types.count("tool/call") == 1
    assert types[0] == "tool/call"
    assert shows(Shown(of_c, [f"{event.type} {event.call_id}" for event in events], observed)), (of_c, observed)
