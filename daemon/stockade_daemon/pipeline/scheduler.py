"""The turns under way: taking them, finding their calls, ending them. The order within one is turn.py's."""

import asyncio
import logging
import time
from collections.abc import Awaitable, Callable, Sequence
from typing import TypeAlias

from stockade_daemon.errors import ArgumentsRefusal, InfrastructureFailure, RequestError, StockadeError
from stockade_daemon.ledger.records import CallRecord
from stockade_daemon.pipeline.context import Services
from stockade_daemon.pipeline.identity import check_call_id, check_same
from stockade_daemon.pipeline.stop import Cause, Stopped
from stockade_daemon.pipeline.stopped import before_dispatch
from stockade_daemon.pipeline.turn import MOST_CALLS, Place, Turn, Wanted

_log = logging.getLogger(__name__)

Key: TypeAlias = tuple[str, str]  # session, call or turn
Take: TypeAlias = Callable[[str, Wanted, Place], Awaitable[Exception | None]]
Admit: TypeAlias = Callable[[str], Awaitable[None]]


class Scheduler:
    """Turns by session and id. Calls are the engine's: `take` records and starts one, `admit` raises RequestError where
    a session takes no new ones."""

    def __init__(self, services: Services, tasks: asyncio.TaskGroup, *, take: Take, admit: Admit) -> None:
        self._services = services
        self._tasks = tasks
        self._take = take
        self._admit = admit
        self._turns: dict[Key, Turn] = {}
        self._places: dict[Key, tuple[Turn, Place, Wanted]] = {}

    async def begin(self, session_id: str, turn_id: str, calls: Sequence[Wanted]) -> Turn:
        """Starts a turn, or finds it under way. Raises RequestError, before anything of it is recorded."""
        _check(turn_id, calls)
        turn = self._turns.get((session_id, turn_id))
        if turn is None:
            for each in calls:
                other = self._places.get((session_id, each.call_id))
                if other is not None:
                    raise RequestError(
                        "ALREADY_EXISTS",
                        f"call {each.call_id} belongs to turn {other[0].turn_id}, which is under way; choose another "
                        "id",
                    )
            turn = Turn(turn_id, calls)
            turn.since_ms = time.time_ns() // 1_000_000
            self._turns[session_id, turn_id] = turn
            for wanted, place in zip(turn.calls, turn.places, strict=True):
                self._places[session_id, wanted.call_id] = turn, place, wanted
            # A task of its own: a turn goes on when the request that began it is dropped.
            self._tasks.create_task(self._run(session_id, turn))
        elif not turn.is_same(calls):
            raise RequestError("ALREADY_EXISTS", f"turn {turn_id} is under way with other calls; choose another id")
        await turn.accepted.wait()
        if turn.failure is not None:
            raise turn.failure
        return turn

    def turn(self, session_id: str, turn_id: str) -> Turn:
        """Raises RequestError NOT_FOUND where it is not under way."""
        turn = self._turns.get((session_id, turn_id))
        if turn is None:
            raise RequestError(
                "NOT_FOUND",
                f"no turn {turn_id[:128]!r} of session {session_id[:128]!r} is under way: it is over, or was never "
                "started",
            )
        return turn

    def place(self, key: Key) -> tuple[Turn, Place, Wanted] | None:
        """Of a call whose turn is under way, taken or not."""
        return self._places.get(key)

    def halt(self, cause: Cause, session_id: str | None = None, by: str | None = None) -> list[Turn]:
        """Has the turns of a session, or all, begin no more calls; gives them."""
        turns = [turn for (owner, _), turn in self._turns.items() if session_id in (None, owner)]
        for turn in turns:
            turn.halt(cause, by)
        return turns

    def park(self, key: Key) -> None:
        """The call waits on for the next daemon: of its turn, nothing more is begun or recorded by this one."""
        in_turn = self._places.get(key)
        if in_turn is not None:
            in_turn[0].park(parked(key[1]))

    def waiting(self) -> list[tuple[str, Turn, Place, Wanted]]:
        """The calls of turns that have no result yet, by session and in their order."""
        return [
            (session_id, turn, place, wanted)
            for (session_id, _), (turn, place, wanted) in self._places.items()
            if not place.settled.is_set()
        ]

    def sessions(self) -> set[str]:
        return {session_id for session_id, _ in self._turns}

    async def _run(self, session_id: str, turn: Turn) -> None:
        """A turn to its end. What goes wrong is the turn's failure: in a task group it would end all other calls."""
        try:
            await self._prepare(session_id, turn)
            turn.accepted.set()
            await turn.run(lambda wanted, place: self._take(session_id, wanted, place), self._is_exclusive)
            for wanted, place in zip(turn.calls, turn.places, strict=True):
                for text in place.context:
                    # Waited for: who has the turn can read what it comes with.
                    await self._services.ledger.append(session_id, "context/message", wanted.call_id, {"text": text})
        except Exception as error:
            turn.failure = error
            if not isinstance(error, StockadeError):
                _log.exception("turn %s/%s met a fault of the daemon", session_id, turn.turn_id)
        if turn.failure is not None:
            _log.warning("turn %s/%s ended early: %s", session_id, turn.turn_id, turn.failure)
        for place in turn.places:
            place.end()
        for wanted in turn.calls:
            del self._places[session_id, wanted.call_id]
        del self._turns[session_id, turn.turn_id]
        turn.accepted.set()
        turn.over.set()

    async def _prepare(self, session_id: str, turn: Turn) -> None:
        """Compares the turn with what is recorded of it. Raises RequestError."""
        ledger = self._services.ledger
        known: list[CallRecord | None] = []
        for wanted in turn.calls:
            found = await ledger.call(session_id, wanted.call_id)
            if found is not None:
                check_same(wanted.call_id, found.digest, wanted.digest)
            known.append(found)
        if None not in known:
            return  # all that is left is to give the results, also of a closed session
        await self._admit(session_id)
        for wanted, found in zip(turn.calls, known, strict=True):
            if found is not None:
                first = await ledger.read(session_id, call_id=wanted.call_id, limit=1)
                if first and first[0].body.get("turn") == turn.turn_id:
                    break
        else:
            return
        # A turn that is over has no call without a record: this one ended in the middle, with its daemon or by a fault.
        for place, found in zip(turn.places, known, strict=True):
            if found is None:
                place.refusal = InfrastructureFailure(
                    "TOOL_NOT_STARTED",
                    "This call's turn ended in the middle, when the daemon stopped or failed at it, before the call "
                    "was started. Nothing ran; "
                    "look at the results before it, then repeat the call with a new id.",
                )

    def _is_exclusive(self, wanted: Wanted) -> bool:
        try:
            manifest = self._services.tools.find(wanted.tool)
            self._services.tools.current.parse(manifest, wanted.text)
        except ArgumentsRefusal:
            return True
        return not manifest.parallel_safe


def parked(call_id: str) -> RequestError:
    """Of a call whose daemon ends while it waits for an approval: whoever waits for it asks the next one."""
    return RequestError(
        "UNAVAILABLE", f"the daemon is stopping; call {call_id} waits for an approval and goes on with the next one"
    )


def cancelled(place: Place, by: str | None = None) -> None:
    """Takes back a call whose place has not come."""
    if place.refusal is None:
        place.refusal, place.refused_by = before_dispatch(Stopped("cancelled")), by


def _check(turn_id: str, calls: Sequence[Wanted]) -> None:
    check_call_id(turn_id, "turn_id")
    if not 1 <= len(calls) <= MOST_CALLS:
        raise RequestError("INVALID_ARGUMENT", f"a turn has 1 to {MOST_CALLS} calls, and this one {len(calls)}")
    seen: set[str] = set()
    for each in calls:
        check_call_id(each.call_id)
        if each.call_id in seen:
            raise RequestError("INVALID_ARGUMENT", f"the turn has two calls {each.call_id}; give each an id of its own")
        seen.add(each.call_id)
