"""Listeners of execute and post-execute, and observers: what each may decide, and what becomes of a call when one of
them breaks."""

from collections.abc import Mapping
from typing import Any

import pytest

from stockade_daemon.pipeline import outcomes
from stockade_daemon.policy.decisions import Accept, Block, Replace
from stockade_daemon.policy.subjects import Finished, Judged, Settled
from stockade_daemon.policy.waterfall import Next
from stockade_daemon.values import Layer, Outcome
from tests.pipeline.conftest import Staged


def code(result: Any) -> str:
    return "ok" if result["ok"] else str(result["error"]["code"])


class Hostile(Exception):
    def __str__(self) -> str:
        raise RuntimeError("not even this")


# Execute.


async def test_a_wrapper_may_answer_itself_and_its_word_on_layers_and_usage_does_not_count(staged: Staged) -> None:
    async def answer(judged: Judged, following: Next[Outcome]) -> Outcome:
        return Outcome(value={"n": 2**70}, content=("mine",), layers=(Layer("user", True),))

    staged.services.execute.add(answer, owner="mine")
    result = await staged.call("c", "any", command="true")
    assert (result["ok"], result["value"], result["content"], result["layers"]) == (True, {"n": 2**70}, ["mine"], [])
    assert "call/dispatched" not in await staged.types("c")
    assert await staged.body("c", "policy/execute") == {"outcome": "answered", "ok": True}


async def test_a_wrapper_may_transform_and_the_bodys_layers_and_usage_stay(staged: Staged) -> None:
    async def transform(judged: Judged, following: Next[Outcome]) -> Outcome:
        outcome = await following()
        assert isinstance(outcome.value, Mapping)
        return Outcome(value={**outcome.value, "stdout": "x"}, content=("changed",), context=("told",))

    staged.services.execute.add(transform, owner="mine")
    result = await staged.call("c", "shell", command="echo hi")
    assert (result["value"]["stdout"], result["content"]) == ("x", ["changed"])
    assert result["layers"]
    assert result["usage"]["wall_s"] > 0
    assert (await staged.body("c", "context/message"))["text"] == "told"


async def test_a_value_of_a_wrapper_is_checked_like_a_bodys_before_post_execute_sees_it(staged: Staged) -> None:
    seen: list[str] = []

    async def answer(judged: Judged, following: Next[Outcome]) -> Outcome:
        return Outcome(value={"a": [0.0, float("inf")]})

    async def look(finished: Finished, following: Next[Any]) -> Any:
        seen.append(finished.outcome.error.code if finished.outcome.error else "ok")
        return await following()

    staged.services.execute.add(answer, owner="mine")
    staged.services.post_execute.add(look)
    result = await staged.call("c", "shell", command="true")
    assert code(result) == "INVALID_TOOL_OUTPUT"
    assert "$.a[1] is inf" in result["error"]["message"]
    assert seen == ["INVALID_TOOL_OUTPUT"]


async def test_an_error_that_a_wrapper_writes_has_no_value_and_the_domain_of_its_code(staged: Staged) -> None:
    async def fail(judged: Judged, following: Next[Outcome]) -> Outcome:
        return Outcome(value=1, has_value=True, error=outcomes.failed("TOOL_FAILED", "not good").error)

    staged.services.execute.add(fail, owner="mine")
    result = await staged.call("c", "shell", command="true")
    assert result["error"] == {"code": "TOOL_FAILED", "message": "not good", "domain": "tool", "retry": "unsafe"}
    assert "value" not in result
    assert result["content"] == ["Error: not good"]


async def test_a_second_attempt_is_made_where_the_manifest_says_idempotent(staged: Staged) -> None:
    async def twice(judged: Judged, following: Next[Outcome]) -> Outcome:
        await following()
        return await following()

    staged.services.execute.add(twice, owner="mine")
    result = await staged.call("c", "read", path="a.txt")
    assert code(result) == "ok"
    types = await staged.types("c")
    assert types.count("call/dispatched") == 2
    assert types.index("call/attempt") > types.index("call/dispatched")
    assert await staged.body("c", "call/attempt") == {"number": 2, "decision": "run"}


async def test_a_body_that_is_not_idempotent_never_runs_twice(staged: Staged) -> None:
    async def twice(judged: Judged, following: Next[Outcome]) -> Outcome:
        first = await following()
        second = await following()
        assert first is second
        return second

    staged.services.execute.add(twice, owner="mine")
    result = await staged.call("c", "shell", command="echo $RANDOM")
    assert code(result) == "ok"
    assert (await staged.types("c")).count("call/dispatched") == 1
    assert await staged.body("c", "call/attempt") == {"number": 2, "decision": "refused"}


