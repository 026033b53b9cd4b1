"""A session as a file of calls: what it did, in order, with its results as expectations."""

import json
from collections.abc import AsyncGenerator
from dataclasses import dataclass
from typing import Final

from stockade_client.connection import Daemon
from stockade_client.results import CallResult, Json
from stockade_client.runs.located import Misread, parse
from stockade_client.runs.outcomes import INFRASTRUCTURE
from stockade_client.runs.volatile import pattern_of, placed
from stockade_client.values import Event, SessionInfo
from stockade_client.visible import one_line

HEADER: Final = json.dumps({"isolation": "run"})
_TITLE: Final = 80


@dataclass(frozen=True, slots=True)
class Line:
    """A line of the file, or why a call is not in it."""

    text: str
    left_out: str = ""


@dataclass(slots=True)
class _Call:
    taken: Event
    answer: Json = None  # None: nobody was asked
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
            elif event.type == "tool/result" and event.call_id in calls:
                calls[event.call_id].settled = True
    number = 0
    for call_id, call in calls.items():
        if call.taken.body.get("parent") is not None:
            continue  # a job, which the call that has started it starts again
        number += 1
        if not call.settled:
            yield Line("", f"call {call_id} has no result yet")
            continue
        result = await daemon.call(session.session_id, call_id, str(call.taken.body.get("tool"))).result()
        yield _line(number, call, result, session.workspace)


def _answer(event: Event) -> Json:
    outcome, said = event.body.get("outcome"), event.body.get("said")
    if outcome == "allowed":
        return True
    if outcome == "APPROVAL_REJECTED" and event.body.get("decision_id"):
        return {"allow": False, "says": said} if said else False
    return None


def _line(number: int, call: _Call, result: CallResult, workspace: str) -> Line:
    body = call.taken.body
    if result.error is not None and result.error.domain in INFRASTRUCTURE:
        return Line("", f"call {call.taken.call_id} ended with {result.error.code}, which nobody can repeat")
    arguments = body.get("arguments")
    if not isinstance(arguments, str):
        return Line("", f"the arguments of call {call.taken.call_id} are no UTF-8, or too long to be recorded with it")
    card = body.get("card")
    title = card.get("title") if isinstance(card, dict) else None
    name = one_line(placed(str(title or result.tool), workspace), _TITLE)
    line: dict[str, Json] = {"name": f"{number:03} {name}", "tool": result.tool, **_arguments(arguments, workspace)}
    if call.answer is not None:
        line["answer"] = call.answer
    line["expect"] = expectation(result, workspace)
    return Line(json.dumps(line, ensure_ascii=False))


def _arguments(text: str, workspace: str) -> dict[str, Json]:
    try:
        value = parse(text or "{}").value
    except Misread:
        return {"raw": placed(text, workspace)}
    if not isinstance(value, dict):
        return {"raw": placed(text, workspace)}
    return {"args": _placed(value, workspace)}


def _placed(value: Json, workspace: str) -> Json:
    if isinstance(value, list):
        return [_placed(each, workspace) for each in value]
    if isinstance(value, dict):
        return {key: _placed(each, workspace) for key, each in value.items()}
    return placed(value, workspace) if isinstance(value, str) else value


def expectation(result: CallResult, workspace: str) -> dict[str, Json]:
    """What is to be expected of the same call at another time: all of its value but what is not the same twice."""
    if result.error is not None:
        return {"error": result.error.code}
    value = result.value
    if not isinstance(value, dict):
        return (
            {"text": pattern_of(result.text, workspace)} if value is None else {"value": pattern_of(value, workspace)}
        )
    if "exit_code" not in value:
        return {"value": pattern_of(value, workspace)}
    expect: dict[str, Json] = {}
    if value["exit_code"] != 0:
        expect["exit_code"] = "any" if value["exit_code"] is None else value["exit_code"]
    for name in ("stdout", "stderr"):
        if isinstance(value.get(name), str):
            expect[name] = pattern_of(value[name], workspace)
    effects = value.get("effects")
    more: dict[str, Json] = {}
    if isinstance(effects, list):
        more["effects"] = [pattern_of(_told(each), workspace) for each in effects]
    if value.get("signal") is not None:
        more["signal"] = value["signal"]
    return expect | ({"value": more} if more else {})


def _told(effect: Json) -> Json:
    """Path and change; the size may be of what is not the same twice."""
    return (
        {key: each for key, each in effect.items() if key in ("path", "change")} if isinstance(effect, dict) else effect
    )
