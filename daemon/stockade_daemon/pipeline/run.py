"""A call's way, on one screen.

    pre-execute → approval → guards → execute → body → intents → post-execute → finalize → observers

Its record, `tool/call`, was made before `run` is called; its one `tool/result` is made after. A denial skips the body
and goes on at post-execute; what raises is an error outcome that skips it. A call of a turn waits where turn.py says:
before its body, and before post-execute.
"""

import logging
from collections.abc import Iterable
from dataclasses import replace

from stockade_daemon.errors import Aborted, ExtensionFailed, PolicyRefusal, Refusal
from stockade_daemon.pipeline import outcomes
from stockade_daemon.pipeline.approve import approve
from stockade_daemon.pipeline.context import CallUnderWay, Services
from stockade_daemon.pipeline.execute import execute
from stockade_daemon.pipeline.finalize import finalize
from stockade_daemon.pipeline.guard import guard
from stockade_daemon.pipeline.learned import learn
from stockade_daemon.pipeline.observe import Observer, observe
from stockade_daemon.pipeline.post_execute import Reviewed, post_execute
from stockade_daemon.pipeline.pre_execute import pre_execute
from stockade_daemon.pipeline.stop import Stopped
from stockade_daemon.pipeline.stopped import before_dispatch, while_running
from stockade_daemon.pipeline.waited import Waited, finish, go_on
from stockade_daemon.policy.decisions import Allow, Ask, Deny, PreDecision
from stockade_daemon.policy.pending import Parked
from stockade_daemon.policy.subjects import Judged, Settled
from stockade_daemon.values import Outcome

_log = logging.getLogger(__name__)


async def run(
    services: Services,
    judged: Judged,
    under_way: CallUnderWay,
    observers: Iterable[Observer],
    waited: Waited | None = None,
) -> Reviewed:
    """The frozen outcome of a recorded call, and context for the agent. Never raises what a stage raised, but Parked:
    the daemon ends while somebody is asked, and the next one goes on.

    waited: of a call with which an earlier daemon had come to its approval; it goes on from there.
    """
    decision: PreDecision
    try:
        if waited is None:
            if judged.call.background:
                decision = Allow()  # all of this was asked of its parent
            else:
                decision, judged = await pre_execute(services, judged, under_way)
            outcome = await _execute(services, judged, under_way, decision)
        elif waited.staged is not None:
            outcome = await finish(services, judged, under_way, waited)
        else:
            outcome = await _execute(services, judged, under_way, waited)
        outcome = _unless_stopped(under_way, outcome)
        under_way.place.over()
        await under_way.place.results_before()
        reviewed = await post_execute(services, judged, under_way, outcome)
        reviewed = replace(reviewed, outcome=_unless_stopped(under_way, reviewed.outcome))
    except Parked:
        raise
    except Refusal as refusal:
        reviewed = Reviewed(outcomes.refused(refusal), ())
    except ExtensionFailed as failure:
        _log.exception("call %s/%s was failed by an extension", judged.session.session_id, judged.call.call_id)
        reviewed = Reviewed(_failed_by_extension(failure, judged, under_way), ())
    except Exception as error:
        _log.exception("call %s/%s met a fault of the daemon", judged.session.session_id, judged.call.call_id)
        text = f"the daemon failed at this call ({type(error).__name__}); this is a fault of Stockade, please report it"
        code = "TOOL_OUTCOME_UNKNOWN" if under_way.dispatched else "TOOL_NOT_STARTED"
        reviewed = Reviewed(outcomes.failed(code, text), ())
    final = Reviewed(finalize(reviewed.outcome, judged.manifest), reviewed.context)
    learn(services, judged, under_way, final.outcome)
    observe(observers, Settled(judged.session, under_way.call, judged.manifest, final.outcome))
    return final


def _failed_by_extension(failure: ExtensionFailed, judged: Judged, under_way: CallUnderWay) -> Outcome:
    """An extension that breaks refuses the call; where the body has run, what it came to is not to be had."""
    if not under_way.dispatched:
        return outcomes.failed("HOOK_FAILED", f"{failure}. {judged.call.tool} was not run; have the admin mend it")
    return outcomes.failed(
        "TOOL_OUTCOME_UNKNOWN",
        f"{failure}. {judged.call.tool} had run, and its result is withheld. Look at the state before repeating the "
        "call, and have the admin mend what failed",
    )


def _unless_stopped(under_way: CallUnderWay, outcome: Outcome) -> Outcome:
    """A success that a stop has overtaken is reported as one that was stopped; a failure says more and stays."""
    cause = under_way.stop.cause
    if not outcome.ok or cause is None or cause == "deadline":
        return outcome
    stopped = Stopped(cause)
    if under_way.dispatched:
        refusal = while_running(stopped, limit="", after="it had ended, and what it had committed stays")
    else:
        refusal = before_dispatch(stopped)
    aborted = outcomes.refused(refusal, layers=outcome.layers, usage=outcome.usage)
    return replace(aborted, context=outcome.context)


async def _execute(
    services: Services, judged: Judged, under_way: CallUnderWay, decision: PreDecision | Waited
) -> Outcome:
    try:
        under_way.stop.check()
    except Stopped as stopped:
        if not isinstance(decision, Deny):  # a denial says more than "aborted"
            return outcomes.refused(before_dispatch(stopped))
    try:
        match decision:
            case Deny(reason, code):
                raise PolicyRefusal(code, reason)
            case Ask():
                await approve(services, judged, under_way, decision)
            case Waited():
                await go_on(services, judged, under_way, decision)
        guard(services, judged, under_way)
    except (PolicyRefusal, Aborted) as refusal:
        return outcomes.refused(refusal)
    await under_way.place.may_run()
    try:
        return await execute(services, judged, under_way)
    except PolicyRefusal as refusal:  # what was approved is no longer what would be done
        return outcomes.refused(refusal)
