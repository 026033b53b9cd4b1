"""What stages share: the rooms' services, a live session, a call under way."""

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING

from stockade_daemon.gate.effects.areas import Areas
from stockade_daemon.gate.gate import Gate
from stockade_daemon.gate.workspace import Workspace
from stockade_daemon.ledger.ledger import Ledger
from stockade_daemon.ledger.records import CallRecord
from stockade_daemon.pipeline.describe import Describing
from stockade_daemon.pipeline.output import Output
from stockade_daemon.pipeline.printed import Printed
from stockade_daemon.pipeline.stop import Clock, Stop
from stockade_daemon.pipeline.turn import Place
from stockade_daemon.policy.approvals import Approvals
from stockade_daemon.policy.budget import Spent
from stockade_daemon.policy.decisions import PostDecision, PreDecision
from stockade_daemon.policy.guards import Guards
from stockade_daemon.policy.intents import IntentPoint
from stockade_daemon.policy.subjects import Finished, Intended, Judged, Transaction
from stockade_daemon.policy.waterfall import Listener, Waterfall
from stockade_daemon.registry.generations import Generations
from stockade_daemon.registry.registry import Registry
from stockade_daemon.sandbox.differing import Hidden
from stockade_daemon.sandbox.pool import Pool
from stockade_daemon.sandbox.worker import Worker
from stockade_daemon.values import Call, Durability, Json, Outcome, Profile, Session

if TYPE_CHECKING:
    from stockade_daemon.pipeline.binding import Bound
    from stockade_daemon.pipeline.jobs import Jobs


@dataclass(frozen=True, slots=True)
class Barred:
    """Why no call of a session may run: the present version of its profile cannot be the session's."""

    digest: str  # of that version, as the session would have it
    reason: str


@dataclass(frozen=True, slots=True)
class LiveSession:
    """An open session with what it holds, at one time: a call keeps the one that it began with."""

    session: Session
    workspace: Workspace
    gate: Gate
    named: str = ""  # the profile's name, where it was chosen by name; else it is a text and stays what it is
    tightening: bytes = b""  # what the session was opened with
    number: int = -1  # of the profile's version that this is under, or is barred by; -1: none has been looked at
    barred: Barred | None = None  # `session.profile` is then the last one that was in force, and nothing runs under it
    tools: frozenset[str] = frozenset()  # those that it offers and runs; empty: all
    spent: Spent = field(default_factory=Spent)  # of its budget; one for all versions
    told: str = ""  # why the last edit that was refused was refused; empty after one that was taken

    @property
    def digest(self) -> str:
        """Of the profile that calls are recorded under."""
        return self.session.profile.digest if self.barred is None else self.barred.digest

    @property
    def hidden_names(self) -> Hidden:
        """Looks for the names that views of the workspace must not show; None where nothing is hidden."""
        return self.gate.hidden_names if self.session.profile.hidden else None

    def under(self, profile: Profile) -> "LiveSession":
        """The same session under another profile."""
        session = replace(self.session, profile=profile)
        gate = self.gate.under(protected=profile.protected, hidden=profile.hidden, scratch=profile.scratch)
        return replace(self, session=session, gate=gate, barred=None)


@dataclass(slots=True)
class CallUnderWay:
    """A recorded call without a result. Changed by its own task alone; others wait for `settled` or request a stop."""

    live: LiveSession  # as it was when the call began; under a narrower profile once pre-execute has chosen one
    call: Call
    printed: Printed
    stop: Stop
    clock: Clock
    tools: Registry  # the generation that was current when the call was taken
    current: Callable[[], Awaitable[LiveSession]]  # its session as it is now; raises RequestError
    began: str  # digest of the session's profile when the call was taken
    jobs: "Jobs"
    by: str | None = None  # the name of the principal that started it; None: the daemon itself
    place: Place = field(default_factory=Place)  # among the calls of its turn
    since_ms: int = 0  # when it was taken, milliseconds since 1970, UTC
    waits_for_worker: bool = False
    settled: asyncio.Event = field(default_factory=asyncio.Event)
    record: CallRecord | None = None  # what the ledger has of it; set before `settled`, None where it cannot record
    outcome: Outcome | None = None  # what it came to, once it is settled
    dispatched: bool = False  # the body may have run
    begun: asyncio.Event = field(default_factory=asyncio.Event)  # it is recorded that the body may have run
    worker: Worker | None = None  # that runs a command, while it does
    bound: "Bound | None" = None  # to what a yes to its arguments is bound
    card: Mapping[str, Json] | None = None  # the pending one, of the arguments as they stand; None: it cannot be shown
    task: asyncio.Task[None] | None = None

    async def outlive(self, durability: Durability) -> None:
        """Has what was printed outlive the daemon, as the ledger does: the next one may go on with this call. Raises
        InfrastructureFailure."""
        await self.printed.outlive()
        if durability == "power":
            await self.printed.sync()

    @property
    def stdout(self) -> Output:
        return self.printed.stdout

    @property
    def stderr(self) -> Output:
        return self.printed.stderr


@dataclass(frozen=True, slots=True)
class Services:
    """The rooms, as the stages use them."""

    ledger: Ledger
    pool: Pool
    approvals: Approvals
    tools: Generations
    describing: Describing
    outputs: Path  # a private directory for outputs that are too long for memory
    kept: Path  # a private directory for what commands changed, while somebody is asked about it
    areas: Areas
    durability: Durability  # what the ledger and those outputs survive
    pre_execute: Waterfall[Judged, PreDecision]
    by_profile: Listener[Judged, PreDecision]  # the outermost of these listeners, for profiles that others choose
    guards: Guards[Judged]
    execute: Waterfall[Judged, Outcome]
    edit_intent: IntentPoint[Intended]
    write_intent: IntentPoint[Intended]
    effects_intent: IntentPoint[Transaction]
    transaction_guards: Guards[Transaction]
    post_execute: Waterfall[Finished, PostDecision]


def printed_by(services: Services, live: LiveSession, call_id: str, stop: Stop, *, is_job: bool = False) -> Printed:
    """What a call of this session will print, kept as its profile says. is_job: it goes on in the background."""
    session = live.session
    limits = session.profile.limits
    return Printed(
        services.outputs,
        session.session_id,
        call_id,
        limits,
        lambda: stop.request("output"),
        is_job=is_job,
    )
