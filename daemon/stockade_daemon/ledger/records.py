"""The ledger's own rows as frozen values: sessions, calls, and calls that a stopped daemon left open."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal, TypeAlias

from stockade_daemon.values import ITSELF, Event, Json

SessionState: TypeAlias = Literal["open", "closed"]
CallState: TypeAlias = Literal["pending", "running", "settled"]


@dataclass(frozen=True, slots=True)
class SessionRecord:
    """A session; all that a restarted daemon needs to go on with it."""

    session_id: str
    workspace: str  # absolute, links resolved
    device: int  # of the workspace directory; with `inode` its identity
    inode: int
    profile_name: str
    profile_digest: str  # SHA-256, lower-case hex: Profile.digest
    profile_source: str  # a path, or the name that a client gave
    profile_text: bytes  # Profile.text, from which the same profile can be made again, whatever became of the files
    # The profile is what its name stands for, and may become another version; else it is the text that was given.
    profile_by_name: bool
    approval_policy: str  # ask | never
    state: SessionState
    opened_ms: int  # milliseconds since 1970, UTC
    last_seq: int = 0  # of the newest event; the ledger sets it, what a caller gives is ignored
    tools: tuple[str, ...] = ()  # those that the session offers; empty: all. Its first event has them
    principal: str = ITSELF.name  # whose it is; empty: it was opened before that was recorded
    on_copy: bool = False  # it works on a copy of the workspace, which ends with it. Its first event says so
    lease_s: float = 0.0  # seconds that it stays open without being opened again; 0: for good. Its first event has them
    closed_because: str = ""  # of its last event, which alone has it: why the daemon closed it unasked; else empty


@dataclass(frozen=True, slots=True)
class CallRecord:
    session_id: str
    call_id: str
    tool: str
    digest: str  # SHA-256, lower-case hex, over tool and arguments: a repeated start is compared with it
    state: CallState
    # The body of the call's tool/result event; None until it is settled. A value larger than
    # INLINE_VALUE_BYTES is not in it: Ledger.output(…, "value") has its JSON text.
    result: Mapping[str, Json] | None
    resolution: "Resolution | None" = None  # of a call whose outcome was unknown


@dataclass(frozen=True, slots=True)
class Resolution:
    """What somebody found out about a call whose outcome was unknown. Its result stays as it was recorded."""

    done: bool  # it did what it was to do
    note: str  # how that is known
    time_ms: int  # milliseconds since 1970, UTC


@dataclass(frozen=True, slots=True)
class Decision:
    """How an ask ended: the body of its approval/decided event, and whose it was."""

    session_id: str
    session_principal: str  # whose session it is; empty: it was opened before that was recorded
    body: Mapping[str, Json]
    principal: str  # who answered, or the daemon
    time_ms: int  # milliseconds since 1970, UTC


@dataclass(frozen=True, slots=True)
class Unsettled:
    """A call without a result, found when the ledger is opened: the daemon stopped while it was under way."""

    call: CallRecord
    profile_digest: str  # of the call's session, which may have become another one since the call began
    events: tuple[Event, ...]  # all that was recorded of the call, in order
