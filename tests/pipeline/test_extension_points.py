"""Listeners of pre-execute and guards: what each may decide, and what becomes of a call when one of them breaks."""

import asyncio
from collections.abc import Mapping
from typing import Any

import pytest

from stockade_daemon.errors import PolicyRefusal
from stockade_daemon.policy.decisions import Accept, Allow, Ask, Deny, PreDecision
from stockade_daemon.policy.subjects import Judged
from stockade_daemon.policy.waterfall import Next
from stockade_daemon.values import Json
from tests.pipeline.conftest import Staged

BLOCKED = ["tool/call", "policy/pre-execute", "policy/post-execute", "tool/result"]


def code(result: Any) -> str:
    return "ok" if result["ok"] else str(result["error"]["code"])


class Hostile(Exception):
    def __str__(self) -> str:
        raise RuntimeError("not even this")


# Pre-execute.


def rewriting(arguments: Mapping[str, Json]) -> Any:
    async def listen(judged: Judged, following: Next[PreDecision]) -> PreDecision:
        inner = await following()
        return inner if isinstance(inner, Deny) else Allow(arguments=arguments)

    return listen


async def test_rewritten_arguments_are_judged_shown_run_and_recorded_beside_the_originals(staged: Staged) -> None:
    judged_with: list[Any] = []

    async def look(judged: Judged, following: Next[PreDecision]) -> PreDecision:
        judged_with.append(dict(judged.call.arguments))
        return await following()

    staged.services.pre_execute.add(look)
    staged.services.pre_execute.add(rewriting({"command": "echo rewritten"}))
    staged.services.guards.add(lambda judged: judged_with.append(judged.call.arguments["command"]))
    staged.observers.append(lambda settled: judged_with.append(settled.call.arguments["command"]))
    result = await staged.call("c", "shell", command="echo original")
    assert result["value"]["stdout"] == "rewritten\n"
    assert judged_with == [
        {"command": "echo original"},
        {"command": "echo rewritten"},
        "echo rewritten",
        "echo rewritten",
    ]
    assert (await staged.body("c", "tool/call"))["arguments"] == '{"command":"echo original"}'
    rewritten = await staged.body("c", "call/arguments")
    assert rewritten["arguments"] == '{"command":"echo rewritten"}'
    assert "echo rewritten" in rewritten["card"]["title"]
    assert (await staged.types("c"))[:4] == ["tool/call", "call/arguments", "policy/pre-execute", "policy/guards"]


async def test_a_call_whose_arguments_were_rewritten_is_still_the_same_call(staged: Staged) -> None:
    staged.services.pre_execute.add(rewriting({"command": "echo $RANDOM$RANDOM"}))
    first = await staged.call("c", "shell", command="echo original")
    assert (await staged.call("c", "shell", command="echo original"))["value"] == first["value"]
    assert (await staged.types("c")).count("tool/result") == 1


async def test_a_rewritten_call_is_asked_about_as_rewritten(staged: Staged) -> None:
    async def ask(judged: Judged, following: Next[PreDecision]) -> PreDecision:
        return Ask("sure?", arguments={"command": "echo rewritten"})

    staged.services.pre_execute.add(ask)
    result = await staged.call("c", "shell", command="echo original")
    assert code(result) == "APPROVAL_UNAVAILABLE"
    assert (await staged.body("c", "approval/asked"))["card"]["arguments"] == {"command": "echo rewritten"}


async def test_a_rule_further_out_judges_what_a_listener_further_in_has_written(staged: Staged) -> None:
    async def no_rm(judged: Judged, following: Next[PreDecision]) -> PreDecision:
        return Deny("no rm") if "rm" in str(judged.call.arguments["command"]) else await following()

    staged.services.pre_execute.add(no_rm)
    staged.services.pre_execute.add(rewriting({"command": "rm a.txt"}))
    result = await staged.call("c", "shell", command="true")
    assert (code(result), result["error"]["message"]) == ("DENIED", "no rm")
    assert "call/dispatched" not in await staged.types("c")


async def test_rewritten_arguments_that_the_tool_would_not_take_end_the_call_unrun(staged: Staged) -> None:
    staged.services.pre_execute.add(rewriting({"command": 1, "more": float("nan")}))
    result = await staged.call("c", "shell", command="true")
    assert code(result) == "HOOK_FAILED"
    assert "$.more is nan" in result["error"]["message"]
    assert await staged.types("c") == ["tool/call", "tool/result"]


async def test_rewriting_without_end_is_denied(staged: Staged) -> None:
    async def more(judged: Judged, following: Next[PreDecision]) -> PreDecision:
        return Allow(arguments={"command": f"{judged.call.arguments['command']} x"})

    staged.services.pre_execute.add(more)
    result = await staged.call("c", "shell", command="echo")
    assert code(result) == "DENIED"
    assert "without end" in result["error"]["message"]
    assert (await staged.types("c")).count("call/arguments") == 4


async def test_no_listener_can_change_the_call_that_it_is_shown(staged: Staged) -> None:
    async def change(judged: Judged, following: Next[PreDecision]) -> PreDecision:
        with pytest.raises(AttributeError):
            judged.call.tool = "shell"  # type: ignore[misc]
        with pytest.raises(TypeError):
            judged.call.arguments["path"] = "b"  # type: ignore[index]
        return await following()

    staged.services.pre_execute.add(change)
    assert code(await staged.call("c", "read", path="a.txt")) == "ok"


