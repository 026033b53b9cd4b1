"""What policy looks at: a frozen call in its session, the tool it names, and what it asks to change."""

from dataclasses import dataclass, field

from stockade_daemon.values import Call, Manifest, Outcome, Session


@dataclass(frozen=True, slots=True)
class Judged:
    """A call before it runs. Frozen, so no listener can change which call is judged, shown, executed and recorded."""

    session: Session
    call: Call
    manifest: Manifest


@dataclass(frozen=True, slots=True)
class Change:
    """A change of one file, exactly as it would be committed. It fits what the session has seen, and is not made."""

    path: str  # the file itself, links followed, relative to the workspace; printable text
    name: bytes  # the same as the file system spells it
    operation: str  # create, update
    before: str | None  # SHA-256 of the bytes, lower-case hex; None: nothing is there
    after: str  # the same, of what would be there
    size: int  # bytes afterwards
    added: int  # lines
    removed: int  # lines
    difference: str = field(repr=False)  # unified
    complete: bool  # false: the difference is cut, or the content is binary
    note: str  # what a person should know besides; may be empty


@dataclass(frozen=True, slots=True)
class Intended:
    """A change that a call's body asks for."""

    judged: Judged
    change: Change


@dataclass(frozen=True, slots=True)
class Transaction:
    """What is about to be committed for a call, all together: decided, and allowed by whoever was asked."""

    judged: Judged
    changes: tuple[Change, ...]


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
