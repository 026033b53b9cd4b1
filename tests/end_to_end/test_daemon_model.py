"""A real daemon against a model of its ledger: turns of several calls, cancellations, kills and restarts, in any order.

Whatever happens, each call that was taken has one tool/call and, once nobody works on it any more, one result, of the
kinds that what happened to it allows. STOCKADE_TEST_SEED makes a run again.
"""

import asyncio
import os
import random
import signal
import tempfile
from collections import Counter
from collections.abc import Coroutine
from contextlib import AsyncExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, ClassVar, TypeVar

import hypothesis
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, precondition, rule, run_state_machine_as_test

from stockade_client import Call, CallResult, Daemon, NotPossible, connect
from stockade_client.session import Session
from tests.end_to_end.stockaded import Stockaded

T = TypeVar("T")

SEED = int(os.environ.get("STOCKADE_TEST_SEED") or random.randrange(2**32))
HANG_S = 120.0  # a hang detector
LONG = "echo begun; sleep 600"
# A call of a turn, and the code that it ends with.
CALLS: dict[str, tuple[str, bytes, str]] = {
    "read": ("read", b'{"path": "a.txt"}', "ok"),
    "missing": ("read", b'{"path": "b.txt"}', "FS_NOT_FOUND"),
    "malformed": ("read", b"{", "INVALID_ARGS"),
    "unknown": ("nothing", b"{}", "UNKNOWN_TOOL"),
    "command": ("shell", b'{"command": "echo out"}', "ok"),
    "failing": ("shell", b'{"command": "exit 3"}', "ok"),
}


@dataclass(slots=True)
class SessionModel:
    calls: dict[str, str | None] = field(default_factory=dict)  # id → code of its result; None: it runs
    closed: bool = False
    resolved: set[str] = field(default_factory=set)


def code(result: CallResult) -> str:
    return result.error.code if result.error else "ok"


