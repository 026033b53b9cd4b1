"""What must be true of a round, by ledger, disk and what each answer was told."""

from collections import Counter
from collections.abc import Sequence
from typing import Any, Final

from stockade_client.values import Event
from tests.races.round import CALL, Round

# Codes of a call that was allowed and of which nothing was done, or whose output is withheld.
_NOTHING: Final = ("APPROVAL_MISMATCH", "FS_STALE_VERSION", "FS_CONFLICT", "FS_NOT_FOUND", "SANDBOX_FAILED")


def judged(round_: Round, events: Sequence[Event]) -> tuple[str, list[str]]:
    """What the round came to, in a word, and every fault in it."""
    story = [event for event in events if event.call_id == CALL]
    types = Counter(event.type for event in story)
    faults = [
        f"{types[type]} {type}"
        for type in ("tool/call", "approval/asked", "approval/decided", "tool/result")
        if types[type] != 1
    ]
    if faults:
        return "broken", faults
    body: dict[str, Any] = {event.type: event.body for event in story}
    decided, result = body["approval/decided"], body["tool/result"]
    error = result.get("error")
    code = str(error["code"]) if error else "ok"
    faults += _answers(round_, decided)
    faults += [f"{types[type]} {type}" for type in ("call/dispatched", "fs/begun", "fs/committed") if types[type] > 1]
    if "mutation" in round_.said:
        faults.append("the call's id was given to other arguments")
    ran = types["call/dispatched"] if round_.kind == "command" else types["fs/begun"]
    if decided["outcome"] != "allowed":
        if ran:
            faults.append(f"it ran, and the ask ended as {decided['outcome']}")
        if code == "ok":
            faults.append("ok without a yes")
    faults += _effects(round_, body, code, types)
    return (f"{round_.kind}: {code}"), faults


def _answers(round_: Round, decided: dict[str, Any]) -> list[str]:
    """Whose answer was taken, by those who gave it and by the ledger."""
    won = sorted(name for name, said in round_.said.items() if said & {"yes", "no"})
    faults = []
    if len(won) > 1:
        faults.append(f"{won} were all told that theirs was the answer")
    if won and won[0] != decided["decision_id"]:
        faults.append(f"{won[0]} was told so, and {decided['decision_id']!r} is recorded")
    for name, said in round_.said.items():
        if name.startswith("d") and int(name[1:]) % 7 == 3 and said & {"yes", "no"}:
            faults.append(f"{name} answered another card and was taken")
        unknown = said - {"yes", "no", "APPROVAL_DECIDED", "APPROVAL_MISMATCH"}
        if unknown and name != "mutation":
            faults.append(f"{name} was told {unknown}")
    return faults


def _effects(round_: Round, body: dict[str, Any], code: str, types: Counter[str]) -> list[str]:
    """Exactly what was shown, once, or nothing."""
    if round_.kind == "command":
        if code == "ok" and body["tool/result"]["value"]["stdout"] != "shown\n":
            return [f"it ran something else: {body['tool/result']['value']['stdout']!r}"]
        if "value" in body["tool/result"] and code != "ok":
            return [f"{code} with a value"]
        return []
    text = round_.file.read_text() if round_.file.exists() else None
    before = "one\ntwo\n" if round_.kind == "edit" else None
    shown = "one\n2\n" if round_.kind == "edit" else "new\n"
    known = {before, shown} | ({"somebody else's\n"} if round_.mutated == "file" else set())
    faults = [] if text in known else [f"{round_.file.name} holds {text!r}"]
    if text == shown and not types["fs/begun"]:
        faults.append("a change without fs/begun")
    if code == "ok" and not types["fs/committed"]:
        faults.append("ok without fs/committed")
    if code == "ok" and text != shown and round_.mutated != "file":
        faults.append("ok without its change")
    if code in _NOTHING and types["fs/committed"]:
        faults.append(f"{code} with fs/committed")
    return faults
