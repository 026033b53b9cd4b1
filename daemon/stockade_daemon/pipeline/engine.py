"""The engine: takes calls, runs each through the pipeline in a task of its own, settles every one exactly once."""

import asyncio
import logging
import time
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from types import MappingProxyType

from stockade_daemon.errors import InfrastructureFailure, Refusal, RequestError
from stockade_daemon.ledger.records import CallRecord, SessionRecord, Unsettled
from stockade_daemon.pipeline import effects, outcomes
from stockade_daemon.pipeline.context import CallUnderWay, LiveSession, Services, printed_by
from stockade_daemon.pipeline.draining import given_time
from stockade_daemon.pipeline.finalize import finalize
from stockade_daemon.pipeline.identity import check_call_id, check_same
from stockade_daemon.pipeline.jobs import Jobs
from stockade_daemon.pipeline.kept_bytes import file_of
from stockade_daemon.pipeline.listing import Listed, listed
from stockade_daemon.pipeline.looking import looked_at
from stockade_daemon.pipeline.observe import Observer, observe
from stockade_daemon.pipeline.post_execute import Reviewed
from stockade_daemon.pipeline.printed import Printed
from stockade_daemon.pipeline.recover import recover
from stockade_daemon.pipeline.run import run
from stockade_daemon.pipeline.scheduler import Scheduler, cancelled, parked
from stockade_daemon.pipeline.sessions import Sessions
from stockade_daemon.pipeline.settling import settle
from stockade_daemon.pipeline.stop import Cause, Clock, Stop
from stockade_daemon.pipeline.taking_up import take_up
from stockade_daemon.pipeline.turn import Place, Turn, Wanted, as_wanted
from stockade_daemon.pipeline.waited import Waited
from stockade_daemon.policy.pending import Parked
from stockade_daemon.policy.subjects import Judged, Settled
from stockade_daemon.values import Json

_log = logging.getLogger(__name__)
_NOTHING: Mapping[str, int] = MappingProxyType({})


