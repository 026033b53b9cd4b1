"""A session as a file of calls: what it did, in order, with its results as expectations."""

import json
from collections.abc import AsyncGenerator, Mapping
from dataclasses import dataclass
from typing import Final

from stockade_client.calls import Part
from stockade_client.connection import Daemon
from stockade_client.results import CallResult, Json
from stockade_client.runs import printed
from stockade_client.runs.expecting import Expecting
from stockade_client.runs.located import Misread, parse
from stockade_client.runs.outcomes import INFRASTRUCTURE
from stockade_client.runs.printed import STREAMS
from stockade_client.values import Event, SessionInfo
from stockade_client.visible import one_line

HEADER: Final = json.dumps({"isolation": "run"})
_TITLE: Final = 80
# An ask that ended without an answer. A run always gives one, so that what came of the call cannot come of it again.
_UNANSWERED: Final = ("APPROVAL_UNAVAILABLE", "APPROVAL_EXPIRED")


@dataclass(frozen=True, slots=True)
class Line:
    """A line of the file, or why a call is not in it, or what of it is not."""

    text: str
    left_out: tuple[str, ...] = ()


@dataclass(slots=True)
class _Call:
    taken: Event
    answer: Json = None  # None: nobody was asked
    unanswered: str = ""  # The code of the ask that nobody answered
    settled: bool = False


async def lines_of(daemon: Daemon, session: SessionInfo) -> AsyncGenerator[Line, None]:
    """The lines behind HEADER, in the order in which the calls were taken. Raises NotFound, NoAnswer."""
    calls: dict[str, _Call] = {}
    async with daemon.events(session.session_id) as events:
        async for event in events:
            if event.type == "tool/call":
                calls[event.call_id] = _Call(event)
            elif event.type == "approval/decided" and event.call_id in calls:
                calls[event.call_id].answer = _answer(event)
                calls[event.call_id].unanswered = _unanswered(event)
            elif event.type == "tool/result" and event.call_id in calls:
                calls[event.call_id].settled = True
    number = 0
    expecting = Expecting(session.workspace)
    for call_id, call in calls.items():
        if call.taken.body.get("parent") is not None:
            continue  # a job, which the call that has started it starts again
        number += 1
        if not call.settled:
            yield _left_out(f"call {call_id} has no result yet")
            continue
        taken = daemon.call(session.session_id, call_id, str(call.taken.body.get("tool")))
        result = await taken.result()
        # One at a time: what a command printed may be large.
        cut = [each for each in STREAMS if printed.cut(result, each)]
        whole = {each: await printed.whole(taken, each) for each in cut if printed.kept(result, each)}
        line = _line(number, call, result, expecting, whole)
        lost = (f"what call {call_id} printed to {each}, which was not kept whole" for each in cut if each not in whole)
        yield Line(line.text, (*line.left_out, *lost) if line.text else line.left_out)


def _left_out(why: str) -> Line:
    return Line("", (why,))


def _answer(event: Event) -> Json:
    outcome, said = event.body.get("outcome"), event.body.get("said")
    if outcome == "allowed":
        return True
    if outcome == "APPROVAL_REJECTED" and event.body.get("decision_id"):
        return {"allow": False, "says": said} if said else False
    return None


def _unanswered(event: Event) -> str:
    outcome = event.body.get("outcome")
    return next((code for code in _UNANSWERED if outcome == code), "")


def _line(number: int, call: _Call, result: CallResult, expecting: Expecting, whole: Mapping[Part, str]) -> Line:
    body = call.taken.body
    if result.error is not None and result.error.domain in INFRASTRUCTURE:
        return _left_out(f"call {call.taken.call_id} ended with {result.error.code}, which nobody can repeat")
    if call.unanswered:
        why = f"nobody answered what call {call.taken.call_id} asked ({call.unanswered}); a run always does"
        return _left_out(why)
    arguments = body.get("arguments")
    if not isinstance(arguments, str):
        why = "are no UTF-8, or too long to be recorded with it"
        return _left_out(f"the arguments of call {call.taken.call_id} {why}")
    card = body.get("card")
    title = card.get("title") if isinstance(card, dict) else None
    name = one_line(expecting.placed(str(title or result.tool)), _TITLE)
    line: dict[str, Json] = {"name": f"{number:03} {name}", "tool": result.tool, **_arguments(arguments, expecting)}
    if call.answer is not None:
        line["answer"] = call.answer
    line["expect"] = expecting.of(line.get("args"), result, whole)
    return Line(json.dumps(line, ensure_ascii=False))


def _arguments(text: str, expecting: Expecting) -> dict[str, Json]:
    try:
        value = parse(text or "{}").value
    except Misread:
        return {"raw": expecting.placed(text)}
    return {"args": expecting.with_places(value)} if isinstance(value, dict) else {"raw": expecting.placed(text)}
