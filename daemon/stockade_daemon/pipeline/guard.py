"""Stage guards: the last check on a frozen call."""

from stockade_daemon.errors import PolicyRefusal
from stockade_daemon.pipeline.context import CallUnderWay, Services
from stockade_daemon.policy.budget import within
from stockade_daemon.policy.subjects import Judged
from stockade_daemon.values import Json


def guard(services: Services, judged: Judged, under_way: CallUnderWay) -> None:
    """Raises PolicyRefusal(DENIED) when a guard denies; what a guard raises itself is raised.

    The session's budget is the last guard, so that only a call which all others let pass is counted.
    """
    spent = under_way.live.spent
    reason = services.guards.check(judged) or within(judged.session.profile.budget, spent)
    body: dict[str, Json] = {
        "decision": "abstain" if reason is None else "deny",
        "guards": len(services.guards) + 1,
    }
    if reason is not None:
        body["reason"] = reason
    spent.learn("policy/guards", body)
    services.ledger.note(judged.session.session_id, "policy/guards", judged.call.call_id, body)
    if reason is not None:
        raise PolicyRefusal("DENIED", reason)
