"""The frozen values that pass between the stages. No behaviour, no imports of ours."""

import enum
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final, Literal, TypeAlias

# A JSON value as json_text.parse makes it: ints of any size, floats that are finite, dict order kept.
Json: TypeAlias = bool | int | float | str | Sequence["Json"] | Mapping[str, "Json"] | None

Decision: TypeAlias = Literal["allow", "ask", "deny"]
Effects: TypeAlias = Literal["commit", "ask", "discard"]


# What is recorded survives: a kill of the daemon, or a power cut too.
Durability: TypeAlias = Literal["process", "power"]


class Role(enum.StrEnum):
    """What somebody may do."""

    AGENT = "agent"  # sessions and calls of its own
    APPROVER = "approver"  # sees sessions of others, and answers their asks
    ADMIN = "admin"  # everything


@dataclass(frozen=True, slots=True)
class Principal:
    """Somebody on whose behalf a request is made; found out once for each."""

    name: str  # `uid:N`, or what the configuration calls it
    roles: frozenset[Role]
    answers_own: bool = False  # may answer what is asked about its own sessions
    approves: frozenset[str] = frozenset()  # as an approver: names of whose sessions; empty: everybody's
    uid: int | None = None  # on this host, where the kernel told it
    workspaces: tuple[str, ...] = ()  # at or below which it may open sessions; empty: what belongs to its uid


# The daemon itself: what it does of its own accord, and on behalf of what runs inside it.
ITSELF: Final = Principal("daemon", frozenset(Role), answers_own=True)


class Access(enum.StrEnum):
    """What a body can reach of the workspace."""

    NONE = "none"  # files only through the gate
    READ = "read"  # the workspace, mounted read-only
    OVERLAY = "overlay"  # a private writable view; its difference is what the call did


class Kind(enum.StrEnum):
    """What policy judges a tool as; picks the key of a profile's [approval]."""

    READ = "read"
    WRITE = "write"
    COMMAND = "command"


class Body(enum.StrEnum):
    """How a worker runs a tool."""

    FUNCTION = "function"  # a Python function with a request channel to the gate
    COMMAND = "command"  # an argument vector; the daemon reads its stdout, stderr and exit


@dataclass(frozen=True, slots=True)
class Module:
    """A Python module's source, as it was read."""

    name: str  # dotted
    package: bool
    text: bytes = field(repr=False)


@dataclass(frozen=True, slots=True)
class Code:
    """A custom tool's sources. What was read once is what was judged and what runs; it is never imported here."""

    origin: str  # for people: the file's path, or the distribution and its entry point
    stem: str  # its tools are named after it
    entry: str  # the module to import
    modules: tuple[Module, ...]
    digest: str  # SHA-256, lower-case hex, over names and texts


@dataclass(frozen=True, slots=True)
class PythonBody:
    """How a custom function is called."""

    code: Code
    index: int  # which of the functions that the sources declare
    files: str | None  # the parameter that is given the way to the workspace


@dataclass(frozen=True, slots=True)
class Part:
    """One element of a program's argument vector: texts and names of arguments in turn, put together as one argument.

    An element that is one name of a list gives one argument for each item.
    """

    pieces: tuple[tuple[Literal["text", "argument"], str], ...]
    given: str | None = None  # left out unless this argument is given, and is not false
    bare: bool = False  # it begins with an argument, where options are not over


@dataclass(frozen=True, slots=True)
class ProgramBody:
    """The program of a tool without Python."""

    argv: tuple[Part, ...]
    stdin: Part | None  # None: the program has no input
    defaults: Mapping[str, Json]  # of arguments that are left out
    dashes: frozenset[str]  # arguments whose text may begin with "-" where an option could stand


