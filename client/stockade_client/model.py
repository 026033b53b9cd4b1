"""What the loop needs of a model, and a model that replays a recording."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol, TypeAlias

from stockade_client.recording import Recording
from stockade_client.results import CallResult
from stockade_client.values import Tool


@dataclass(frozen=True, slots=True)
class ToolCall:
    """A call that a model asks for."""

    tool: str
    arguments: bytes  # JSON text as the model wrote it
    id: str  # the model's own id of the call. The result has another where this one cannot be used: see loop.own_ids


@dataclass(frozen=True, slots=True)
class Task:
    """What the person wants."""

    text: str


@dataclass(frozen=True, slots=True)
class Turn:
    """One message of the model. Without calls it is the last one."""

    text: str
    calls: tuple[ToolCall, ...] = ()


@dataclass(frozen=True, slots=True)
class Results:
    """The results of a turn, in the order of its calls, and what the model is told after all of them."""

    results: tuple[CallResult, ...]
    context: tuple[str, ...] = ()  # of hooks and plugins, as recorded in context/message events


Message: TypeAlias = Task | Turn | Results


class Model(Protocol):
    """Whatever can go on with a conversation: a service's client, a local model, a recording."""

    async def reply(self, conversation: Sequence[Message], tools: Sequence[Tool]) -> Turn:
        """The next message of the model, given all that was said and the tools there are."""
        ...


class ScriptedModel:
    """Says what a recording says, whatever the results are."""

    def __init__(self, recording: Recording) -> None:
        self._turns = tuple(
            Turn(turn.text, tuple(ToolCall(call.tool, call.arguments, call.id) for call in turn.calls))
            for turn in recording.turns
        )

    async def reply(self, conversation: Sequence[Message], tools: Sequence[Tool]) -> Turn:
        """The turn at this place of the recording; after its end an empty one."""
        said = sum(isinstance(message, Turn) for message in conversation)
        return self._turns[said] if said < len(self._turns) else Turn("")
