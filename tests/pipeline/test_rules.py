"""Rules of docs/semantics.md that no other test is about."""

import asyncio
from contextlib import aclosing
from typing import Any

import pytest

from stockade_daemon.errors import RequestError
from stockade_daemon.pipeline.stop import Stop
from stockade_daemon.policy.asks import Ask as Asked
from stockade_daemon.policy.decisions import Ask, Deny
from stockade_daemon.values import Outcome
from tests.pipeline.conftest import Staged


def code(result: Any) -> str:
    return "ok" if result["ok"] else str(result["error"]["code"])


def cancel(staged: Staged, call_id: str) -> None:
    staged.engine._under_way[("s", call_id)].stop.request("cancelled")


async def test_faulty_arguments_are_said_also_of_a_call_that_is_taken_back(staged: Staged) -> None:
    await staged.engine.begin("s", "c", "read", b"{")
    await staged.engine.cancel("s", "c")
    assert code(await staged.call_json("c", "read", b"{")) == "INVALID_ARGS"


async def test_all_stages_of_a_call_see_one_token_and_no_two_calls_share_it(staged: Staged) -> None:
    tokens: dict[str, list[str]] = {}

    async def look(judged: Any, following: Any) -> Any:
        tokens.setdefault(judged.call.call_id, []).append(judged.call.token)
        return await following()

    async def review(finished: Any, following: Any) -> Any:
        return await look(finished.judged, following)

    staged.services.pre_execute.add(look)
    staged.services.execute.add(look)
    staged.services.post_execute.add(review)
    staged.observers.append(lambda settled: tokens[settled.call.call_id].append(settled.call.token))
    for call_id in ("c1", "c2"):
        await staged.call(call_id, "read", path="a.txt")
    assert [len(seen) for seen in tokens.values()] == [4, 4]
    assert [len(set(seen)) for seen in tokens.values()] == [1, 1]
    assert tokens["c1"] != tokens["c2"]


async def test_a_call_of_no_session_is_not_taken(staged: Staged) -> None:
    with pytest.raises(RequestError, match="no session"):
        await staged.engine.begin("other", "c", "read", b"{}")


@pytest.mark.parametrize("how", ["denies", "raises"])
async def test_a_denial_or_failure_that_comes_after_a_cancellation_is_kept(staged: Staged, how: str) -> None:
    async def late(judged: Any, following: Any) -> Any:
        cancel(staged, "c")
        if how == "raises":
            raise ValueError("late")
        return Deny("late")

    staged.services.pre_execute.add(late, owner="mine")
    assert code(await staged.call("c", "read", path="a.txt")) == {"denies": "DENIED", "raises": "HOOK_FAILED"}[how]


async def asked(staged: Staged, call_id: str, watcher: Any) -> Asked:
    await staged.engine.begin("s", call_id, "read", b'{"path": "a.txt"}')
    found: Asked = await anext(aiter(watcher.asks()))
    return found


async def ask(judged: Any, following: Any) -> Any:
    return Ask("sure?")


async def test_an_ask_is_recorded_before_it_is_shown_and_each_has_its_own_id(staged: Staged) -> None:
    staged.services.pre_execute.add(ask)
    ids = []
    with staged.services.approvals.watching("s") as watcher:
        for call_id in ("c1", "c2"):
            shown = await asked(staged, call_id, watcher)
            assert (await staged.body(call_id, "approval/asked"))["ask_id"] == shown.ask_id
            ids.append(shown.ask_id)
            await staged.engine.cancel("s", call_id)
    assert len(set(ids)) == 2


async def test_an_answer_that_comes_after_the_call_was_taken_back_changes_nothing(staged: Staged) -> None:
    staged.services.pre_execute.add(ask)
    with staged.services.approvals.watching("s") as watcher:
        shown = await asked(staged, "c", watcher)
        await staged.engine.cancel("s", "c")
        with pytest.raises(RequestError, match="withdrawn"):
            await staged.services.approvals.decide(
                shown.ask_id, shown.shown_hash, allow=True, reason="", decision_id="d"
            )
    assert (await staged.body("c", "approval/decided"))["outcome"] == "ABORTED_BEFORE_DISPATCH"
    assert "call/dispatched" not in await staged.types("c")


async def test_an_approver_of_another_session_is_not_asked(staged: Staged) -> None:
    staged.services.pre_execute.add(ask)
    with staged.services.approvals.watching("other"):
        assert code(await staged.call("c", "read", path="a.txt")) == "APPROVAL_UNAVAILABLE"


async def test_an_outcome_of_another_call_is_the_wrappers_word_and_not_that_calls_proof(staged: Staged) -> None:
    kept: list[Outcome] = []

    async def cache(judged: Any, following: Any) -> Outcome:
        if not kept:
            kept.append(await following())
        return kept[0]

    staged.services.execute.add(cache)
    first, second = await staged.call("c1", "read", path="a.txt"), await staged.call("c2", "read", path="a.txt")
    assert first["value"] == second["value"]
    assert (bool(first["layers"]), second["layers"]) == (True, [])
    assert await staged.body("c2", "policy/execute") == {"outcome": "answered", "ok": True}


async def test_a_wrapper_does_not_keep_a_call_from_being_taken_back(staged: Staged) -> None:
    async def wrap(judged: Any, following: Any) -> Outcome:
        outcome: Outcome = await following()
        return outcome

    staged.services.execute.add(wrap)
    running = asyncio.ensure_future(staged.call("c", "shell", command="echo begun; sleep 60"))
    async with aclosing(staged.ledger.follow("s")) as events:
        async for event in events:
            if event.type == "call/dispatched":
                break
    await staged.engine.cancel("s", "c")
    assert code(await running) == "ABORTED"


async def test_a_stop_in_front_of_the_body_is_before_dispatch_also_inside_a_wrapper(staged: Staged) -> None:
    async def stop(judged: Any, following: Any) -> Outcome:
        cancel(staged, "c")
        outcome: Outcome = await following()
        return outcome

    staged.services.execute.add(stop)
    assert code(await staged.call("c", "shell", command="true")) == "ABORTED_BEFORE_DISPATCH"
    assert "call/dispatched" not in await staged.types("c")


async def test_of_deadline_and_cancellation_the_first_cause_counts() -> None:
    for first, second in (("deadline", "cancelled"), ("cancelled", "deadline")):
        stop = Stop()
        stop.request(first)  # type: ignore[arg-type]
        stop.request(second)  # type: ignore[arg-type]
        assert stop.cause == first