@pytest.mark.parametrize("answer", [None, True, "allow", Accept(), Deny("no", "NO_SUCH_CODE"), Deny("\ud800")])
async def test_what_is_no_decision_is_never_an_allow(staged: Staged, answer: Any) -> None:
    async def listen(judged: Judged, following: Next[Any]) -> Any:
        return answer

    staged.services.pre_execute.add(listen, owner="mine")
    result = await staged.call("c", "shell", command="true")
    assert code(result) == "HOOK_FAILED"
    assert await staged.types("c") == ["tool/call", "tool/result"]


@pytest.mark.parametrize("error", [ValueError("broken"), Hostile()], ids=["plain", "hostile"])
async def test_a_pre_execute_listener_that_raises_ends_the_call_without_post_execute(
    staged: Staged, error: Exception
) -> None:
    async def listen(judged: Judged, following: Next[PreDecision]) -> PreDecision:
        raise error

    staged.services.pre_execute.add(listen, owner="mine")
    result = await staged.call("c", "shell", command="true")
    assert code(result) == "HOOK_FAILED"
    assert result["error"]["message"].startswith("mine failed at tools/pre-execute: ")
    assert await staged.types("c") == ["tool/call", "tool/result"]


async def test_a_refusal_that_a_listener_raises_keeps_its_code(staged: Staged) -> None:
    async def listen(judged: Judged, following: Next[PreDecision]) -> PreDecision:
        raise PolicyRefusal("APPROVAL_REJECTED", "not today")

    staged.services.pre_execute.add(listen, owner="mine")
    assert code(await staged.call("c", "shell", command="true")) == "APPROVAL_REJECTED"
    assert await staged.types("c") == ["tool/call", "tool/result"]


async def test_a_listener_that_asks_the_next_twice_is_at_fault(staged: Staged) -> None:
    async def twice(judged: Judged, following: Next[PreDecision]) -> PreDecision:
        await following()
        return await following()

    staged.services.pre_execute.add(twice, owner="mine")
    result = await staged.call("c", "shell", command="true")
    assert code(result) == "HOOK_FAILED"
    assert "twice" in result["error"]["message"]


async def test_what_an_inner_listener_raises_is_not_the_outer_ones_fault(staged: Staged) -> None:
    async def outer(judged: Judged, following: Next[PreDecision]) -> PreDecision:
        return await following()

    async def inner(judged: Judged, following: Next[PreDecision]) -> PreDecision:
        raise ValueError("mine")

    staged.services.pre_execute.add(outer, owner="outer")
    staged.services.pre_execute.add(inner, owner="inner")
    result = await staged.call("c", "shell", command="true")
    assert result["error"]["message"].startswith("inner failed at tools/pre-execute: ValueError: mine")


# Guards.


async def test_a_guard_that_denies_is_followed_by_post_execute(staged: Staged) -> None:
    staged.services.guards.add(lambda judged: None)
    staged.services.guards.add(lambda judged: "first")
    staged.services.guards.add(lambda judged: "second")
    result = await staged.call("c", "shell", command="true")
    assert (code(result), result["error"]["message"]) == ("DENIED", "first")
    assert await staged.types("c") == [*BLOCKED[:2], "policy/guards", *BLOCKED[2:]]


async def test_a_guard_that_another_one_registers_counts_at_once(staged: Staged) -> None:
    def registering(judged: Judged) -> None:
        staged.services.guards.add(lambda judged: "registered later")

    staged.services.guards.add(registering)
    assert (await staged.call("c", "shell", command="true"))["error"]["message"] == "registered later"


@pytest.mark.parametrize("answer", [True, 0, b"no", "\udfff"])
async def test_what_is_no_answer_of_a_guard_is_never_an_abstention(staged: Staged, answer: Any) -> None:
    staged.services.guards.add(lambda judged: answer, owner="mine")
    assert code(await staged.call("c", "shell", command="true")) == "HOOK_FAILED"
    assert await staged.types("c") == ["tool/call", "policy/pre-execute", "tool/result"]


async def test_a_guard_that_raises_ends_the_call_without_post_execute(staged: Staged) -> None:
    def broken(judged: Judged) -> None:
        raise ValueError("broken")

    staged.services.guards.add(broken, owner="mine")
    result = await staged.call("c", "shell", command="true")
    assert code(result) == "HOOK_FAILED"
    assert result["error"]["message"].startswith("mine failed at guard: ValueError: broken")
    assert await staged.types("c") == ["tool/call", "policy/pre-execute", "tool/result"]


@pytest.mark.parametrize("error", [asyncio.CancelledError, SystemExit, KeyboardInterrupt])
async def test_an_extension_that_exits_ends_its_call_and_nothing_else(
    staged: Staged, error: type[BaseException]
) -> None:
    """A CancelledError is most often of a task of the extension's own; the call is not being cancelled."""
    exits = True

    async def listen(judged: Judged, following: Next[PreDecision]) -> PreDecision:
        if exits:
            raise error
        return await following()

    def look(settled: Any) -> None:
        raise error

    staged.services.pre_execute.add(listen, owner="house-rules")
    staged.observers.append(look)
    assert code(await staged.call("c", "read", path="a.txt")) == "HOOK_FAILED"
    exits = False
    assert code(await staged.call("d", "read", path="a.txt")) == "ok"
    staged.services.guards.add(_exits(error), owner="house-rules")
    assert code(await staged.call("e", "read", path="a.txt")) == "HOOK_FAILED"


def _exits(error: type[BaseException]) -> Any:
    def guard(judged: Judged) -> str | None:
        raise error

    return guard
