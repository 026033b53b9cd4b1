"""What a call that the daemon did not live to settle came to: each row of recovery.py's table."""

from collections.abc import Callable, Mapping

import pytest

from stockade_daemon.ledger import CallRecord, Ledger, Proof, Unsettled, settle_unfinished
from stockade_daemon.values import Event, Json


def unsettled(*story: tuple[str, dict[str, Json]]) -> Unsettled:
    events = tuple(Event("s", seq, type_, "c", 0, body) for seq, (type_, body) in enumerate(story, 1))
    return Unsettled(CallRecord("s", "c", "edit", "d", "running", None), "p" * 64, events)


def never(body: Mapping[str, Json]) -> Proof:
    raise AssertionError(f"the disk was asked about {body}")


def always(proof: Proof) -> Callable[[Mapping[str, Json]], Proof]:
    return lambda body: proof


CALL: tuple[str, dict[str, Json]] = ("tool/call", {})
DISPATCHED: tuple[str, dict[str, Json]] = ("call/dispatched", {"layers": [{"name": "pid", "held": True, "reason": ""}]})


def begun(path: str) -> tuple[str, dict[str, Json]]:
    return "fs/begun", {"path": path, "before": "1", "after": "2"}


def committed(path: str) -> tuple[str, dict[str, Json]]:
    return "fs/committed", {"path": path}


def code(result: Mapping[str, Json]) -> Json:
    error = result["error"]
    assert isinstance(error, Mapping)
    return error["code"]


def message(result: Mapping[str, Json]) -> str:
    error = result["error"]
    assert isinstance(error, Mapping)
    return str(error["message"])


@pytest.mark.parametrize("story", [(CALL,), (CALL, ("approval/asked", {})), ()])
def test_a_call_that_was_never_dispatched_was_not_started(story: tuple[tuple[str, dict[str, Json]], ...]) -> None:
    result = settle_unfinished(unsettled(*story), never)
    assert code(result) == "TOOL_NOT_STARTED"
    assert result["effects"] == "none (proven)"
    assert message(result).endswith("Nothing ran; repeat the call with a new id.")
    assert ("approval" in message(result)) == (len(story) == 2)


def test_a_dispatched_call_without_a_transaction_had_no_effects() -> None:
    result = settle_unfinished(unsettled(CALL, DISPATCHED), never)
    assert code(result) == "TOOL_OUTCOME_UNKNOWN"
    assert result["effects"] == "none (proven)"
    assert "effects: none (proven)" in message(result)
    assert result["layers"] == [{"name": "pid", "held": True, "reason": ""}]
    assert result["profile_digest"] == "p" * 64


def test_the_digest_is_that_of_the_profile_that_the_call_ran_under_and_not_the_sessions_of_now() -> None:
    call: tuple[str, dict[str, Json]] = ("tool/call", {"profile_digest": "began with"})
    narrowed: tuple[str, dict[str, Json]] = ("call/profile", {"digest": "narrowed to"})
    assert settle_unfinished(unsettled(call, DISPATCHED), never)["profile_digest"] == "began with"
    assert settle_unfinished(unsettled(call, narrowed, DISPATCHED), never)["profile_digest"] == "narrowed to"


@pytest.mark.parametrize(
    ("proof", "effects"),
    [("none", "none (proven)"), ("applied", "committed (proven): a"), ("unknown", "unknown: a")],
)
def test_the_disk_decides_about_a_transaction_whose_commit_is_not_recorded(proof: Proof, effects: str) -> None:
    result = settle_unfinished(unsettled(CALL, DISPATCHED, begun("a")), always(proof))
    assert code(result) == "TOOL_OUTCOME_UNKNOWN"
    assert result["effects"] == effects
    assert f"effects: {effects}." in message(result)
    assert message(result).endswith("still wanted." if proof == "none" else "Look at the state before repeating it.")


def test_a_recorded_commit_is_not_asked_about_again() -> None:
    story = (CALL, DISPATCHED, begun("a"), committed("a"))
    assert settle_unfinished(unsettled(*story), never)["effects"] == "committed: a"
    mixed = (*story, begun("b"))
    asked: list[Json] = []

    def prove(body: Mapping[str, Json]) -> Proof:
        asked.append(body["path"])
        return "unknown"

    assert settle_unfinished(unsettled(*mixed), prove)["effects"] == "committed: a; unknown: b"
    assert asked == ["b"]


async def test_a_recovered_call_is_settled_like_any_other(ledger: Ledger) -> None:
    await ledger.start_call("s", "c", "shell", "d", {})
    await ledger.dispatched("s", "c")
    for left in await ledger.unsettled():
        await ledger.settle(left.call.session_id, left.call.call_id, settle_unfinished(left, never))
    assert await ledger.unsettled() == []
    call = await ledger.call("s", "c")
    assert call is not None
    assert call.result is not None
    assert call.result["effects"] == "none (proven)"