async def test_a_wrapper_that_raises_before_the_body_says_that_nothing_was_run(staged: Staged) -> None:
    async def broken(judged: Judged, following: Next[Outcome]) -> Outcome:
        raise ValueError("broken")

    staged.services.execute.add(broken, owner="mine")
    assert code(await staged.call("c", "shell", command="true")) == "HOOK_FAILED"
    assert await staged.types("c") == ["tool/call", "policy/pre-execute", "policy/guards", "tool/result"]


async def test_a_wrapper_that_raises_after_the_body_withholds_its_result_and_skips_post_execute(staged: Staged) -> None:
    async def broken(judged: Judged, following: Next[Outcome]) -> Outcome:
        await following()
        raise ValueError("broken")

    staged.services.execute.add(broken, owner="mine")
    result = await staged.call("c", "shell", command="true")
    assert (code(result), result["error"]["retry"]) == ("TOOL_OUTCOME_UNKNOWN", "unsafe")
    assert (await staged.types("c"))[-2:] == ["call/dispatched", "tool/result"]


async def test_a_body_that_fails_is_an_outcome_to_a_wrapper_and_nothing_that_is_raised(staged: Staged) -> None:
    seen: list[Any] = []

    async def look(judged: Judged, following: Next[Outcome]) -> Outcome:
        outcome = await following()
        seen.append(outcome.error)
        return outcome

    staged.services.execute.add(look, owner="mine")
    result = await staged.call("c", "read", path="missing")
    assert code(result) == "FS_NOT_FOUND"
    assert [each.code for each in seen] == ["FS_NOT_FOUND"]
    assert "policy/execute" not in await staged.types("c")


# Post-execute.


def deciding(decision: Any) -> Any:
    async def listen(finished: Finished, following: Next[Any]) -> Any:
        return decision

    return listen


async def test_replaced_content_keeps_the_value(staged: Staged) -> None:
    staged.services.post_execute.add(deciding(Accept(content=("short",))))
    result = await staged.call("c", "shell", command="echo long")
    assert (result["value"]["stdout"], result["content"]) == ("long\n", ["short"])
    assert (await staged.body("c", "policy/post-execute"))["decision"] == "content"


async def test_a_replaced_value_brings_its_own_content(staged: Staged) -> None:
    staged.services.post_execute.add(deciding(Replace({"a": 1}, ("one",))))
    result = await staged.call("c", "any", command="echo long")
    assert (result["value"], result["content"]) == ({"a": 1}, ["one"])
    assert result["layers"]


@pytest.mark.parametrize(
    "decision",
    [Replace({"a": -0.0}, ("one",)), Accept(content=("\ud800",)), Block("no", ("\ud800",)), None, Accept(context=(1,))],  # type: ignore[arg-type]
    ids=["lossy value", "content", "context", "nothing", "no text"],
)
async def test_a_post_execute_decision_that_cannot_be_carried_out_is_a_safe_error(
    staged: Staged, decision: Any
) -> None:
    staged.services.post_execute.add(deciding(decision), owner="mine")
    result = await staged.call("c", "shell", command="echo sec''ret")
    assert code(result) == "TOOL_OUTCOME_UNKNOWN"
    assert "secret" not in str(result)
    assert (await staged.types("c"))[-2:] == ["call/dispatched", "tool/result"]


async def test_a_value_for_a_failed_call_is_a_mistake(staged: Staged) -> None:
    staged.services.post_execute.add(deciding(Replace({}, ())))
    result = await staged.call("c", "read", path="missing")
    assert code(result) == "TOOL_OUTCOME_UNKNOWN"
    assert "in the place of a failure" in result["error"]["message"]


async def test_a_block_takes_value_and_context_and_tells_only_its_own(staged: Staged) -> None:
    async def wrapper(judged: Judged, following: Next[Outcome]) -> Outcome:
        return Outcome(value="secret", content=("secret",), context=("from the wrapper",))

    staged.services.execute.add(wrapper)
    staged.services.post_execute.add(deciding(Block("not for you", ("why",))))
    result = await staged.call("c", "any", command="true")
    assert (code(result), result["content"]) == ("DENIED", ["not for you"])
    assert "value" not in result
    assert (await staged.body("c", "context/message"))["text"] == "why"


