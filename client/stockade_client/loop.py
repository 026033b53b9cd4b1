"""The model loop: the model speaks, its calls run as one turn, their results go back, until it asks for no more."""

import hashlib
import re
from collections import Counter
from collections.abc import Sequence
from typing import Final, Protocol

from stockade_client.model import Message, Model, Results, Task, ToolCall, Turn
from stockade_client.results import CallResult
from stockade_client.session import Session
from stockade_client.turns import MOST_CALLS
from stockade_client.values import Tool

MOST_TURNS: Final = 200  # a model that never ends is stopped here
MOST_BYTES: Final = 3 * 1024 * 1024  # of arguments in one turn: a message has 4 MiB, and ids and names are in it too

_ID: Final = re.compile(r"[A-Za-z0-9._:-]{1,100}\Z")  # 128 are allowed; the rest is for what makes one another's


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
    of them. A message with more calls than a turn may have, or more bytes than a request may, becomes several turns,
    one after the other. A call that fails or is refused is told to the model like any other; it ends nothing. Each call
    has the model's own id where that can be, see own_ids, so that a conversation that is played again in the same
    session gets the recorded results.
    Cancelled in the middle of a turn, it takes the turn back, and each call of it has its result.
    """
    conversation: list[Message] = [Task(task)]
    used: Counter[str] = Counter()
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
        ids = own_ids([call.id for call in turn.calls], used)
        wanted = [(_name(call.tool), call.arguments, id) for call, id in zip(turn.calls, ids, strict=True)]
        results = [result for part in parts(wanted) for result in await session.turn_json(part)]
        if audience is not None:
            for call, result in zip(turn.calls, results, strict=True):
                audience.called(call, result)
        context = await session.context(ids)
        conversation.append(Results(tuple(results), tuple(context)))
    return conversation


def own_ids(ids: Sequence[str], used: Counter[str]) -> list[str]:
    """The calls' ids in the session; `used` counts those of the conversation so far, and these.

    An id that the protocol does not allow becomes a digest of it. One that stands for an earlier call already gets a
    number, :2, :3 …: models number their calls anew in each message, and the same id would be the same call, with its
    recorded result instead of a new one.
    """
    own = []
    for id in ids:
        base = id if _ID.match(id) else f"call-{hashlib.sha256(id.encode('utf-8', 'surrogatepass')).hexdigest()[:32]}"
        name = base
        while used[name]:
            used[base] += 1
            name = f"{base}:{used[base]}"
        used[name] += 1
        own.append(name)
    return own


def parts(calls: Sequence[tuple[str, bytes, str]]) -> list[list[tuple[str, bytes, str]]]:
    """The calls (tool, arguments, id) in their order, as turns that a request can carry."""
    turns: list[list[tuple[str, bytes, str]]] = [[]]
    size = 0
    for call in calls:
        size += len(call[1])
        if turns[-1] and (len(turns[-1]) == MOST_CALLS or size > MOST_BYTES):
            turns.append([])
            size = len(call[1])
        turns[-1].append(call)
    return turns


def _name(tool: str) -> str:
    """A tool's name that a message can hold; where a model wrote none, or not text, the daemon knows no such tool."""
    return tool.encode("utf-8", "backslashreplace").decode() or "-"
