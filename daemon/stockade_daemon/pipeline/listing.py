"""The calls that have no result yet, and what each waits for."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from stockade_daemon.ledger.records import CallState
from stockade_daemon.pipeline.context import CallUnderWay
from stockade_daemon.pipeline.scheduler import Scheduler
from stockade_daemon.policy.approvals import Approvals
from stockade_daemon.values import Json


@dataclass(frozen=True, slots=True)
class Listed:
    session_id: str
    call_id: str
    tool: str
    state: CallState
    turn_id: str  # empty: a call alone
    since_ms: int  # when it was taken, or its turn was where its place has not come; milliseconds since 1970, UTC
    waits_for: str  # turn | approval | worker; empty: it is being judged, or runs
    ask_id: str  # of the approval
    parent: str = ""  # of a background job: the call that has started it
    card: Mapping[str, Json] | None = None  # the pending one, of a call whose place has come and that can be shown


def listed(calls: Iterable[CallUnderWay], turns: Scheduler, approvals: Approvals, session_id: str) -> list[Listed]:
    """Of one session, or with an empty id of all: those that were taken, oldest first, and then those whose place in a
    turn has not come, in its order."""
    found = [_taken(each, approvals) for each in calls if session_id in ("", each.call.session_id)]
    found.sort(key=lambda each: each.since_ms)
    taken = {(each.session_id, each.call_id) for each in found}
    for owner, turn, _, wanted in turns.waiting():
        if session_id in ("", owner) and (owner, wanted.call_id) not in taken:
            found.append(Listed(owner, wanted.call_id, wanted.tool, "pending", turn.turn_id, turn.since_ms, "turn", ""))
    return found


def _taken(under_way: CallUnderWay, approvals: Approvals) -> Listed:
    call = under_way.call
    ask_id = approvals.waiting_for(call.session_id, call.call_id)
    if ask_id:
        waits_for = "approval"
    elif under_way.waits_for_worker:
        waits_for = "worker"
    elif under_way.place.held:
        waits_for = "turn"
    else:
        waits_for = ""
    return Listed(
        call.session_id,
        call.call_id,
        call.tool,
        "running" if under_way.dispatched else "pending",
        under_way.place.turn_id,
        under_way.since_ms,
        waits_for,
        ask_id,
        call.parent or "" if call.background else "",
        under_way.card,
    )
