"""The error tree of the daemon.

StockadeError
├── Refusal             the call ends with a result that says so: a stable code, a message, the remedy
│   ├── PolicyRefusal       profile, rule, guard or person said no
│   ├── GateRefusal         the workspace says no: FS_*
│   ├── ArgumentsRefusal    the arguments do not fit
│   ├── ToolFailure         the body itself failed
│   ├── SandboxFailure      the sandbox could not be made, or broke
│   ├── DeadlineReached     the tool's own time is up
│   ├── Aborted             the caller took it back
│   └── InfrastructureFailure  disk, ledger, a worker killed from outside
├── RequestError        the request could not be taken at all; rpc/wire.py maps it to a gRPC status
│   └── Busy                too many of its kind at once: later it can
├── ExtensionFailed     a plugin's listener or guard broke; pipeline/run.py makes the call's end of it
└── ConfigurationError  a profile or configuration file is faulty; names file, line and the nearest valid key

ShutDirectory is a PermissionError of the file system that has the remedy with it.

Anything else is a bug and is reported as one.
"""

import errno
import shlex
from dataclasses import dataclass
from typing import ClassVar, Final

# The stable codes, and for each: domain, whether repeating is safe. meanings.py explains them;
# a test keeps the two lists equal.
CODES: Final[dict[str, tuple[str, str]]] = {
    "INVALID_ARGS": ("arguments", "never"),
    "UNKNOWN_TOOL": ("arguments", "never"),
    "DENIED": ("policy", "never"),
    "APPROVAL_REJECTED": ("policy", "never"),
    "APPROVAL_UNAVAILABLE": ("policy", "safe"),
    "APPROVAL_EXPIRED": ("policy", "safe"),
    "APPROVAL_MISMATCH": ("policy", "safe"),
    "APPROVAL_DECIDED": ("policy", "never"),
    "HOOK_FAILED": ("policy", "safe"),
    "TOOL_TIMEOUT": ("deadline", "unsafe"),
    "TOOL_FAILED": ("tool", "unsafe"),
    "ABORTED": ("unknown", "unsafe"),
    "ABORTED_BEFORE_DISPATCH": ("unknown", "safe"),
    "TOOL_NOT_STARTED": ("infrastructure", "safe"),
    "TOOL_OUTCOME_UNKNOWN": ("unknown", "unsafe"),
    "INVALID_TOOL_OUTPUT": ("tool", "unsafe"),
    "OUTPUT_LIMIT": ("tool", "unsafe"),
    "RESOURCE_LIMIT": ("tool", "unsafe"),
    "SANDBOX_UNAVAILABLE": ("sandbox", "never"),
    "SANDBOX_FAILED": ("sandbox", "safe"),
    "CODE_RUN_FAILED": ("tool", "unsafe"),
    "SEARCH_INVALID_PATTERN": ("arguments", "never"),
    "FS_NOT_OBSERVED": ("policy", "safe"),
    "FS_PARTIAL_OBSERVATION": ("policy", "safe"),
    "FS_STALE_VERSION": ("policy", "safe"),
    "FS_CONFLICT": ("policy", "safe"),
    "FS_NOT_FOUND": ("tool", "never"),
    "FS_EXISTS": ("tool", "never"),
    "FS_EDIT_NOT_FOUND": ("arguments", "never"),
    "FS_AMBIGUOUS_EDIT": ("arguments", "never"),
    "FS_NOT_TEXT": ("tool", "never"),
    "FS_NOT_UTF8": ("tool", "never"),
    "FS_NOT_REGULAR_FILE": ("tool", "never"),
    "FS_IS_DIRECTORY": ("tool", "never"),
    "FS_NOT_DIRECTORY": ("tool", "never"),
    "FS_SYMLINK_LOOP": ("tool", "never"),
    "FS_NAME_TOO_LONG": ("arguments", "never"),
    "FS_OUTSIDE_WORKSPACE": ("policy", "never"),
    "FS_PROTECTED": ("policy", "never"),
    "FS_PERMISSION_DENIED": ("tool", "never"),
    "FS_TOO_LARGE": ("arguments", "never"),
    "FS_PATCH_INVALID": ("arguments", "never"),
    "FS_PATCH_CONFLICT": ("tool", "never"),
    "FS_IO_ERROR": ("infrastructure", "unsafe"),
}

