"""Stage tools/pre-execute: a waterfall that allows, denies or asks. It may choose a narrower profile for the call, and
it may rewrite the call's arguments."""

from collections.abc import Mapping
from typing import Final

from stockade_daemon.errors import PolicyRefusal
from stockade_daemon.pipeline.context import CallUnderWay, Services
from stockade_daemon.pipeline.narrow import narrow
from stockade_daemon.pipeline.rewrite import rewrite, same
from stockade_daemon.policy.decisions import Allow, Ask, Deny, PreDecision, check_said, recorded
from stockade_daemon.policy.subjects import Judged
from stockade_daemon.values import Json

_MOST_REWRITES: Final = 4
_STRICTER: Final = {Allow: 0, Ask: 1, Deny: 2}


async def pre_execute(services: Services, judged: Judged, under_way: CallUnderWay) -> tuple[PreDecision, Judged]:
    """The waterfall's decision, recorded, and the call as it goes on. A listener that raises ends the call.

    Under a narrower profile its rule is asked as well. A call with rewritten arguments is judged again, by all
    listeners. Of several answers the strictest one counts.
    """
    chosen: list[bytes] = []
    decision, judged = await _judge(services, judged, under_way, chosen)
    count = 0
    wanted = _wanted(decision, judged)
    while wanted is not None:
        if count == _MOST_REWRITES:
            reason = f"pre-execute rewrites the arguments of {judged.call.tool} without end; have what does it mended"
            decision = Deny(f"{reason}. The tool was not run")
            break
        count += 1
        judged = rewrite(services, judged, under_way, wanted)
        again, judged = await _judge(services, judged, under_way, chosen)
        wanted = _wanted(again, judged)
        decision = max(decision, again, key=lambda each: _STRICTER[type(each)])
    services.ledger.note(judged.session.session_id, "policy/pre-execute", judged.call.call_id, recorded(decision))
    return decision, judged


def _wanted(decision: PreDecision, judged: Judged) -> Mapping[str, Json] | None:
    """Arguments that are to take the place of the present ones; None where they are the same."""
    if isinstance(decision, Deny) or decision.arguments is None or same(decision.arguments, judged.call.arguments):
        return None
    return decision.arguments


async def _judge(
    services: Services, judged: Judged, under_way: CallUnderWay, chosen: list[bytes]
) -> tuple[PreDecision, Judged]:
    """One pass through the waterfall; `chosen` has the tightenings that are in force already."""

    async def default() -> PreDecision:
        return Allow()

    decision = await services.pre_execute.run(judged, default)
    check_said(decision, services.pre_execute.name)
    if isinstance(decision, Allow | Ask) and decision.tightening and decision.tightening not in chosen:
        chosen.append(decision.tightening)
        return await _narrowed(services, judged, under_way, decision)
    return decision, judged


async def _narrowed(
    services: Services, judged: Judged, under_way: CallUnderWay, decision: Allow | Ask
) -> tuple[PreDecision, Judged]:
    try:
        narrower = await narrow(services, judged, under_way, decision.tightening)
    except PolicyRefusal as refusal:
        return Deny(refusal.message, refusal.code), judged

    async def decided() -> PreDecision:
        return decision

    return await services.by_profile(narrower, decided), narrower
