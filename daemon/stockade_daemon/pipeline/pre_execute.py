"""Stage tools/pre-execute: a waterfall that allows, denies or asks, and may choose a narrower profile for the call."""

from collections.abc import Mapping

from stockade_daemon.errors import PolicyRefusal
from stockade_daemon.pipeline.context import CallUnderWay, Services
from stockade_daemon.pipeline.narrow import narrow
from stockade_daemon.policy.decisions import Allow, Ask, Deny, PreDecision
from stockade_daemon.policy.profile_rules import by_profile
from stockade_daemon.policy.subjects import Judged
from stockade_daemon.values import Json


async def pre_execute(services: Services, judged: Judged, under_way: CallUnderWay) -> tuple[PreDecision, Judged]:
    """The waterfall's decision, recorded, and the call as it goes on. A listener that raises ends the call.

    Under a narrower profile its rule is asked as well: of both answers the stricter one counts.
    """

    async def default() -> PreDecision:
        return Allow()

    decision = await services.pre_execute.run(judged, default)
    if isinstance(decision, Allow | Ask) and decision.tightening:
        decision, judged = await _narrowed(services, judged, under_way, decision)
    words = {Allow: "allow", Ask: "ask", Deny: "deny"}
    body: Mapping[str, Json] = {"decision": words[type(decision)]}
    if isinstance(decision, Ask | Deny):
        body = {**body, "reason": decision.reason}
    services.ledger.note(judged.session.session_id, "policy/pre-execute", judged.call.call_id, body)
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

    return await by_profile(narrower, decided), narrower