@dataclass(frozen=True, slots=True)
class Manifest:
    """A tool, as data. The daemon never imports a tool module."""

    name: str
    description: str
    input_schema: Mapping[str, Json]
    access: Access
    kind: Kind
    body: Body
    timeout_s: float
    parallel_safe: bool
    idempotent: bool
    output_bytes: int  # cap on the content for the model
    card_title: str  # template; {name} of an argument is replaced by its text
    observes: bool  # may tell the gate what it showed of a file
    output_schema: Mapping[str, Json] | None = None  # of the value; None: it may be any
    origin: str = "built-in"  # where a custom tool comes from
    custom: PythonBody | ProgramBody | None = None  # what runs; None: the built-in body of its name


@dataclass(frozen=True, slots=True)
class Limits:
    """Limits of one worker. Every figure is enforced by the kernel or by the daemon's clock; results say what was."""

    wall_s: float  # longest life of a call's body; the tool's own timeout may be shorter
    cpu_s: int  # RLIMIT_CPU of each process
    memory_mb: int  # memory and swap of all processes together, MiB
    processes: int  # RLIMIT_NPROC, counted in the worker's own user namespace
    open_files: int  # RLIMIT_NOFILE
    file_mb: int  # RLIMIT_FSIZE: largest file that a process may write, MiB
    tmp_mb: int  # size of /tmp, /var/tmp and /dev/shm together, MiB
    tmp_inodes: int  # names in them
    output_mb: int  # kept of stdout and of stderr, MiB
    output_past: Literal["truncate", "stop"]  # what becomes of a call that prints more
    cpus: float  # processors' worth of time that all processes together may use
    jobs: int  # background jobs of a session at one time; not of one worker
    job_s: float  # longest life of a background job, in place of `wall_s`


@dataclass(frozen=True, slots=True)
class Budget:
    """What a session may use in all of its calls."""

    calls: int
    seconds: int  # of bodies
    output_mb: int  # of results, MiB


@dataclass(frozen=True, slots=True)
class Approval:
    """What the profile allows, asks or refuses."""

    reads: Decision
    writes: Decision
    commands: Decision
    effects: Effects  # what becomes of what commands change
    wait_s: float  # how long an ask may wait for an approver to come; 0: not at all


# What of a network workers have: nothing, a loopback interface of their own, the host's.
Network: TypeAlias = Literal["none", "loopback", "host"]
# What commands have of the workspace: a private view that they may write, or the workspace as it is, read-only.
CommandsView: TypeAlias = Literal["overlay", "read"]


@dataclass(frozen=True, slots=True)
class Profile:
    """What a worker may do, and what is asked or refused. Read from TOML; the file is the manual."""

    name: str
    digest: str  # SHA-256, lower-case hex, of the file's bytes and of the digest of the profile that it extends
    source: str  # where it was read: a path, or the name that a client gave
    description: str
    system: tuple[str, ...]  # host paths mounted read-only at the same place; missing ones are left out
    mounts: tuple[str, ...]  # more of them; a missing one is an error
    hidden: tuple[str, ...]  # patterns of gate/patterns.py: names of the workspace that do not exist for the session
    protected: tuple[str, ...]  # the same: names that no commit touches
    scratch: tuple[str, ...]  # directories of the workspace in whose place commands have one that the session keeps
    workspace: CommandsView
    secrets: Mapping[str, str]  # name inside → the file on the host; what is in it is nowhere in the daemon
    network: Network
    syscalls: tuple[str, ...]  # names of groups of sandbox/syscalls.py that are allowed
    environment: Mapping[str, str]  # set for every body
    environment_pass: tuple[str, ...]  # names taken over from the daemon's environment when set there
    limits: Limits
    budget: Budget
    approval: Approval
    command_rules: tuple[str, ...]  # of policy/command_rules.py: what is not asked about where commands are
    required_layers: tuple[str, ...]  # without one of these, calls are refused with SANDBOX_UNAVAILABLE
    # From this profiles.restore makes the same profile again, whatever became of its files. The file's bytes, or all
    # files of a chain.
    text: bytes = field(repr=False)


