"""Stage tools/post-execute: accept, block, or add context to what a call came to."""

from dataclasses import dataclass, replace

from stockade_daemon.pipeline import outcomes
from stockade_daemon.pipeline.context import Services
from stockade_daemon.policy.decisions import Accept, Block, PostDecision
from stockade_daemon.policy.subjects import Finished, Judged
from stockade_daemon.values import Outcome


@dataclass(frozen=True, slots=True)
class Reviewed:
    outcome: Outcome
    context: tuple[str, ...]


async def post_execute(services: Services, judged: Judged, outcome: Outcome) -> Reviewed:
    """The outcome after the waterfall, and context for the agent. Runs for refused calls as well."""

    async def default() -> PostDecision:
        return Accept()

    decision = await services.post_execute.run(Finished(judged, outcome), default)
    body = {"decision": "block" if isinstance(decision, Block) else "accept"}
    if isinstance(decision, Block):
        body["feedback"] = decision.feedback
        blocked = outcomes.failed("DENIED", decision.feedback, layers=outcome.layers, usage=outcome.usage)
        outcome = replace(blocked, content=(decision.feedback,))
    services.ledger.note(judged.session.session_id, "policy/post-execute", judged.call.call_id, body)
    return Reviewed(outcome, decision.context)