async def test_context_is_told_in_order_after_the_result(staged: Staged) -> None:
    async def wrapper(judged: Judged, following: Next[Outcome]) -> Outcome:
        return Outcome(value=1, context=("wrapper",))

    async def outer(finished: Finished, following: Next[Any]) -> Any:
        return (await following()).after("outer")

    staged.services.execute.add(wrapper)
    staged.services.post_execute.add(outer)
    staged.services.post_execute.add(deciding(Accept(context=("inner",))))
    await staged.call("c", "any", command="true")
    events = [(event.type, event.body.get("text")) for event in await staged.events("c")][-4:]
    told = [("context/message", text) for text in ("wrapper", "outer", "inner")]
    assert events == [("tool/result", None), *told]


async def test_a_post_execute_listener_that_raises_ends_the_call_and_no_other_is_asked(staged: Staged) -> None:
    asked: list[str] = []

    async def broken(finished: Finished, following: Next[Any]) -> Any:
        raise Hostile

    async def never(finished: Finished, following: Next[Any]) -> Any:
        asked.append("never")
        return await following()

    staged.services.post_execute.add(broken, owner="mine")
    staged.services.post_execute.add(never)
    result = await staged.call("c", "shell", command="true")
    assert code(result) == "TOOL_OUTCOME_UNKNOWN"
    assert "Hostile: an error that cannot say what it is" in result["error"]["message"]
    assert asked == []


async def test_post_execute_sees_refused_and_failed_calls(staged: Staged) -> None:
    seen: list[str] = []

    async def look(finished: Finished, following: Next[Any]) -> Any:
        seen.append(finished.outcome.error.code if finished.outcome.error else "ok")
        return await following()

    staged.services.post_execute.add(look)
    staged.services.guards.add(lambda judged: "no" if judged.call.call_id == "c1" else None)
    await staged.call("c1", "shell", command="true")
    await staged.call("c2", "read", path="missing")
    assert seen == ["DENIED", "FS_NOT_FOUND"]


# Results.


async def test_an_observer_sees_each_outcome_once_frozen_and_cannot_fail_it(staged: Staged) -> None:
    seen: list[tuple[str, str]] = []

    def broken(settled: Settled) -> None:
        raise Hostile

    def look(settled: Settled) -> None:
        seen.append((settled.call.call_id, settled.outcome.error.code if settled.outcome.error else "ok"))
        with pytest.raises((TypeError, AttributeError)):
            settled.outcome.value["stdout"] = "forged"  # type: ignore[index]

    staged.observers += [broken, look]
    assert (await staged.call("c1", "shell", command="echo hi"))["value"]["stdout"] == "hi\n"
    assert code(await staged.call_json("c2", "shell", b'{"command": "a", "command": "b"}')) == "INVALID_ARGS"
    assert code(await staged.call("c3", "no_such_tool")) == "UNKNOWN_TOOL"
    staged.services.guards.add(lambda judged: "no")
    assert code(await staged.call("c4", "shell", command="true")) == "DENIED"
    assert seen == [("c1", "ok"), ("c2", "INVALID_ARGS"), ("c3", "UNKNOWN_TOOL"), ("c4", "DENIED")]


async def test_a_cancellation_that_overtakes_a_wrapper_says_whether_the_body_had_run(staged: Staged) -> None:
    async def slow(judged: Judged, following: Next[Outcome]) -> Outcome:
        outcome = await following() if judged.call.call_id == "ran" else Outcome(value=1)
        staged.engine._under_way[("s", judged.call.call_id)].stop.request("cancelled")
        return outcome

    staged.services.execute.add(slow)
    assert code(await staged.call("ran", "any", command="true")) == "ABORTED"
    assert code(await staged.call("not", "any", command="true")) == "ABORTED_BEFORE_DISPATCH"
    for call_id in ("ran", "not"):
        assert "policy/post-execute" in await staged.types(call_id)


async def test_a_cancellation_during_post_execute_keeps_failures_and_context(staged: Staged) -> None:
    async def cancel(finished: Finished, following: Next[Any]) -> Any:
        staged.engine._under_way[("s", finished.judged.call.call_id)].stop.request("cancelled")
        return Accept(context=("told",))

    staged.services.post_execute.add(cancel)
    assert code(await staged.call("c1", "shell", command="true")) == "ABORTED"
    assert (await staged.body("c1", "context/message"))["text"] == "told"
    assert code(await staged.call("c2", "read", path="missing")) == "FS_NOT_FOUND"
