"""Running ripgrep: what it is given is data, its environment is fixed, and its output is read as it comes.

It is the worker's own child. Patterns stand behind `-e`, paths behind `--` and begin with `./` or `/`; no configuration
file is read, whatever the environment says.
"""

import os
import re
import signal
from collections.abc import Iterator, Sequence
from typing import NoReturn

from stockade_toolkit import ToolError
from stockade_worker.plan import PROGRAMS

PROGRAM = f"{PROGRAMS}/rg"
_CHUNK = 64 * 1024
_MOST_COMPLAINTS = 1024 * 1024  # bytes of them that are looked at
_ENVIRONMENT = {"LC_ALL": "C.UTF-8"}
_COMPLAINT = re.compile(rb"^rg: .*\(os error [0-9]+\)$", re.MULTILINE)
_MISSING = (
    "ripgrep, which searches, is not installed beside the daemon; install it into the daemon's environment "
    "(`pip install 'ripgrep>=14.1,<15'`), then open a new session"
)
_CLOSED = (
    "let everybody read and run the program `rg` of the daemon's environment (`chmod go+rx`), see that the profile "
    "shows the host's /lib, /lib64 and /usr, then open a new session"
)


class Ripgrep:
    """One run, as a context; leaving it ends the process. Raises ToolError where it cannot be started."""

    def __init__(self, arguments: Sequence[str | bytes]) -> None:
        if not os.path.exists(PROGRAM):
            raise ToolError("TOOL_FAILED", _MISSING)
        self._complaints = _nameless()
        self._output, writing = os.pipe2(os.O_CLOEXEC)
        self._status: int | None = None
        try:
            self._pid = os.posix_spawn(
                PROGRAM,
                ["rg", "--no-config", "--color=never", *arguments],
                _ENVIRONMENT,
                file_actions=[(os.POSIX_SPAWN_DUP2, writing, 1), (os.POSIX_SPAWN_DUP2, self._complaints, 2)],
                setsigdef=[signal.SIGPIPE, signal.SIGXFSZ],
            )
        except OSError as error:
            os.close(self._output)
            os.close(self._complaints)
            raise ToolError("TOOL_FAILED", f"ripgrep cannot be run: {error.strerror}; {_CLOSED}") from None
        finally:
            os.close(writing)

    def __enter__(self) -> "Ripgrep":
        return self

    def __exit__(self, *_: object) -> None:
        if self._status is None:
            os.kill(self._pid, signal.SIGKILL)
            os.waitpid(self._pid, 0)
        os.close(self._output)
        os.close(self._complaints)

    def read(self) -> bytes:
        """More of its output; nothing at the end."""
        return os.read(self._output, _CHUNK)

    def names(self) -> Iterator[bytes]:
        """Its output as names, each ended by NUL."""
        rest = b""
        while part := self.read():
            *whole, rest = (rest + part).split(b"\0")
            yield from whole

    def end(self) -> int:
        """Its exit status, when its output has been read to the end."""
        if self._status is None:
            _, status = os.waitpid(self._pid, 0)
            self._status = os.waitstatus_to_exitcode(status)
            if self._status < 0:
                _give_up()
        return self._status

    def complaints(self) -> bytes:
        """What it said on its standard error, as far as it is looked at."""
        return os.pread(self._complaints, _MOST_COMPLAINTS, 0)

    def unreadable(self) -> int:
        """How many files and directories it could not read."""
        return len(_COMPLAINT.findall(self.complaints()))


def _nameless() -> int:
    """A file without a name in the worker's own /tmp. Raises ToolError where that is full."""
    path = f"/tmp/.rg-{os.urandom(8).hex()}"
    try:
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
    except OSError as error:
        raise ToolError("TOOL_FAILED", f"no file can be made in /tmp: {error.strerror}; see the profile") from None
    os.unlink(path)
    return descriptor


def _give_up() -> NoReturn:
    """Ends without an answer when ripgrep was killed: what limit that was, the daemon knows and says."""
    os._exit(1)
