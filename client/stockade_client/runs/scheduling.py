"""Which entries are played when, where and how often.

A unit is what shares a session: one entry, or with isolation `run` all entries of a file in their order. Each unit has
a session of its own, on a copy of the workspace. One that meets a fault of what it runs on is played once more, from
its beginning and in another session; so is one whose daemon is gone, where another daemon is to be had.
"""

import asyncio
import time
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass, replace
from fnmatch import fnmatchcase
from typing import Final, Protocol, TypeAlias

from stockade_client import leases
from stockade_client.connection import Daemon
from stockade_client.errors import DaemonError, RequestRefused
from stockade_client.runs.entries import CallsFile, Entry, Isolation
from stockade_client.runs.outcomes import Outcome
from stockade_client.runs.places import Places
from stockade_client.runs.playing import Answering, play
from stockade_client.runs.searching import Searcher

_ATTEMPTS: Final = 2
LEASE_S: Final = 60.0  # of a run's sessions: a run that is killed leaves its copies for so long at a shared daemon


@dataclass(frozen=True, slots=True)
class Unit:
    entries: tuple[Entry, ...]


@dataclass(frozen=True, slots=True)
class Terms:
    """How a run goes."""

    workspace: str
    profile: str
    jobs: int
    yes: bool
    fail_fast: bool
    timeout_s: float | None


_Key: TypeAlias = tuple[str, int]  # file and line


def _key(entry: Entry) -> _Key:
    return entry.file, entry.line


class Audience(Protocol):
    """Hears of each outcome as it is known; of one twice where its unit was played again."""

    def came(self, outcome: Outcome) -> None: ...


def units(files: Iterable[CallsFile], *, isolation: Isolation | None, only: str, shard: tuple[int, int]) -> list[Unit]:
    """What is to be played.

    isolation: of all files, or None: what each says, `entry` where it says nothing. only: a pattern of names (fnmatch),
    empty: all. shard: (i, n), the i-th of n parts of that, from 1.
    """
    found = []
    for file in files:
        chosen = tuple(each for each in file.entries if not only or fnmatchcase(each.name, only))
        if not chosen:
            continue
        if (isolation or file.isolation or "entry") == "run":
            found.append(Unit(chosen))
        else:
            found += [Unit((each,)) for each in chosen]
    number, parts = shard
    return found[number - 1 :: parts]


class Run:
    """One run of units. `outcomes` has what is known, also when `play` was cancelled."""

    def __init__(self, planned: Sequence[Unit], terms: Terms, audience: Audience) -> None:
        self._pending = deque(planned)
        self._entries = [entry for unit in planned for entry in unit.entries]
        self._terms = terms
        self._audience = audience
        self._attempts: dict[int, int] = {}  # by id of the unit
        self._because: dict[int, str] = {}
        self._spent: dict[_Key, float] = {}
        self._found: dict[_Key, Outcome] = {}
        self._stopping = False

    @property
    def outcomes(self) -> list[Outcome]:
        """In the order of the entries; those that were not played are among them."""
        return [self._found.get(_key(each)) or Outcome(each, "not run", attempts=0) for each in self._entries]

    async def play(self, a_daemon: Callable[[], AbstractAsyncContextManager[Daemon]]) -> None:
        """Plays all units; with another daemon where one is gone. Raises RequestRefused for a session that cannot be
        opened for a reason that holds for all of them."""
        while self._pending and not self._stopping:
            before = self._progress()
            try:
                async with a_daemon() as daemon:
                    await self._with(daemon)
            except* DaemonError as gone:
                # A round that ends so has cost some unit an attempt, or there is no daemon to be had.
                reason = str(_leaf(gone))
                if self._progress() == before:
                    self._give_up_all(reason)

    def _progress(self) -> tuple[int, int]:
        return sum(self._attempts.values()), len(self._found)

    def _give_up_all(self, reason: str) -> None:
        while self._pending:
            self._give_up(self._pending.popleft(), reason)

    async def _with(self, daemon: Daemon) -> None:
        async with asyncio.TaskGroup() as tasks:
            for _ in range(min(self._terms.jobs, len(self._pending))):
                tasks.create_task(self._job(daemon))

    async def _job(self, daemon: Daemon) -> None:
        while self._pending and not self._stopping:
            unit = self._pending.popleft()
            try:
                await self._unit(daemon, unit)
            except DaemonError as error:
                self._again(unit, str(error))
                raise
            except asyncio.CancelledError:
                # Where another job has found that the daemon is gone, the next one gets it.
                self._pending.appendleft(unit)
                raise

    async def _unit(self, daemon: Daemon, unit: Unit) -> None:
        terms, answering = self._terms, Answering(self._terms.yes)
        caller = daemon.info.caller
        approve = answering.asked if caller.answers_own_asks or not caller.name else None
        begun = time.monotonic()
        try:
            async with (
                Searcher() as searcher,
                daemon.session(
                    terms.workspace, terms.profile, approve=approve, workspace_view="copy", lease_s=lease_of(daemon)
                ) as session,
            ):
                places = Places(session.info.workspace)
                for entry in unit.entries:
                    outcome = await play(session, entry, answering, places, terms.timeout_s, searcher)
                    now = time.monotonic()
                    self._spent[_key(entry)] = self._spent.get(_key(entry), 0.0) + now - begun
                    begun = now
                    if outcome.kind == "infrastructure" and self._may_try_again(unit, outcome):
                        self._again(unit, f"{entry.name}: {outcome.reasons[0]}")
                        return
                    self._keep(unit, outcome)
                    if self._stopping:
                        return
        except RequestRefused as error:
            # Opened many times already; now it is not, and no tool is to blame for that.
            if not self._found:
                raise
            self._again(unit, str(error))

    def _may_try_again(self, unit: Unit, outcome: Outcome) -> bool:
        never = outcome.error is not None and outcome.error.retry == "never"  # it will fail again the same way
        return not never and self._attempts.get(id(unit), 0) + 1 < _ATTEMPTS

    def _again(self, unit: Unit, reason: str) -> None:
        """The unit has met a fault of what it runs on: it is played once more, or given up."""
        self._attempts[id(unit)] = self._attempts.get(id(unit), 0) + 1
        if self._attempts[id(unit)] >= _ATTEMPTS:
            self._give_up(unit, reason)
        else:
            self._because[id(unit)] = reason
            self._pending.appendleft(unit)

    def _give_up(self, unit: Unit, reason: str) -> None:
        for entry in unit.entries:
            if _key(entry) not in self._found:
                self._keep(unit, Outcome(entry, "infrastructure", (reason,)), last=True)

    def _keep(self, unit: Unit, outcome: Outcome, *, last: bool = False) -> None:
        before = self._attempts.get(id(unit), 0)
        outcome = replace(
            outcome,
            attempts=max(1, before if last else before + 1),
            retried=self._because.get(id(unit), ""),
            wall_s=self._spent.get(_key(outcome.entry), outcome.wall_s),
        )
        self._found[_key(outcome.entry)] = outcome
        self._audience.came(outcome)
        if self._terms.fail_fast and outcome.kind != "passed":
            self._stopping = True


def lease_of(daemon: Daemon) -> float:
    """Of a session of a run. An older daemon plays it as well, and keeps what a kill of the run leaves."""
    return LEASE_S if leases.FEATURE in daemon.info.features else 0.0


def _leaf(error: BaseException) -> BaseException:
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    return error
