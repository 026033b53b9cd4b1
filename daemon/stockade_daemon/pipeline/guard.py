"""Stage guards: the last check on a frozen call, and on each transaction of it."""

import logging

from stockade_daemon.errors import ExtensionFailed, PolicyRefusal, Refusal
from stockade_daemon.pipeline.context import CallUnderWay, Services
from stockade_daemon.policy.budget import within
from stockade_daemon.policy.decisions import Deny, PreDecision
from stockade_daemon.policy.intents import IntentPoint, Subject
from stockade_daemon.policy.subjects import Judged, Transaction
from stockade_daemon.values import Json

_log = logging.getLogger(__name__)


def guard(services: Services, judged: Judged, under_way: CallUnderWay) -> None:
    """Raises PolicyRefusal(DENIED) when a guard denies; what a guard raises itself is raised.

    The session's budget is the last guard, so that only a call which all others let pass is counted. It has no say on a
    job: its parent was counted.
    """
    spent, is_job = under_way.live.spent, judged.call.background
    reason = services.guards.check(judged)
    if reason is None and not is_job:
        reason = within(judged.session.profile.budget, spent)
    body: dict[str, Json] = {
        "decision": "abstain" if reason is None else "deny",
        "guards": len(services.guards) + (not is_job),
    }
    if is_job:
        body["background"] = True
    if reason is not None:
        body["reason"] = reason
    spent.learn("policy/guards", body)
    services.ledger.note(judged.session.session_id, "policy/guards", judged.call.call_id, body)
    if reason is not None:
        raise PolicyRefusal("DENIED", reason)


def guard_transaction(services: Services, transaction: Transaction) -> None:
    """Returns when all guards abstain. Raises Refusal: DENIED with a guard's reason, HOOK_FAILED where one is broken,
    or what one raises. Whichever it is, it is recorded: a body may keep it to itself."""
    refusal: Refusal | None = None
    try:
        reason = services.transaction_guards.check(transaction)
        if reason is not None:
            refusal = PolicyRefusal("DENIED", reason)
    except Refusal as raised:
        refusal = raised
    except ExtensionFailed as failure:
        refusal = broken(failure)
    judged = transaction.judged
    body: dict[str, Json] = {
        "decision": "abstain" if refusal is None else "deny",
        "guards": len(services.transaction_guards),
        "changes": len(transaction.changes),
    }
    if refusal is not None:
        body["reason"] = refusal.message
    services.ledger.note(judged.session.session_id, "policy/transaction", judged.call.call_id, body)
    if refusal is not None:
        raise refusal


async def decided(point: IntentPoint[Subject], subject: Subject) -> PreDecision:
    """What an extension point's listeners say. One that breaks has denied."""
    try:
        return await point.decide(subject)
    except Refusal as refusal:
        return Deny(refusal.message, refusal.code)
    except ExtensionFailed as failure:
        refused = broken(failure)
        return Deny(refused.message, refused.code)


def broken(failure: ExtensionFailed) -> PolicyRefusal:
    """What becomes of a change when an extension that was asked about it breaks."""
    _log.error("a change was refused because an extension failed", exc_info=failure)
    return PolicyRefusal("HOOK_FAILED", f"{failure}. The change was not made; have the admin mend it")