class DaemonAndModel(RuleBasedStateMachine):
    scratch: Path
    told: ClassVar[Counter[str]] = Counter()  # what was done, in all runs

    def __init__(self) -> None:
        super().__init__()
        place = Path(tempfile.mkdtemp(dir=self.scratch))
        self.workspace = place / "workspace"
        self.workspace.mkdir()
        (self.workspace / "a.txt").write_text("one\n")
        self.stockaded = Stockaded(place, workspaces=place)
        self.stockaded.start()
        self.runner = asyncio.Runner()
        self.open = AsyncExitStack()
        self.daemon = self.run(self.connected())
        self.sessions: dict[str, Session] = {}
        self.model: dict[str, SessionModel] = {}
        self.running: dict[tuple[str, str], Call] = {}
        self.count = 0
        self.since = 0  # calls since the daemon was started
        for _ in range(2):
            self.opens()

    def teardown(self) -> None:
        try:
            if self.stockaded.process is not None:
                self.check()
        finally:
            self.run(self.open.aclose())
            self.runner.close()
            if self.stockaded.process is not None:
                self.stockaded.end(signal.SIGKILL)

    def run(self, work: Coroutine[Any, Any, T]) -> T:
        async def bounded() -> T:
            async with asyncio.timeout(HANG_S):
                return await work

        return self.runner.run(bounded())

    async def connected(self) -> Daemon:
        return await self.open.enter_async_context(connect(self.stockaded.address))

    def new_id(self) -> str:
        self.count += 1
        self.since += 1
        self.told["calls"] += 1
        return f"c{self.count}"

    def opens(self) -> None:
        name = f"s{len(self.model)}"

        async def opened() -> Session:
            return await self.open.enter_async_context(self.daemon.session(self.workspace, "dev", id=name))

        self.sessions[name] = self.run(opened())
        self.model[name] = SessionModel()

    def one_of(self, data: st.DataObject, *, closed: bool = False) -> str:
        """A session that is open, or any."""
        return data.draw(st.sampled_from([name for name, known in self.model.items() if closed or not known.closed]))

    @rule(data=st.data(), kinds=st.lists(st.sampled_from(sorted(CALLS)), min_size=1, max_size=4))
    def a_turn_is_played(self, data: st.DataObject, kinds: list[str]) -> None:
        """Of calls that all run at once, each started twice."""
        name = self.one_of(data)
        session = self.sessions[name]
        ids = [self.new_id() for _ in kinds]

        async def turn() -> list[CallResult]:
            both = [
                session.call_json(tool, arguments, call_id=id)
                for id, (tool, arguments, _) in zip(ids, [CALLS[kind] for kind in kinds], strict=True)
                for _ in range(2)
            ]
            return list(await asyncio.gather(*both))

        found = [code(each) for each in self.run(turn())]
        wanted = [CALLS[kind][2] for kind in kinds for _ in range(2)]
        assert found == wanted
        for id, each in zip(ids, wanted[::2], strict=True):
            self.model[name].calls[id] = each

    @precondition(lambda self: len(self.running) < 3)
    @rule(data=st.data())
    def a_long_call_begins(self, data: st.DataObject) -> None:
        name = self.one_of(data)
        id = self.new_id()

        async def begun() -> Call:
            call = await self.sessions[name].start("shell", call_id=id, command=LONG)
            async with call.output() as chunks:
                await anext(chunks)
            return call

        self.running[name, id] = self.run(begun())
        self.model[name].calls[id] = None

    @precondition(lambda self: self.running)
    @rule(data=st.data())
    def a_long_call_is_cancelled(self, data: st.DataObject) -> None:
        name, id = data.draw(st.sampled_from(sorted(self.running)))
        call = self.running.pop((name, id))

        async def cancelled() -> CallResult:
            await call.cancel()
            return await call.result()

        assert code(self.run(cancelled())) == "ABORTED"
        self.model[name].calls[id] = "ABORTED"

    @precondition(lambda self: self.since > 2)
    @rule()
    def the_daemon_is_killed(self) -> None:
        self.told["kills"] += 1
        self.told["calls cut off"] += len(self.running)
        self.stockaded.end(signal.SIGKILL)
        self.goes_on("TOOL_OUTCOME_UNKNOWN")

    @precondition(lambda self: self.since > 2 and not self.running)
    @rule()
    def the_daemon_is_restarted(self) -> None:
        assert self.stockaded.end() == 0
        self.goes_on("")

    def goes_on(self, became: str) -> None:
        self.stockaded.start()
        self.since = 0
        self.told["starts"] += 1
        for (name, id), call in self.running.items():
            assert code(self.run(call.result())) == became
            self.model[name].calls[id] = became
        self.running.clear()
        self.check()

    @rule(data=st.data(), done=st.booleans())
    def calls_are_resolved(self, data: st.DataObject, done: bool) -> None:
        name = self.one_of(data, closed=True)
        known = self.model[name]
        for id, became in known.calls.items():
            work = self.daemon.resolve_unknown(name, id, "done" if done else "not-done")
            if became == "TOOL_OUTCOME_UNKNOWN" and id not in known.resolved:
                assert self.run(work).resolution is not None
                known.resolved.add(id)
                self.told["resolutions"] += 1
            elif became != "TOOL_OUTCOME_UNKNOWN":
                try:
                    self.run(work)
                except NotPossible:
                    continue
                raise AssertionError(f"{id} ended with {became} and was resolved")
            else:
                work.close()

    @precondition(lambda self: self.since > 1)
    @rule(data=st.data())
    def a_session_is_closed(self, data: st.DataObject) -> None:
        """And another one is opened."""
        name = self.one_of(data)
        self.run(self.sessions[name].close())
        self.model[name].closed = True
        for key in [key for key in self.running if key[0] == name]:
            del self.running[key]
            self.model[name].calls[key[1]] = "ABORTED"
        self.opens()

    def check(self) -> None:
        """The daemon's ledger tells of each session what the model says."""
        for name, known in self.model.items():
            events = self.run(self.events(name))
            assert [event.seq for event in events] == list(range(1, len(events) + 1))
            assert [event.type for event in events].count("session/closed") == known.closed
            for id, became in known.calls.items():
                types = [event.type for event in events if event.call_id == id]
                assert types.count("tool/call") == 1
                results = [event.body for event in events if event.call_id == id and event.type == "tool/result"]
                codes = [body["error"]["code"] if isinstance(body.get("error"), dict) else "ok" for body in results]
                assert codes == ([] if became is None else [became])
                assert types.count("call/resolved") == (id in known.resolved)
            assert {event.call_id for event in events} == {"", *known.calls}

    async def events(self, name: str) -> list[Any]:
        async with self.daemon.events(name) as events:
            return [event async for event in events]


def test_a_daemon_does_to_its_calls_what_the_model_says(scratch: Path) -> None:
    print(f"STOCKADE_TEST_SEED={SEED}")
    DaemonAndModel.scratch = scratch
    run_state_machine_as_test(
        hypothesis.seed(SEED)(DaemonAndModel),
        settings=settings(max_examples=2, stateful_step_count=15, phases=[hypothesis.Phase.generate]),
    )
    print(", ".join(f"{count} {what}" for what, count in DaemonAndModel.told.items()))
