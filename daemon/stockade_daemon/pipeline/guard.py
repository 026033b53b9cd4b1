"""Stage guards: the last check on a frozen call."""

from stockade_daemon.errors import PolicyRefusal
from stockade_daemon.pipeline.context import Services
from stockade_daemon.policy.subjects import Judged


def guard(services: Services, judged: Judged) -> None:
    """Raises PolicyRefusal(DENIED) when a guard denies; what a guard raises itself is raised."""
    reason = services.guards.check(judged)
    body = {"decision": "abstain" if reason is None else "deny", "guards": len(services.guards)}
    if reason is not None:
        body["reason"] = reason
    services.ledger.note(judged.session.session_id, "policy/guards", judged.call.call_id, body)
    if reason is not None:
        raise PolicyRefusal("DENIED", reason)
