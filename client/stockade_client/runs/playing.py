"""Plays entries in a session: each call, what it came to, and the files afterwards."""

import asyncio
import time
from collections.abc import Callable
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass, field
from typing import Final, TypeAlias

from stockade_client.approvals import Ask
from stockade_client.results import CallResult
from stockade_client.runs import checking
from stockade_client.runs.entries import Entry, EntryCall
from stockade_client.runs.outcomes import INFRASTRUCTURE, Kind, Outcome
from stockade_client.runs.patterns import Search
from stockade_client.runs.places import Places, Unplaced
from stockade_client.runs.searching import Searcher, quoted
from stockade_client.session import Session

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
    session: Session,
    entry: Entry,
    answering: Answering,
    places: Places,
    timeout_s: float | None,
    searcher: Searcher,
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
            told = await _calls(session, entry, answering, places, results, searcher.found)
            if told is None:
                for path, pattern in entry.files:
                    here = places.pattern(pattern)
                    told = await checking.file_difference(session, path, here, results, searcher.found)
                    if told is not None:
                        reasons.append(told)
            else:
                reasons.append(told)
    except TimeoutError:
        kind = "timeout"
        reasons = [f"it was not over after {seconds:g} s; {_under_way(entry, results, searcher)}"]
    except Unplaced as why:
        kind = "failed"
        reasons = [str(why)]
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
    session: Session,
    entry: Entry,
    answering: Answering,
    places: Places,
    results: list[CallResult],
    search: Search,
) -> str | None:
    """Plays the calls up to the first that is not as expected; how it is not."""
    for number, call in enumerate(entry.calls, 1):
        call = places.call(call)
        call_id = f"{entry.line}.{number}"
        answering.calls[call_id] = call
        result = await session.call_json(call.tool, call.arguments, call_id=call_id)
        results.append(result)
        places.came(result)
        told = await checking.difference(session, call, result, search)
        if told is not None:
            return told if len(entry.calls) == 1 else f"call {number} of {len(entry.calls)}: {told}"
    return None
