"""What stages share: the rooms' services, a live session, a call under way."""

import asyncio
from dataclasses import dataclass, field
from pathlib import Path

from stockade_daemon.gate.gate import Gate
from stockade_daemon.gate.workspace import Workspace
from stockade_daemon.ledger.ledger import Ledger
from stockade_daemon.ledger.records import CallRecord
from stockade_daemon.pipeline.describe import Describing
from stockade_daemon.pipeline.output import Output
from stockade_daemon.pipeline.stop import Clock, Stop
from stockade_daemon.policy.approvals import Approvals
from stockade_daemon.policy.decisions import PostDecision, PreDecision
from stockade_daemon.policy.guards import Guards
from stockade_daemon.policy.subjects import Finished, Judged
from stockade_daemon.policy.waterfall import Waterfall
from stockade_daemon.registry.generations import Generations
from stockade_daemon.sandbox.pool import Pool
from stockade_daemon.values import Call, Manifest, Outcome, Session


@dataclass(frozen=True, slots=True)
class LiveSession:
    """An open session with what it holds."""

    session: Session
    workspace: Workspace
    gate: Gate


@dataclass(slots=True)
class CallUnderWay:
    """A recorded call without a result. Changed by its own task alone; others wait for `settled` or request a stop."""

    live: LiveSession
    call: Call
    stdout: Output
    stderr: Output
    stop: Stop
    clock: Clock
    settled: asyncio.Event = field(default_factory=asyncio.Event)
    record: CallRecord | None = None  # what the ledger has of it; set before `settled`, None where it cannot record
    dispatched: bool = False  # the body may have run
    task: asyncio.Task[None] | None = None


@dataclass(frozen=True, slots=True)
class Dispatch:
    """The subject of tools/execute."""

    judged: Judged
    under_way: CallUnderWay

    @property
    def manifest(self) -> Manifest:
        return self.judged.manifest


@dataclass(frozen=True, slots=True)
class Services:
    """The rooms, as the stages use them."""

    ledger: Ledger
    pool: Pool
    approvals: Approvals
    tools: Generations
    describing: Describing
    outputs: Path  # a private directory for outputs that are too long for memory
    pre_execute: Waterfall[Judged, PreDecision]
    guards: Guards
    execute: Waterfall[Dispatch, Outcome]
    post_execute: Waterfall[Finished, PostDecision]
