"""What policy looks at: a frozen call in its session, and the tool it names."""

from dataclasses import dataclass

from stockade_daemon.values import Call, Manifest, Outcome, Session


@dataclass(frozen=True, slots=True)
class Judged:
    """A call before it runs. Frozen, so no listener can change which call is judged, shown, executed and recorded."""

    session: Session
    call: Call
    manifest: Manifest


@dataclass(frozen=True, slots=True)
class Finished:
    """A call and what it came to."""

    judged: Judged
    outcome: Outcome


@dataclass(frozen=True, slots=True)
class Settled:
    """What tools/result observers see: a call and its one outcome, just before it is recorded."""

    session: Session
    call: Call
    manifest: Manifest | None  # None: there is no such tool
    outcome: Outcome
