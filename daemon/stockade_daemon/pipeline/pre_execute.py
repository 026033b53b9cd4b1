"""Stage tools/pre-execute: a waterfall that allows, denies or asks."""

from stockade_daemon.pipeline.context import Services
from stockade_daemon.policy.decisions import Allow, Ask, Deny, PreDecision
from stockade_daemon.policy.subjects import Judged


async def pre_execute(services: Services, judged: Judged) -> PreDecision:
    """The waterfall's decision, recorded. A listener that raises ends the call."""

    async def default() -> PreDecision:
        return Allow()

    decision = await services.pre_execute.run(judged, default)
    words = {Allow: "allow", Ask: "ask", Deny: "deny"}
    body = {"decision": words[type(decision)]}
    if isinstance(decision, Ask | Deny):
        body["reason"] = decision.reason
    services.ledger.note(judged.session.session_id, "policy/pre-execute", judged.call.call_id, body)
    return decision
