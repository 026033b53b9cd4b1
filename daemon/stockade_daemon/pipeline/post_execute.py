"""Stage tools/post-execute: accept, replace, block, or add context to what a call came to."""

from dataclasses import dataclass, replace
from typing import Final

from stockade_daemon.errors import ExtensionFailed
from stockade_daemon.json_text import is_text
from stockade_daemon.pipeline import outcomes
from stockade_daemon.pipeline.context import CallUnderWay, Services
from stockade_daemon.pipeline.finalize import lossless
from stockade_daemon.pipeline.learned import unshown
from stockade_daemon.policy.decisions import Accept, Block, PostDecision, Replace
from stockade_daemon.policy.subjects import Finished, Judged
from stockade_daemon.registry.freezing import freeze
from stockade_daemon.values import Json, Outcome

STAGE: Final = "tools/post-execute"


@dataclass(frozen=True, slots=True)
class Reviewed:
    outcome: Outcome
    context: tuple[str, ...]


async def post_execute(services: Services, judged: Judged, under_way: CallUnderWay, outcome: Outcome) -> Reviewed:
    """The outcome after the waterfall, and context for the agent. Runs for refused calls as well.

    Context is told in this order: what came with the outcome, then the decision's. After a block only the latter is.
    Raises ExtensionFailed where a decision cannot be carried out.
    """

    async def default() -> PostDecision:
        return Accept()

    decision = await services.post_execute.run(Finished(judged, outcome), default)
    _check_texts(decision)
    context = (*outcome.context, *decision.context)
    body: dict[str, Json] = {"decision": "accept"}
    match decision:
        case Accept(content=None):
            pass
        case Accept(content=content):
            assert content is not None
            body["decision"] = "content"
            outcome = unshown(replace(outcome, content=content, images=()))
        case Replace(value, content):
            body["decision"] = "value"
            outcome = _with_value(outcome, value, content)
            try:
                under_way.tools.check_output(judged.manifest, outcome.value)
            except ValueError as error:
                raise ExtensionFailed("", STAGE, str(error)) from error
        case Block(feedback):
            body = {"decision": "block", "feedback": feedback}
            blocked = outcomes.failed("DENIED", feedback, layers=outcome.layers, usage=outcome.usage)
            outcome, context = replace(blocked, content=(feedback,)), decision.context
    services.ledger.note(judged.session.session_id, "policy/post-execute", judged.call.call_id, body)
    return Reviewed(outcome, context)


def _with_value(outcome: Outcome, value: Json, content: tuple[str, ...]) -> Outcome:
    if not outcome.ok:
        raise ExtensionFailed("", STAGE, "a value cannot be put in the place of a failure; accept, or block")
    replaced = unshown(replace(outcome, value=value, has_value=True, content=content, images=()))
    try:
        lossless(replaced)
    except ValueError as error:
        raise ExtensionFailed("", STAGE, str(error)) from error
    return replace(replaced, value=freeze(value))


def _check_texts(decision: PostDecision) -> None:
    """Raises ExtensionFailed where texts are no texts."""
    texts: tuple[object, ...] = decision.context
    match decision:
        case Accept(content=content) if content is not None:
            texts = (*texts, *content)
        case Replace(content=content):
            texts = (*texts, *content)
        case Block(feedback):
            texts = (*texts, feedback)
    if not all(map(is_text, texts)):
        raise ExtensionFailed("", STAGE, "its content, context or feedback is no text that JSON can carry")
