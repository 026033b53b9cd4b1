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
