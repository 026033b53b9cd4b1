"""Frozen values about the daemon, its sessions, its tools and its ledger."""

from dataclasses import dataclass, field

from stockade_client.results import Json, Layer


@dataclass(frozen=True, slots=True)
class Caller:
    """Somebody, as the daemon knows him."""

    name: str = ""  # uid:N, or what the daemon's configuration calls him
    roles: tuple[str, ...] = ()  # agent | approver | admin
    answers_own_asks: bool = False  # may answer what is asked about his own sessions
    approves: tuple[str, ...] = ()  # as an approver, names of those whose sessions they are; empty: everybody's


@dataclass(frozen=True, slots=True)
class DaemonInfo:
    """What a daemon is and what it can do."""

    version: str
    protocol: str
    features: tuple[str, ...]
    layers: tuple[Layer, ...]  # in force for its workers under the strictest shipped profile
    uid: int
    kernel: str
    machine: str
    profiles: tuple[str, ...]  # names that a session can be opened with
    private: bool  # started by a client for its own lifetime
    caller: Caller = field(default_factory=Caller)  # whom the daemon takes this client for


@dataclass(frozen=True, slots=True)
class Finding:
    """One thing that the daemon asked of its host."""

    name: str  # stable, for example landlock
    state: str  # ok | degraded | missing
    found: str  # what the host said
    meaning: str  # for calls, one sentence
    remedy: str  # a command or setting; empty where nothing is to be done, or nothing can be


@dataclass(frozen=True, slots=True)
class ProfileFinding:
    """What a worker of a shipped profile really got."""

    name: str
    state: str  # ok | degraded: functions run and commands do not | missing: nothing runs
    reason: str  # why not ok
    required: tuple[str, ...]  # layers
    layers: tuple[Layer, ...]  # of the worker that was made; empty where none could be


@dataclass(frozen=True, slots=True)
class Examination:
    """What a daemon's host can enforce."""

    able: bool  # every shipped profile gets all layers that it requires
    findings: tuple[Finding, ...]
    profiles: tuple[ProfileFinding, ...]


@dataclass(frozen=True, slots=True)
class SessionInfo:
    """A session as the daemon knows it."""

    session_id: str
    workspace: str
    profile: str
    profile_digest: str  # SHA-256, lower-case hex, over the profile's text, what narrows it and what it extends
    approval_policy: str  # ask | never
    state: str  # open | closed
    opened_ms: int  # milliseconds since 1970, UTC
    last_seq: int
    tightening: str = ""  # TOML that narrows the profile for this session; empty: nothing does
    tools: tuple[str, ...] = ()  # names of those that it offers; empty: all
    principal: str = ""  # whose it is
    workspace_view: str = "itself"  # itself | copy: it works on a copy, which is gone with it
    lease_s: float = 0.0  # seconds after which it ends where its client is gone; 0: never


@dataclass(frozen=True, slots=True)
class CallUnderWay:
    """A call that has no result yet."""

    session_id: str
    call_id: str
    tool: str
    state: str  # pending | running; "state N" where a newer daemon has another
    turn_id: str  # empty: a call alone
    since_ms: int  # when it was taken, or its turn was where its place has not come; milliseconds since 1970, UTC
    waits_for: str  # turn (calls before it) | approval | worker; empty: it is being judged, or runs
    ask_id: str  # of the approval
    parent: str = ""  # of a background job: the call that has started it
    card: dict[str, Json] = field(default_factory=dict)  # the pending one: title, view, and what the view has


@dataclass(frozen=True, slots=True)
class Tool:
    """A tool that the daemon offers."""

    name: str
    description: str  # for the model
    input_schema: dict[str, Json]  # JSON Schema
    access: str  # none | read | overlay
    kind: str  # read | write | command
    timeout_s: float
    parallel_safe: bool  # bodies of one turn may overlap
    idempotent: bool  # running it twice is the same as once
    output_bytes: int  # cap on the content given to the model
    card_title: str  # what a card says of a call; {name} stands for the argument's text
    observes: bool  # it may tell the gate what it showed of a file
    origin: str  # built-in, or FILE:LINE
    output_schema: dict[str, Json] | None  # of the value of a call that succeeds; None: the tool does not say


@dataclass(frozen=True, slots=True)
class RefusedTools:
    """A tool file that the daemon cannot use as it is."""

    reason: str  # FILE:LINE: what is wrong; what to do
    kept: tuple[str, ...]  # names of its tools of before, which stay


@dataclass(frozen=True, slots=True)
class ProfileMeaning:
    name: str
    description: str
    fault: str  # why it cannot be used; empty where it can


@dataclass(frozen=True, slots=True)
class ErrorMeaning:
    code: str
    domain: str
    retry: str  # safe | unsafe | never
    meaning: str
    of_tools: bool  # a tool's body may give it for itself


@dataclass(frozen=True, slots=True)
class EventMeaning:
    type: str
    meaning: str
    version: int  # of the bodies that this daemon gives


@dataclass(frozen=True, slots=True)
class Catalog:
    """All that a daemon offers, as data."""

    generation: int  # of the tools; 1 is the built-in ones alone
    tools: tuple[Tool, ...]
    refused: tuple[RefusedTools, ...]
    profiles: tuple[ProfileMeaning, ...]
    errors: tuple[ErrorMeaning, ...]
    events: tuple[EventMeaning, ...]


@dataclass(frozen=True, slots=True)
class CheckedTools:
    """What a tool file declares, or why it cannot be used."""

    tools: tuple[Tool, ...]
    fault: str  # NAME:LINE: what is wrong; what to do. Empty where nothing is


@dataclass(frozen=True, slots=True)
class Event:
    """A recorded fact of a session."""

    session_id: str
    seq: int  # 1, 2, 3 … without gaps, per session
    type: str  # for example tool/call
    call_id: str  # empty for events of the session itself
    time_ms: int  # milliseconds since 1970, UTC
    body: dict[str, Json]
    version: int = 1  # of the body's shape, by type
    principal: str = ""  # who caused it; "daemon": nobody else; empty: recorded by a daemon that did not know