@dataclass(frozen=True, slots=True)
class Session:
    """One agent's work on one workspace under one profile."""

    session_id: str
    workspace: str  # absolute, links resolved
    device: int  # of the workspace directory; with `inode` its identity
    inode: int
    profile: Profile
    approval_policy: Literal["ask", "never"]
    opened_ms: int
    principal: str = ITSELF.name  # whose it is


@dataclass(frozen=True, slots=True)
class Call:
    """One tool invocation; frozen before the first stage, the same for policy, body and record."""

    session_id: str
    call_id: str
    token: str  # minted by the daemon, never seen by a client or a body
    tool: str
    arguments_text: bytes  # JSON text as it came, or as pre-execute has rewritten it
    arguments: Mapping[str, Json]  # parsed once, deeply frozen
    digest: str  # SHA-256, lower-case hex, over tool and the text as it came: same id + same digest = same call
    parent: str | None = None  # the call that has started it
    background: bool = False  # it is a job, which goes on after its parent's end; policy was asked about that one


@dataclass(frozen=True, slots=True)
class Layer:
    """A sandbox layer, and whether it was in force."""

    name: str
    held: bool
    reason: str = ""


@dataclass(frozen=True, slots=True)
class Finding:
    """One thing that was asked of the host, and what follows from it."""

    name: str
    state: Literal["ok", "degraded", "missing"]
    found: str  # what the host said
    meaning: str  # for calls, one sentence
    remedy: str = ""  # a command or setting; empty where nothing is to be done, or nothing can be


@dataclass(frozen=True, slots=True)
class ProfileFinding:
    """What a worker of a shipped profile really got."""

    name: str
    state: Literal["ok", "degraded", "missing"]  # degraded: functions run and commands do not
    reason: str  # why not "ok"
    required: tuple[str, ...]  # layers
    layers: tuple[Layer, ...]  # of the worker that was made; empty where none could be


@dataclass(frozen=True, slots=True)
class Usage:
    wall_s: float = 0.0
    cpu_s: float = 0.0
    max_rss_bytes: int = 0  # largest memory of all processes together at one time
    read_bytes: int = 0  # from storage
    written_bytes: int = 0  # to storage
    source: Literal["", "cgroup", "sampled"] = ""  # where cpu_s and max_rss_bytes come from; empty: not measured


@dataclass(frozen=True, slots=True)
class Failure:
    code: str
    message: str
    domain: str
    retry: str


@dataclass(frozen=True, slots=True)
class Image:
    """A picture for the model."""

    mime: str  # image/png, image/jpeg, image/gif, image/webp
    data: bytes = field(repr=False)


@dataclass(frozen=True, slots=True)
class Outcome:
    """What a call came to. Frozen; stages return new ones."""

    value: Json = None
    has_value: bool = False
    content: tuple[str, ...] = ()  # text blocks for the model
    error: Failure | None = None
    layers: tuple[Layer, ...] = ()
    usage: Usage = field(default_factory=Usage)
    images: tuple[Image, ...] = ()  # for the model, after the text
    # What became of its effects, where its worker was ended from outside and nobody else can say, in the words of a
    # recovered call: `none (proven)`, `committed: PATH, …`.
    effects: str = ""
    context: tuple[str, ...] = ()  # for the agent, after all results of the turn; not a part of the result
    # Events of what the answer tells the agent, type and body: facts only where it gets that answer.
    learned: tuple[tuple[str, Mapping[str, Json]], ...] = ()

    @property
    def ok(self) -> bool:
        return self.error is None


@dataclass(frozen=True, slots=True)
class Event:
    """A recorded fact."""

    session_id: str
    seq: int
    type: str
    call_id: str  # empty for events of the session itself
    time_ms: int
    body: Mapping[str, Json]
    # Who caused it: of a call's, whoever started it; of an answer or an end, whoever gave it; `daemon` for what the
    # daemon did of its own accord. Empty: recorded before that was.
    principal: str = ITSELF.name
