"""A real ledger against a model of one: sessions, turns of calls, cancellations, restarts and kills, in any order.

After every step each session's events are those of the model, numbered without a gap, and every call has the state
that it should have. STOCKADE_TEST_SEED makes a run again.
"""

import asyncio
import os
import random
import shutil
import sqlite3
import tempfile
from collections.abc import Coroutine
from contextlib import AbstractAsyncContextManager, closing, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar

import hypothesis
import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule, run_state_machine_as_test

from stockade_daemon.errors import RequestError
from stockade_daemon.ledger import Ledger, SessionRecord, settle_unfinished
from stockade_daemon.values import Json

T = TypeVar("T")

SEED = int(os.environ.get("STOCKADE_TEST_SEED") or random.randrange(2**32))
SESSIONS = st.sampled_from(["s", "t"])
CALLS = st.sampled_from(["a", "b", "c", "d"])
FAR = 2**53  # a time that everything is older than


@dataclass(slots=True)
class CallModel:
    digest: str
    state: str = "pending"
    code: str | None = None  # of its result; "ok"
    resolved: bool | None = None


@dataclass(slots=True)
class SessionModel:
    events: list[tuple[str, str]] = field(default_factory=list)  # type, call
    calls: dict[str, CallModel] = field(default_factory=dict)
    closed: bool = False

    def unsettled(self) -> list[str]:
        return [id for id, call in self.calls.items() if call.state != "settled"]


def body(code: str) -> dict[str, Json]:
    return {"ok": True} if code == "ok" else {"ok": False, "error": {"code": code, "message": "."}}


def code_of(result: Any) -> str | None:
    return None if result is None else result["error"]["code"] if "error" in result else "ok"


