"""Plays entries in a session: each call, what it came to, and the files afterwards."""

import asyncio
import json
import re
import time
from collections.abc import Callable
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass, field
from typing import Final, TypeAlias

from stockade_client.approvals import Ask
from stockade_client.results import CallResult, Json
from stockade_client.runs import checking
from stockade_client.runs.entries import WORKSPACE, Entry, EntryCall, Expected
from stockade_client.runs.outcomes import INFRASTRUCTURE, Kind, Outcome
from stockade_client.runs.patterns import Search
from stockade_client.runs.searching import Searcher, quoted
from stockade_client.session import Session

_PLACE: Final = re.compile(r"\$?\$\{workspace\}")
NOBODY: Final = 'the entry has no answer to this ask: give its call an "answer", or run with --yes'

Opened: TypeAlias = Callable[["Answering"], AbstractAsyncContextManager[Session]]


@dataclass(slots=True)
class Answering:
    """Answers what is asked about the calls of one session, as its entries say."""

    yes: bool
    calls: dict[str, EntryCall] = field(default_factory=dict)

    async def asked(self, ask: Ask) -> bool | None:
        call = self.calls.get(ask.call)
        answer = None if call is None else call.answer
        if answer is None:
            if self.yes:
                return True
            await ask.decide(False, NOBODY)
        else:
            await ask.decide(answer.allow, "" if answer.allow else answer.says or "the recorded answer is no")
        return None


async def play(
    session: Session, entry: Entry, answering: Answering, timeout_s: float | None, searcher: Searcher
) -> Outcome:
    """Raises DaemonError where the daemon is gone, and lets a cancellation through when its calls are taken back."""
    results: list[CallResult] = []
    seconds = entry.timeout_s if entry.timeout_s is not None else timeout_s
    begun = time.monotonic()
    kind: Kind = "passed"
    reasons: list[str] = []
    searcher.unfinished = ""
    try:
        async with asyncio.timeout(seconds):
            told = await _calls(session, entry, answering, results, searcher.found)
            if told is None:
                for path, pattern in entry.files:
                    here = _placed(pattern, session)
                    told = await checking.file_difference(session, path, here, results, searcher.found)
                    if told is not None:
                        reasons.append(told)
            else:
                reasons.append(told)
    except TimeoutError:
        kind = "timeout"
        reasons = [f"it was not over after {seconds:g} s; {_under_way(entry, results, searcher)}"]
    else:
        if reasons:
            error = results[-1].error if results else None
            kind = "infrastructure" if error is not None and error.domain in INFRASTRUCTURE else "failed"
    return Outcome(entry, kind, tuple(reasons), tuple(results), time.monotonic() - begun)


def _under_way(entry: Entry, results: list[CallResult], searcher: Searcher) -> str:
    """What an entry's time ended in."""
    if searcher.unfinished:
        return f"the search for the regular expression {quoted(searcher.unfinished)} took longer; simplify it"
    if len(results) < len(entry.calls):
        return f"call {len(results) + 1} of {len(entry.calls)} was taken back"
    return "its calls were over, and what they came to was being looked at"


async def _calls(
    session: Session, entry: Entry, answering: Answering, results: list[CallResult], search: Search
) -> str | None:
    """Plays the calls up to the first that is not as expected; how it is not."""
    for number, call in enumerate(entry.calls, 1):
        call = _call_here(call, session)
        call_id = f"{entry.line}.{number}"
        answering.calls[call_id] = call
        result = await session.call_json(call.tool, call.arguments, call_id=call_id)
        results.append(result)
        told = await checking.difference(session, call, result, search)
        if told is not None:
            return told if len(entry.calls) == 1 else f"call {number} of {len(entry.calls)}: {told}"
    return None


def _call_here(call: EntryCall, session: Session) -> EntryCall:
    """The call with this workspace's path where its texts name the place."""
    if WORKSPACE.encode() not in call.arguments and not any(_has_place(each) for _, each in call.expected.parts):
        return call
    text = call.arguments.decode("utf-8", "surrogatepass")
    # In JSON text: what a path may need there is an escape.
    quoted = json.dumps(session.info.workspace, ensure_ascii=False)[1:-1]
    arguments = _PLACE.sub(lambda found: _there(found[0], quoted), text).encode("utf-8", "surrogatepass")
    expected = call.expected
    parts = tuple((name, _placed(pattern, session)) for name, pattern in expected.parts)
    here = Expected(expected.ok, expected.code, expected.domain, expected.exit_code, parts)
    return EntryCall(call.tool, arguments, here, call.answer, call.line, call.column)


def _has_place(pattern: Json) -> bool:
    if isinstance(pattern, list):
        return any(map(_has_place, pattern))
    if isinstance(pattern, dict):
        return any(map(_has_place, pattern.values()))
    return isinstance(pattern, str) and WORKSPACE in pattern


def _placed(pattern: Json, session: Session, *, quoted: bool = False) -> Json:
    """The pattern with the workspace's path where it names the place."""
    if isinstance(pattern, list):
        return [_placed(each, session) for each in pattern]
    if isinstance(pattern, dict):
        return {key: _placed(each, session, quoted=key == "$regex") for key, each in pattern.items()}
    if not isinstance(pattern, str):
        return pattern
    path = session.info.workspace
    return _PLACE.sub(lambda found: _there(found[0], re.escape(path) if quoted else path), pattern)


def _there(found: str, path: str) -> str:
    return WORKSPACE if found.startswith("$$") else path
