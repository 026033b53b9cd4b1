"""Plays entries in a session: each call, what it came to, and the files afterwards."""

import asyncio
import time
from collections.abc import Callable
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass, field, replace
from typing import Final, TypeAlias

from stockade_client.approvals import Ask
from stockade_client.results import CallResult
from stockade_client.runs import checking, looking
from stockade_client.runs.entries import Entry, EntryCall
from stockade_client.runs.outcomes import Difference, Kind, Outcome
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
    found: list[Difference] = []
    searcher.unfinished = ""
    try:
        async with asyncio.timeout(seconds):
            found += await _calls(session, entry, answering, places, results, searcher.found)
            if not found:
                found += await _files(session, entry, places, results, searcher.found)
    except TimeoutError:
        kind = "timeout"
        found = [Difference(f"it was not over after {seconds:g} s; {_under_way(entry, results, searcher)}")]
    except Unplaced as why:
        kind = "failed"
        found = [Difference(str(why))]
    else:
        if found:
            kind = "infrastructure" if found[0].of_infrastructure else "failed"
    reasons, error = tuple(each.reason for each in found), found[0].error if found else None
    return Outcome(entry, kind, reasons, tuple(results), time.monotonic() - begun, error=error)


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
) -> list[Difference]:
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
            where = "" if len(entry.calls) == 1 else f"call {number} of {len(entry.calls)}: "
            return [replace(told, reason=f"{where}{told.reason}")]
    return []


async def _files(
    session: Session, entry: Entry, places: Places, results: list[CallResult], search: Search
) -> list[Difference]:
    """How the files are not as expected. A look that meets a fault of what it runs on is the last, and all that is
    told: what else differs may come of it."""
    found = []
    for path, pattern in entry.files:
        told = await looking.file_difference(session, path, places.pattern(pattern), results, search)
        if told is not None and told.of_infrastructure:
            return [told]
        if told is not None:
            found.append(told)
    return found
