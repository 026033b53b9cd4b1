"""The model loop: the model speaks, its calls run as one turn, their results go back, until it asks for no more."""

from collections.abc import Sequence
from typing import Protocol

from stockade_client.model import Message, Model, Results, Task, ToolCall, Turn
from stockade_client.results import CallResult
from stockade_client.session import Session
from stockade_client.values import Tool

MOST_TURNS = 200  # a model that never ends is stopped here


class Audience(Protocol):
    """Whoever watches a conversation. An exception of its ends the conversation."""

    def said(self, turn: Turn) -> None:
        """The model has spoken; its calls have not begun."""

    def calling(self, call: ToolCall) -> None:
        """A call is about to begin: all of a message are, before the first of them is settled."""

    def called(self, call: ToolCall, result: CallResult) -> None:
        """A call is settled, and so are all of its message; in their order."""


async def run_agent(
    session: Session,
    model: Model,
    task: str,
    *,
    tools: Sequence[Tool] = (),
    audience: Audience | None = None,
) -> list[Message]:
    """Runs the conversation to its end and returns all of it.

    The calls of one message are one turn: those overlap that may, and what is told beside their results comes after all
    of them. A call that fails or is refused is told to the model like any other; it ends nothing. Each call has the
    model's own id, so that a conversation that is played again in the same session gets the recorded results.
    Cancelled in the middle of a turn, it takes the turn back, and each call of it has its result.
    """
    conversation: list[Message] = [Task(task)]
    for _ in range(MOST_TURNS):
        turn = await model.reply(tuple(conversation), tools)
        conversation.append(turn)
        if audience is not None:
            audience.said(turn)
        if not turn.calls:
            break
        if audience is not None:
            for call in turn.calls:
                audience.calling(call)
        results = await session.turn_json([(call.tool, call.arguments, call.id) for call in turn.calls])
        if audience is not None:
            for call, result in zip(turn.calls, results, strict=True):
                audience.called(call, result)
        context = await session.context([call.id for call in turn.calls])
        conversation.append(Results(tuple(results), tuple(context)))
    return conversation
