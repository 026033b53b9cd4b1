"""The error tree of the client.

StockadeError
├── DaemonError            the daemon is not there, or does not answer as it should
│   ├── NoDaemon               nothing answers at the address
│   ├── NoAnswer               it stopped answering, and did not come back in time
│   ├── DaemonNotInstalled     a private daemon was wanted and its packages are missing
│   ├── DaemonStartFailed      a private daemon ended, or hung, before it listened
│   └── Incompatible           client and daemon speak different versions
├── Misused                used after its block, by two tasks at once, or without asyncio in a running event loop
└── RequestRefused         the daemon answered that it cannot take this request (a gRPC status)
    ├── InvalidRequest         ids, paths or a profile text that cannot be used
    ├── NotFound               no such session, call, profile or directory
    ├── AlreadyExists          the id stands for something else
    ├── NotPermitted           not this caller's to use
    ├── NotPossible            not in this state: a closed session, a draining daemon
    │   ├── AskAlreadyDecided      somebody answered before
    │   └── AskChanged             what was shown is no longer what would be done
    ├── Busy                   too many of its kind at once: repeat it later
    └── TooLarge               more bytes than a request may have

A call that was refused, failed or killed is not an error of the client: it is a CallResult whose `ok` is
false.
"""

from typing import ClassVar


class StockadeError(Exception):
    """Base of every error that the client raises on purpose."""


class DaemonError(StockadeError):
    """The daemon is not there, or does not answer as it should."""


class NoDaemon(DaemonError, ConnectionError):
    """Nothing answers at the address."""


class NoAnswer(DaemonError, ConnectionError):
    """The daemon stopped answering. What it had recorded is still there: repeat with the same ids."""


class DaemonNotInstalled(DaemonError):
    """A private daemon was wanted and the packages it needs are not installed."""


class DaemonStartFailed(DaemonError):
    """A private daemon ended, or hung, before it listened. The text has what it said."""


class Incompatible(DaemonError):
    """Client and daemon speak different versions of the protocol."""


class Misused(StockadeError, RuntimeError):
    """Something was used where it cannot be: after the block that it belongs to, by two tasks or threads at once, or
    stockade_client.sync where an event loop runs. The text says what to do instead."""


class RequestRefused(StockadeError):
    """The daemon cannot take this request.

    `status` is the name of a gRPC status, `code` a stable error code where one fits, else empty.
    """

    status: ClassVar[str] = "UNKNOWN"

    def __init__(self, message: str, *, code: str = "") -> None:
        super().__init__(message)
        self.message = message
        self.code = code


class InvalidRequest(RequestRefused, ValueError):
    """Ids, paths or a profile text that cannot be used. The text names the place and the remedy."""

    status = "INVALID_ARGUMENT"


class NotFound(RequestRefused, LookupError):
    """No such session, call, profile or directory."""

    status = "NOT_FOUND"


class AlreadyExists(RequestRefused):
    """The id already stands for something else."""

    status = "ALREADY_EXISTS"


class NotPermitted(RequestRefused, PermissionError):
    """Not this caller's to use."""

    status = "PERMISSION_DENIED"

    # PermissionError is an OSError, which would print its arguments as (errno, text).
    def __str__(self) -> str:
        return self.message


class NotPossible(RequestRefused):
    """Not in this state: a closed session, a draining daemon."""

    status = "FAILED_PRECONDITION"


class AskAlreadyDecided(NotPossible):
    """Somebody answered this ask before; the first valid answer stands."""


class AskChanged(NotPossible):
    """What was shown is no longer what would be done; the ask stays open and must be shown again."""


class TooLarge(RequestRefused):
    """More bytes than a request may have."""

    status = "RESOURCE_EXHAUSTED"


class Busy(RequestRefused):
    """Too many requests of this kind at once; the same one can be taken later."""

    status = "RESOURCE_EXHAUSTED"