class LedgerAndModel(RuleBasedStateMachine):
    def __init__(self) -> None:
        super().__init__()
        self.directory = Path(tempfile.mkdtemp(prefix="model-"))
        self.files = 0
        self.runner = asyncio.Runner()
        self.model: dict[str, SessionModel] = {}
        self.noted: list[tuple[str, str, str]] = []  # session, type, call; perhaps not on the disk yet
        self.path = self.new_path()
        self.opened = self.open()

    def teardown(self) -> None:
        self.run(self.opened[0].__aexit__(None, None, None))
        self.runner.close()
        shutil.rmtree(self.directory)

    def run(self, work: Coroutine[Any, Any, T]) -> T:
        return self.runner.run(work)

    def new_path(self) -> Path:
        self.files += 1
        place = self.directory / str(self.files)
        place.mkdir(mode=0o700)
        return place / "ledger.db"

    def open(self) -> tuple[AbstractAsyncContextManager[Ledger], Ledger]:
        manager = Ledger.open(str(self.path))

        async def enter() -> Ledger:
            return await manager.__aenter__()

        return manager, self.run(enter())

    @property
    def ledger(self) -> Ledger:
        return self.opened[1]

    def durable(self) -> None:
        """Something that was awaited is on the disk, and with it all that was noted before."""
        for session, type, call in self.noted:
            self.model[session].events.append((type, call))
        self.noted.clear()

    def recorded(self, session: str, type: str, call: str = "") -> None:
        self.durable()
        self.model[session].events.append((type, call))

    def refused(self, work: Coroutine[Any, Any, object], status: str) -> None:
        with pytest.raises(RequestError) as caught:
            self.run(work)
        assert caught.value.status == status, caught.value

    # Sessions.

    @rule(session=SESSIONS)
    def opens(self, session: str) -> None:
        record = SessionRecord(session, "/w", 1, 1, "dev", "d" * 64, "dev", b"", True, "ask", "open", 5)
        found = self.run(self.ledger.open_session(record))
        if session not in self.model:
            self.model[session] = SessionModel()
            self.recorded(session, "session/opened")
        assert found.state == ("closed" if self.model[session].closed else "open")

    @rule(session=SESSIONS)
    def closes(self, session: str) -> None:
        known = self.model.get(session)
        work = self.ledger.close_session(session)
        if known is None:
            self.refused(work, "NOT_FOUND")
        elif known.unsettled() and not known.closed:
            self.refused(work, "FAILED_PRECONDITION")
        else:
            self.run(work)
            self.durable()
            if not known.closed:
                known.closed = True
                known.events.append(("session/closed", ""))

    @rule(session=SESSIONS)
    def expires(self, session: str) -> None:
        removed = self.run(self.ledger.remove_session(session, FAR))
        self.durable()
        assert removed == (session in self.model and self.model[session].closed)
        if removed:
            del self.model[session]

    # Calls.

    @rule(session=SESSIONS, calls=st.lists(CALLS, min_size=1, max_size=5), digest=st.sampled_from(["x", "y"]))
    def a_turn_begins(self, session: str, calls: list[str], digest: str) -> None:
        """Of several calls at once, the same one among them perhaps."""
        known = self.model.get(session)
        if known is None or (known.closed and not set(calls) <= set(known.calls)):
            self.refused(self.together(calls, session, digest), "NOT_FOUND" if known is None else "FAILED_PRECONDITION")
            self.durable()
            return
        found = self.run(self.together(calls, session, digest))
        self.durable()
        for call, (record, new) in zip(calls, found, strict=True):
            assert new == (call not in known.calls)
            if new:
                known.calls[call] = CallModel(digest)
                known.events.append(("tool/call", call))
            assert record.digest == known.calls[call].digest

    async def together(self, calls: list[str], session: str, digest: str) -> list[Any]:
        found = await asyncio.gather(
            *(self.ledger.start_call(session, call, "read", digest, {}) for call in calls), return_exceptions=True
        )
        for each in found:
            if isinstance(each, BaseException):
                raise each
        return found

    @rule(session=SESSIONS, call=CALLS)
    def dispatches(self, session: str, call: str) -> None:
        if self.can_move(session, call, self.ledger.dispatched(session, call)):
            self.model[session].calls[call].state = "running"
            self.recorded(session, "call/dispatched", call)

    @rule(session=SESSIONS, call=CALLS, code=st.sampled_from(["ok", "TOOL_FAILED", "ABORTED", "TOOL_OUTCOME_UNKNOWN"]))
    def settles(self, session: str, call: str, code: str) -> None:
        if self.can_move(session, call, self.ledger.settle(session, call, body(code))):
            self.settled(session, call, code)

    @rule(session=SESSIONS, call=CALLS)
    def settles_and_is_cancelled_meanwhile(self, session: str, call: str) -> None:
        """Whoever waited is gone; the result is recorded all the same."""
        known = self.model.get(session)
        if known is None or known.closed or call not in known.unsettled():
            return

        async def cancelled() -> None:
            task = asyncio.create_task(self.ledger.settle(session, call, body("ABORTED")))
            await asyncio.sleep(0)  # it has queued its change
            task.cancel()
            with suppress(asyncio.CancelledError):
                await task
            await self.ledger.append(session, "x")

        self.run(cancelled())
        self.settled(session, call, "ABORTED")
        self.recorded(session, "x")

    @rule(session=SESSIONS, call=CALLS, done=st.booleans())
    def resolves(self, session: str, call: str, done: bool) -> None:
        known = self.model.get(session)
        model = known.calls.get(call) if known is not None else None
        work = self.ledger.resolve(session, call, done=done, note="")
        if known is None or model is None:
            self.refused(work, "NOT_FOUND")
        elif model.code != "TOOL_OUTCOME_UNKNOWN":
            self.refused(work, "FAILED_PRECONDITION")
        elif model.resolved is not None and model.resolved != done:
            self.refused(work, "ALREADY_EXISTS")
        else:
            self.run(work)
            self.durable()
            if model.resolved is None:
                model.resolved = done
                known.events.append(("call/resolved", call))

    def can_move(self, session: str, call: str, work: Coroutine[Any, Any, object]) -> bool:
        known = self.model.get(session)
        if known is None or (call not in known.calls and not known.closed):
            self.refused(work, "NOT_FOUND")
        elif known.closed or call not in known.unsettled():
            self.refused(work, "FAILED_PRECONDITION")
        else:
            self.run(work)
            return True
        return False

    def settled(self, session: str, call: str, code: str) -> None:
        model = self.model[session].calls[call]
        model.state, model.code = "settled", code
        self.recorded(session, "tool/result", call)

    @rule(session=SESSIONS, call=st.one_of(st.just(""), CALLS), awaited=st.booleans())
    def something_else_happens(self, session: str, call: str, awaited: bool) -> None:
        known = self.model.get(session)
        if known is None or known.closed:
            return
        if awaited:
            self.run(self.ledger.append(session, "x", call))
            self.recorded(session, "x", call)
        else:

            async def note() -> None:
                self.ledger.note(session, "note", call)

            self.run(note())
            self.noted.append((session, "note", call))

    # The daemon's life.

    @rule()
    def restarts(self) -> None:
        self.run(self.opened[0].__aexit__(None, None, None))
        self.durable()
        self.opened = self.open()
        self.recovers()

    @precondition(lambda self: self.files < 20)
    @rule()
    def is_killed(self) -> None:
        """What is in the files at this moment is what a killed daemon leaves: it needs no memory of its own."""
        old, manager = self.path, self.opened[0]
        self.path = self.new_path()
        with closing(sqlite3.connect(old, isolation_level=None)) as outside:
            outside.execute("BEGIN IMMEDIATE")  # nobody writes meanwhile
            for suffix in ("", "-wal"):
                shutil.copy(f"{old}{suffix}", f"{self.path}{suffix}")
            outside.execute("ROLLBACK")
        self.run(manager.__aexit__(None, None, None))
        self.opened = self.open()
        left = list(self.noted)
        self.noted.clear()
        for session, known in self.model.items():
            # Of the noted ones some first ones may have come to the disk, in their order.
            found = self.run(self.ledger.read(session))
            wanted = [(type, call) for name, type, call in left if name == session]
            known.events += wanted[: len(found) - len(known.events)]
        self.recovers()

    def recovers(self) -> None:
        for left in self.run(self.ledger.unsettled()):
            session, call = left.call.session_id, left.call.call_id
            model = self.model[session].calls[call]
            result = settle_unfinished(left, lambda _: "unknown")
            assert code_of(result) == ("TOOL_OUTCOME_UNKNOWN" if model.state == "running" else "TOOL_NOT_STARTED")
            self.run(self.ledger.settle(session, call, result))
            self.settled(session, call, str(code_of(result)))
        assert self.run(self.ledger.unsettled()) == []

    # What always holds.

    @invariant()
    def the_ledger_is_what_the_model_is(self) -> None:
        if not hasattr(self, "opened"):
            return
        records = self.run(self.ledger.sessions())
        assert {each.session_id: each.state for each in records} == {
            id: "closed" if known.closed else "open" for id, known in self.model.items()
        }
        for session, known in self.model.items():
            events = self.run(self.ledger.read(session))
            assert [event.seq for event in events] == list(range(1, len(events) + 1))
            noted = [(type, call) for name, type, call in self.noted if name == session]
            found = [(event.type, event.call_id) for event in events]
            assert found[: len(known.events)] == known.events
            assert found[len(known.events) :] == noted[: len(found) - len(known.events)]
            for id, model in known.calls.items():
                record = self.run(self.ledger.call(session, id))
                assert record is not None
                resolved = None if record.resolution is None else record.resolution.done
                assert (record.state, code_of(record.result), record.digest, resolved) == (
                    model.state,
                    model.code,
                    model.digest,
                    model.resolved,
                )


def test_a_ledger_is_what_its_model_is() -> None:
    print(f"STOCKADE_TEST_SEED={SEED}")
    run_state_machine_as_test(
        hypothesis.seed(SEED)(LedgerAndModel), settings=settings(max_examples=20, stateful_step_count=40)
    )
