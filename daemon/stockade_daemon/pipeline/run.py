"""A call's way, on one screen.

    pre-execute → approval → guards → execute → body → intents → post-execute → finalize → observers

Its record, `tool/call`, was made before `run` is called; its one `tool/result` is made after. A denial skips the body
and goes on at post-execute; what raises is an error outcome that skips it.
"""

import logging
from collections.abc import Callable, Iterable

from stockade_daemon.errors import Aborted, PolicyRefusal, Refusal
from stockade_daemon.pipeline import outcomes
from stockade_daemon.pipeline.approve import approve
from stockade_daemon.pipeline.context import CallUnderWay, Services
from stockade_daemon.pipeline.execute import execute
from stockade_daemon.pipeline.finalize import finalize
from stockade_daemon.pipeline.guard import guard
from stockade_daemon.pipeline.post_execute import Reviewed, post_execute
from stockade_daemon.pipeline.pre_execute import pre_execute
from stockade_daemon.pipeline.stop import Stopped
from stockade_daemon.pipeline.stopped import before_dispatch
from stockade_daemon.policy.decisions import Ask, Deny, PreDecision
from stockade_daemon.policy.subjects import Judged
from stockade_daemon.values import Outcome

_log = logging.getLogger(__name__)

Observer = Callable[[Judged, Outcome], None]


async def run(services: Services, judged: Judged, under_way: CallUnderWay, observers: Iterable[Observer]) -> Reviewed:
    """The frozen outcome of a recorded call, and context for the agent. Never raises what a stage raised."""
    try:
        decision, judged = await pre_execute(services, judged, under_way)
        outcome = await _execute(services, judged, under_way, decision)
        reviewed = await post_execute(services, judged, outcome)
    except Refusal as refusal:
        reviewed = Reviewed(outcomes.refused(refusal), ())
    except Exception as error:
        _log.exception("call %s/%s met a fault of the daemon", judged.session.session_id, judged.call.call_id)
        text = f"the daemon failed at this call ({type(error).__name__}); this is a fault of Stockade, please report it"
        code = "TOOL_OUTCOME_UNKNOWN" if under_way.dispatched else "TOOL_NOT_STARTED"
        reviewed = Reviewed(outcomes.failed(code, text), ())
    final = Reviewed(finalize(reviewed.outcome, judged.manifest), reviewed.context)
    for observe in observers:
        try:
            observe(judged, final.outcome)
        except Exception:
            # An observer sees the outcome and changes nothing, not even by failing.
            _log.exception("an observer of %s failed", judged.call.call_id)
    return final


async def _execute(services: Services, judged: Judged, under_way: CallUnderWay, decision: PreDecision) -> Outcome:
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
        guard(services, judged)
    except (PolicyRefusal, Aborted) as refusal:
        return outcomes.refused(refusal)
    return await execute(services, judged, under_way)
