"""A turn: the calls of one model message, and the order that they keep.

Bodies that are safe beside each other overlap, at most PARALLEL at a time; every other call is a barrier: it begins
when all before it have their results, and what follows waits for its own. A call is judged (pre-execute, approval,
guards) when the one before it has been, and post-execute and results are in the order of the calls. Context for the
agent comes after the last result.

A turn that is stopped begins no more bodies: what had not been taken is recorded all the same, with a result that says
so, so that every call of the turn has one.
"""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from typing import Final, TypeAlias

from stockade_daemon.errors import Refusal
from stockade_daemon.pipeline.arguments import MAX_ARGUMENTS, stand_in
from stockade_daemon.pipeline.identity import digest
from stockade_daemon.pipeline.stop import Cause, Stopped
from stockade_daemon.pipeline.stopped import before_dispatch

PARALLEL: Final = 10
MOST_CALLS: Final = 128  # of one turn


@dataclass(frozen=True, slots=True)
class Wanted:
    """A call as it was asked for."""

    call_id: str
    tool: str
    text: bytes  # the arguments
    digest: str
    left_out: int = 0  # bytes of arguments that are not in `text`, because they are too many; 0: all are
    by: str | None = None  # the name of the principal that asks; None: the daemon itself


def as_wanted(call_id: str, tool: str, text: bytes, *, left_out: int = 0, by: str | None = None) -> Wanted:
    """The call; arguments that are too long to be taken are left out."""
    if len(text) > MAX_ARGUMENTS:
        text, left_out = b"", len(text)
    return Wanted(call_id, tool, text, digest(tool, text if not left_out else stand_in(left_out)), left_out, by)


class Place:
    """Of a call in its turn: what it waits for, and what others wait for. A call alone waits for nothing."""

    def __init__(self, earlier: "Place | None" = None, *, turn_id: str = "") -> None:
        self._earlier = earlier
        self._leave: Callable[[], None] | None = None
        self.turn_id = turn_id  # empty: a call alone
        self.exclusive = True  # nothing of its turn runs beside it
        self.refusal: Refusal | None = None  # why it will not run, where that is known before it is taken
        self.refused_by: str | None = None  # the principal that took it back, if one did
        self.context: tuple[str, ...] = ()  # for the agent, after all results
        self.held = False  # it waits for results of calls before it
        self.begun = asyncio.Event()  # it is under way, or never will be
        self.decided = asyncio.Event()  # policy has had its say
        self.settled = asyncio.Event()  # it has its result, and so have all before it

    def takes_room(self, leave: Callable[[], None]) -> None:
        self._leave = leave

    def over(self) -> None:
        """Its body has ended, or never will begin. Safe to repeat."""
        self.decided.set()
        leave, self._leave = self._leave, None
        if leave is not None:
            leave()

    async def results_before(self) -> None:
        """Waits until all calls before it have their results."""
        if self._earlier is not None and not self._earlier.settled.is_set():
            self.held = True
            await self._earlier.settled.wait()
            self.held = False

    async def may_run(self) -> None:
        """Waits until its body may begin."""
        self.decided.set()
        if self.exclusive:
            await self.results_before()

    def end(self) -> None:
        """It has its result, or it will get none: whatever waits goes on."""
        self.over()
        self.begun.set()
        self.settled.set()


# Records a call and starts it, or with a refusal settles it at once; what went wrong, if it could not even be recorded.
Take: TypeAlias = Callable[[Wanted, Place], Awaitable[Exception | None]]


class Turn:
    """Some calls of one session, under way."""

    def __init__(self, turn_id: str, calls: Sequence[Wanted]) -> None:
        self.turn_id = turn_id
        self.calls = tuple(calls)
        self.places: list[Place] = []
        for _ in calls:
            self.places.append(Place(self.places[-1] if self.places else None, turn_id=turn_id))
        self.since_ms = 0
        self.accepted = asyncio.Event()  # it will run, or `failure` says why not
        self.over = asyncio.Event()
        self.failure: Exception | None = None  # why not all of its calls have a result
        self._cause: Cause | None = None
        self._parked: Exception | None = None
        self._by: str | None = None

    def is_same(self, calls: Sequence[Wanted]) -> bool:
        return [(each.call_id, each.digest) for each in calls] == [(each.call_id, each.digest) for each in self.calls]

    def halt(self, cause: Cause, by: str | None = None) -> None:
        """Begins no more of its calls. The first cause stays, and the principal that gave it."""
        if self._cause is None:
            self._cause, self._by = cause, by

    def park(self, failure: Exception) -> None:
        """One of its calls goes on with the next daemon: those behind it are left to that, unrecorded."""
        self._parked = failure

    async def run(self, take: Take, is_exclusive: Callable[[Wanted], bool]) -> None:
        """All calls to their results. `is_exclusive` is asked when a call is about to begin.

        Where one cannot be taken, or this itself fails, no more of them begin and those that have go on to their
        results; then `failure` is set, or what went wrong is raised.
        """
        room = asyncio.Semaphore(PARALLEL)
        barrier = False
        begun: Place | None = None  # the last one that has
        try:
            for wanted, place in zip(self.calls, self.places, strict=True):
                await room.acquire()
                # Asked when there is room, since there may be other tools by then; of what follows a barrier, not at
                # all.
                if barrier or is_exclusive(wanted):
                    await place.results_before()
                place.takes_room(room.release)
                if self._cause is not None and place.refusal is None:
                    place.refusal, place.refused_by = before_dispatch(Stopped(self._cause)), self._by
                if place.refusal is not None:
                    await place.results_before()
                self.failure = self._parked or await take(wanted, place)
                if self.failure is not None:
                    break
                begun = place
                await place.decided.wait()
                barrier = place.exclusive
        finally:
            if begun is not None:
                await begun.settled.wait()  # and all before it
            for place in self.places:
                place.end()
