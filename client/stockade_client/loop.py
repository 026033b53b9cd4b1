"""The model loop: the model speaks, its calls run in order, their results go back, until it asks for nothing more."""

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
        """A call begins."""

    def called(self, call: ToolCall, result: CallResult) -> None:
        """A call is settled."""


async def run_agent(
    session: Session,
    model: Model,
    task: str,
    *,
    tools: Sequence[Tool] = (),
    audience: Audience | None = None,
) -> list[Message]:
    """Runs the conversation to its end and returns all of it.

    A call that fails or is refused is told to the model like any other; it ends nothing. Each call has the
    model's own id, so that a conversation that is played again in the same session gets the recorded results.
    """
    conversation: list[Message] = [Task(task)]
    for _ in range(MOST_TURNS):
        turn = await model.reply(tuple(conversation), tools)
        conversation.append(turn)
        if audience is not None:
            audience.said(turn)
        if not turn.calls:
            break
        results = []
        for call in turn.calls:
            if audience is not None:
                audience.calling(call)
            result = await session.call_json(call.tool, call.arguments, call_id=call.id)
            if audience is not None:
                audience.called(call, result)
            results.append(result)
        conversation.append(Results(tuple(results)))
    return conversation