# Of these, the ones that a tool's body may give for itself. Others are the daemon's word: a body repeats them only
# after the daemon has said them in this call.
OF_TOOLS: Final = frozenset(
    {
        "INVALID_ARGS", "TOOL_FAILED", "FS_EDIT_NOT_FOUND", "FS_AMBIGUOUS_EDIT", "FS_NOT_TEXT", "FS_NOT_UTF8",
        "SEARCH_INVALID_PATTERN", "FS_PATCH_INVALID", "FS_PATCH_CONFLICT", "FS_IO_ERROR",
    }
)  # fmt: skip


class StockadeError(Exception):
    """Base of every error that the daemon raises on purpose."""


class Refusal(StockadeError):
    """Ends a call with an error result. `code` is one of CODES; `message` is one sentence plus the remedy."""

    domain: ClassVar[str | None] = None

    def __init__(self, code: str, message: str) -> None:
        if code not in CODES:
            raise ValueError(f"{code!r} is not one of the stable error codes")
        super().__init__(message)
        self.code = code
        self.message = message


class PolicyRefusal(Refusal):
    """Profile, rule, guard or person said no: the body is skipped."""


class GateRefusal(Refusal):
    """The gate refused a path, a read or an intent; nothing was changed."""


class ArgumentsRefusal(Refusal):
    """The arguments are not lossless JSON, or do not fit the tool's schema."""


class ToolFailure(Refusal):
    """The body failed, or answered something that is not an answer."""


class SandboxFailure(Refusal):
    """A worker could not be made with the layers that the profile requires, or its sandbox broke."""


class DeadlineReached(Refusal):
    """The tool's clock ran out; its whole process tree has been killed."""


class Aborted(Refusal):
    """The caller, a stopping session or a draining daemon ended the call."""


class InfrastructureFailure(Refusal):
    """Something under the daemon failed: the disk, the ledger, a worker killed from outside."""

    domain = "infrastructure"  # whatever the code's is: no tool is answerable for it


class RequestError(StockadeError):
    """A request that could not be taken. `status` is the name of a gRPC status, for example NOT_FOUND."""

    def __init__(self, status: str, message: str, *, code: str = "") -> None:
        super().__init__(message)
        self.status = status
        self.message = message
        self.code = code  # a stable code of CODES where one fits, else empty


class Busy(RequestError):
    """Too many requests of this kind at once: the same one can be taken later."""

    def __init__(self, message: str) -> None:
        super().__init__("RESOURCE_EXHAUSTED", message)


class ExtensionFailed(StockadeError):
    """A registered listener or guard raised, or answered something that is no answer. It never counts as an allow."""

    def __init__(self, owner: str, stage: str, what: str) -> None:
        super().__init__(f"{owner or 'an extension'} failed at {stage}: {what}")
        self.owner = owner  # a plugin's name; empty: not known
        self.stage = stage


@dataclass(frozen=True, slots=True)
class Mistake:
    """One thing that is wrong in a file, and where."""

    source: str  # a path, or the name that a client gave
    line: int  # from 1
    column: int  # in characters, from 1
    reason: str  # what is wrong; what is right

    def __str__(self) -> str:
        return f"{self.source}:{self.line}:{self.column}: {self.reason}"


class ConfigurationError(StockadeError):
    """A profile or configuration file that cannot be used.

    The text reads `file:line:column: what is wrong; what to do`, and is that of the first mistake where several were
    found: `mistakes` has them all, in the file's order. It is empty for what is not a mistake within a file.
    """

    def __init__(self, first: "str | Mistake", *more: Mistake) -> None:
        super().__init__(str(first))
        self.mistakes = (first, *more) if isinstance(first, Mistake) else ()


class ShutDirectory(PermissionError):
    """A directory of the workspace that this user cannot look into, though a worker might: its owner may change the
    mode in a view of his own. The text names it and says what to do. `own`: it belongs to this user."""

    def __init__(self, directory: bytes, *, own: bool) -> None:
        text = directory.decode("utf-8", "backslashreplace") or "."
        name = text if text.isprintable() else text.encode("unicode_escape").decode("ascii")
        whose = "" if own else "its owner has to "
        self.text = (
            f"the mode of {name} in the workspace does not let the daemon's user look into that directory; "
            f"{whose}run `chmod {'u' if own else 'o'}+rx {shlex.quote(name)}` there, then repeat the call"
        )
        super().__init__(errno.EACCES, self.text, directory)

    def __str__(self) -> str:
        return self.text