class Engine:
    """All calls of this daemon."""

    def __init__(
        self, services: Services, sessions: Sessions, tasks: asyncio.TaskGroup, observers: list[Observer]
    ) -> None:
        self._services = services
        self.sessions = sessions
        sessions.busy = self._busy
        sessions.leases.ended = lambda session_id, why: tasks.create_task(self._end_lease(session_id, why))
        sessions.offers = lambda: [each.name for each in services.tools.current.catalog()]
        self._tasks = tasks
        self._observers = observers
        self._under_way: dict[tuple[str, str], CallUnderWay] = {}
        self._starting: dict[tuple[str, str], asyncio.Task[Exception | None]] = {}
        self._closing: set[str] = set()
        self._draining = False
        self._last = False
        self._parked: set[tuple[str, str]] = set()  # calls that the next daemon goes on with
        self._turns = Scheduler(services, tasks, take=self._take, admit=self._admit)
        self.jobs = Jobs(services, self._under_way, tasks, admit=self._admit, run=self._run)

    @classmethod
    @asynccontextmanager
    async def start(
        cls, services: Services, sessions: Sessions, observers: list[Observer], *, grace_s: float, last: bool = False
    ) -> AsyncIterator["Engine"]:
        """Settles what an earlier daemon left under way, then takes calls. At the end, calls get `grace_s` seconds to
        finish and are stopped after that; each has its result before this returns, but those that wait for an approval
        and for the next daemon. `last`: there will be none."""
        async with asyncio.TaskGroup() as tasks:
            engine = cls(services, sessions, tasks, observers)
            engine._last = last
            going_on = await recover(services.ledger, engine._take_up)
            await asyncio.to_thread(effects.tidy, services, going_on)
            for session_id in await sessions.on_copies():
                await engine.close_session(session_id)  # the copy ended with the daemon that made it
            await services.pool.tidy(sessions.is_open)
            await sessions.begin_leases()
            try:
                yield engine
            finally:
                await engine.drain(grace_s)

    async def begin(
        self, session_id: str, call_id: str, tool: str, text: bytes, *, left_out: int = 0, by: str | None = None
    ) -> None:
        """Records a call and starts it; the same call again is nothing.

        left_out: bytes of arguments that are not in `text` because they are too many; the call is refused.
        by: the name of the principal that starts it; None: the daemon itself.
        Raises RequestError: NOT_FOUND, INVALID_ARGUMENT, ALREADY_EXISTS, FAILED_PRECONDITION.
        """
        check_call_id(call_id)
        call = as_wanted(call_id, tool, text, left_out=left_out, by=by)
        in_turn = self._turns.place((session_id, call_id))
        if in_turn is not None:
            check_same(call_id, in_turn[2].digest, call.digest)
            return  # it begins when its place has come
        # Shielded: a request that is dropped here must not leave a call that is recorded and never run.
        failure = await asyncio.shield(self._start(session_id, call, None))
        if failure is not None:
            raise failure

    async def begin_turn(
        self,
        session_id: str,
        turn_id: str,
        calls: Sequence[tuple[str, str, bytes]],
        *,
        left_out: Mapping[str, int] = _NOTHING,
        by: str | None = None,
    ) -> Turn:
        """Starts the calls (id, tool, arguments) of one turn in their order; the same turn again is nothing.

        left_out: as in `begin`, by the call's id; by: the same. Raises RequestError as `begin` does, before any call
        is recorded.
        """
        wanted = [as_wanted(*each, left_out=left_out.get(each[0], 0), by=by) for each in calls]
        return await self._turns.begin(session_id, turn_id, wanted)

    def _start(self, session_id: str, wanted: Wanted, place: Place | None) -> asyncio.Task[Exception | None]:
        key = (session_id, wanted.call_id)
        before = self._starting.get(key)
        starting = self._tasks.create_task(self._begin(session_id, wanted, before, place))
        self._starting[key] = starting
        starting.add_done_callback(lambda task: self._starting.pop(key) if self._starting.get(key) is task else None)
        return starting

    async def _take(self, session_id: str, wanted: Wanted, place: Place) -> Exception | None:
        """Starts a call whose place in a turn has come. One that was known before is waited for."""
        failure = await self._start(session_id, wanted, place)
        under_way = self._under_way.get((session_id, wanted.call_id))
        if failure is None and (under_way is None or under_way.place is not place):
            await place.results_before()
            if under_way is not None:
                await under_way.settled.wait()
            place.end()
        return failure

    async def _admit(self, session_id: str) -> None:
        """Raises RequestError where the session takes no new calls."""
        if self._draining:
            raise RequestError("FAILED_PRECONDITION", "the daemon is stopping and takes no new calls; try again soon")
        await self.sessions.live(session_id)
        if session_id in self._closing:
            raise RequestError("FAILED_PRECONDITION", f"session {session_id} is closing; open another one")

    async def _begin(
        self,
        session_id: str,
        wanted: Wanted,
        before: asyncio.Task[Exception | None] | None,
        place: Place | None,
    ) -> Exception | None:
        """Takes the call, or says why not. Returned, not raised: in a task group that would end every other call.

        `before`: an earlier start of the same call, whose record is waited for. `place`: in a turn, which was admitted
        as a whole.
        """
        try:
            if before is not None:
                await asyncio.wait([before])
            under_way = self._under_way.get((session_id, wanted.call_id))
            if under_way is not None:
                check_same(wanted.call_id, under_way.call.digest, wanted.digest)
                return None
            if self._draining or session_id in self._closing or not self.sessions.is_live(session_id):
                # Where no new call is taken, or the session is no longer open, a repeated start still finds its call.
                # Elsewhere recording the call finds that out, in the same transaction.
                known = await self._services.ledger.call(session_id, wanted.call_id)
                if known is not None:
                    check_same(wanted.call_id, known.digest, wanted.digest)
                    return None
            if place is None:
                await self._admit(session_id)
            live = await self.sessions.live(session_id)
            await self._record_and_start(live, wanted, place or Place())
        except Exception as error:
            return error
        return None

    async def _record_and_start(self, live: LiveSession, wanted: Wanted, place: Place) -> None:
        session, call_id = live.session, wanted.call_id
        registry = self._services.tools.current
        looked = looked_at(self._services.tools, live, wanted, place)
        call, judged, card = looked.call, looked.judged, looked.card
        record, is_new = await self._services.ledger.start_call(
            session.session_id, call_id, call.tool, call.digest, looked.body, looked.beside, by=wanted.by
        )
        if not is_new:
            check_same(call_id, record.digest, call.digest)
            return
        stop = Stop()
        under_way = CallUnderWay(
            live=live,
            call=call,
            printed=printed_by(self._services, live, call_id, stop),
            stop=stop,
            clock=Clock(stop),
            tools=registry,
            current=lambda: self.sessions.live(session.session_id),
            began=live.digest,
            jobs=self.jobs,
            by=wanted.by,
            place=place,
            since_ms=time.time_ns() // 1_000_000,
            card=card,
        )
        self._under_way[(session.session_id, call_id)] = under_way
        place.begun.set()
        under_way.task = self._tasks.create_task(self._run(under_way, judged, looked.refusal))

    async def _take_up(self, unsettled: Unsettled) -> str | None:
        """Goes on with a call that waits for an approval: None. Else why not, as `take_up` says it."""
        taken = await take_up(self._services, self.sessions, self.jobs, unsettled)
        if isinstance(taken, str):
            return taken
        under_way = taken.under_way
        self._under_way[unsettled.call.session_id, unsettled.call.call_id] = under_way
        under_way.task = self._tasks.create_task(self._run(under_way, taken.judged, None, taken.waited))
        return None

    async def _run(
        self,
        under_way: CallUnderWay,
        judged: Judged | None,
        refusal: Refusal | None,
        waited: Waited | None = None,
    ) -> None:
        """One call to its recorded result."""
        session, call = under_way.live.session, under_way.call
        started = time.monotonic()
        try:
            if judged is None or refusal is not None:
                assert refusal is not None
                outcome = finalize(outcomes.refused(refusal), None)
                observe(self._observers, Settled(session, call, judged.manifest if judged else None, outcome))
                final = Reviewed(outcome, ())
            else:
                final = await run(self._services, judged, under_way, self._observers, waited)
            under_way.place.over()
            await under_way.place.results_before()
            await settle(self._services, under_way, judged, final)
            code = final.outcome.error.code if final.outcome.error else "ok"
        except Parked:
            self._parked.add((session.session_id, call.call_id))
            code = "waits for an approval, and for the next daemon"
        except (InfrastructureFailure, RequestError) as error:
            # The ledger cannot record: the call stays open there, and the next start settles it by what it can prove.
            _log.error("call %s/%s has a result that cannot be recorded: %s", session.session_id, call.call_id, error)
            code = "unrecorded"
        finally:
            under_way.printed.close()
            del self._under_way[(session.session_id, call.call_id)]
            under_way.settled.set()
            under_way.place.end()
        milliseconds = (time.monotonic() - started) * 1000
        _log.info("call %s/%s %s %s %.0f ms", session.session_id, call.call_id, call.tool, code, milliseconds)

    async def wait(self, session_id: str, call_id: str, seconds: float) -> tuple[CallRecord, str]:
        """The call's record once it is settled, or after `seconds`; and the ask it waits for. Raises RequestError."""
        in_turn = self._turns.place((session_id, call_id))
        if in_turn is not None and seconds > 0:
            with suppress(TimeoutError):
                async with asyncio.timeout(seconds):
                    await in_turn[1].settled.wait()
        under_way = self._under_way.get((session_id, call_id))
        if under_way is not None and seconds > 0:
            with suppress(TimeoutError):
                async with asyncio.timeout(seconds):
                    await under_way.settled.wait()
            if under_way.record is not None:
                return under_way.record, ""  # as it was recorded
        record = await self._services.ledger.call(session_id, call_id)
        in_turn = self._turns.place((session_id, call_id))
        if record is None and in_turn is not None:
            return CallRecord(session_id, call_id, in_turn[2].tool, in_turn[2].digest, "pending", None), ""
        if record is None:
            raise RequestError("NOT_FOUND", f"session {session_id[:128]} has no call {call_id[:128]!r}; start it first")
        key = (session_id, call_id)
        if record.state != "settled" and key not in self._under_way and key not in self._starting:
            # It may have been settled after it was read and before this was looked at.
            record = await self._services.ledger.call(session_id, call_id) or record
        if key in self._parked:
            raise parked(call_id)
        if record.state != "settled" and key not in self._under_way and key not in self._starting:
            why = self._services.ledger.failure or "its result could not be recorded"
            raise InfrastructureFailure("FS_IO_ERROR", f"the outcome of call {call_id} is not recorded: {why}")
        return record, self._services.approvals.waiting_for(session_id, call_id)

    async def cancel(self, session_id: str, call_id: str, *, by: str | None = None) -> None:
        """Asks for the call's end and waits for its result, except where its place in a turn has not come. A settled
        call is left as it is. by: the name of the principal that asks; None: the daemon itself."""
        await self._stop((session_id, call_id), "cancelled", by)

    async def cancel_turn(self, session_id: str, turn_id: str, *, by: str | None = None) -> Turn:
        """Ends a turn and waits for the results of its calls. by: as in `cancel`. Raises RequestError NOT_FOUND."""
        turn = self._turns.turn(session_id, turn_id)
        turn.halt("cancelled", by)
        await asyncio.gather(*(self._stop((session_id, each.call_id), "cancelled", by) for each in turn.calls))
        await turn.over.wait()
        return turn

    async def close_session(self, session_id: str, *, by: str | None = None) -> SessionRecord:
        """Stops the session's calls, waits for their results, records its end. Safe to repeat. by: as in `cancel`."""
        # Shielded: a request that is dropped must not leave what the session held when its end is recorded.
        return await asyncio.shield(self._close(session_id, by))

    async def _end_lease(self, session_id: str, why: str) -> None:
        _log.info("session %s: %s", session_id, why)
        try:
            await self._close(session_id, None, "lease", {"reason": why})
        except Exception:  # in a task group it would end every call
            _log.exception("session %s stays until the next start, which ends it", session_id)

    async def _close(
        self, session_id: str, by: str | None, cause: Cause = "closing", body: Mapping[str, Json] = _NOTHING
    ) -> SessionRecord:
        record = await self.sessions.record(session_id)
        if record.state != "open":
            await self.sessions.closed(session_id)  # what could not be removed before
        else:
            self._closing.add(session_id)  # from here on no call of it is recorded
            try:
                turns = self._turns.halt(cause, session_id, by)
                keys = {key for key in (*self._starting, *self._under_way) if key[0] == session_id}
                await asyncio.gather(*(self._stop(key, cause, by) for key in keys))
                for turn in turns:
                    await turn.over.wait()
                await self._services.ledger.close_session(session_id, body, by=by)
                await self.sessions.closed(session_id)
                self.jobs.forget(session_id)
            finally:
                self._closing.discard(session_id)
        self.sessions.leases.forget(session_id)
        return await self.sessions.record(session_id)

    def card(self, session_id: str, call_id: str) -> Mapping[str, Json] | None:
        """The pending card of a call under way; None where it has none, or is not under way."""
        under_way = self._under_way.get((session_id, call_id))
        return None if under_way is None else under_way.card

    def under_way(self, session_id: str) -> list[Listed]:
        """The calls without a result of one session, or with an empty id of all."""
        return listed(self._under_way.values(), self._turns, self._services.approvals, session_id)

    async def running_output(self, session_id: str, call_id: str, *, begun: bool) -> Printed | None:
        """The output of a call under way; None once it is settled. begun: waits for its place in its turn to come."""
        in_turn = self._turns.place((session_id, call_id)) if begun else None
        if in_turn is not None:
            await in_turn[1].begun.wait()
        under_way = self._under_way.get((session_id, call_id))
        return None if under_way is None else under_way.printed

    def output_file(self, session_id: str, call_id: str, part: str) -> Path:
        """Where a long output of this call lies, if it has one."""
        return file_of(self._services.outputs, session_id, call_id, part)

    def _busy(self) -> set[str]:
        """Sessions with calls; what they hold must not be let go of."""
        return self._turns.sessions() | {session_id for session_id, _ in (*self._starting, *self._under_way)}

    async def _stop(self, key: tuple[str, str], cause: Cause, by: str | None = None) -> None:
        starting = self._starting.get(key)
        if starting is not None:
            await asyncio.wait([starting])  # being recorded: a stop that came too early would be lost
        under_way = self._under_way.get(key)
        if under_way is not None:
            under_way.stop.request(cause, by)
            await under_way.settled.wait()
            return
        in_turn = self._turns.place(key)
        if in_turn is not None:
            cancelled(in_turn[1], by)  # its result comes when its place does: that may be long, and is not waited for

    async def drain(self, grace_s: float) -> None:
        """Takes no new calls, lets those under way finish for `grace_s` seconds, stops the rest. Safe to repeat.

        A call that waits for an approval waits on for the next daemon, except where there will be none, or the ask ends
        with its approver.
        """
        self._draining = True
        self.sessions.leases.stop()
        turns = self._turns.halt("draining")
        await asyncio.gather(*self._starting.values())
        for (session_id, call_id), call in self._under_way.items():
            asked = self._services.approvals.waiting_for(session_id, call_id)
            if asked and not self._last and self._services.approvals.park(session_id, call_id):
                self._turns.park((session_id, call_id))
            elif asked or call.call.background:  # a job has no end of its own to wait for
                call.stop.request("draining")
        await given_time(self._under_way.values(), grace_s)
        await asyncio.gather(*(self._stop(key, "draining") for key in list(self._under_way)))
        for turn in turns:
            await turn.over.wait()
