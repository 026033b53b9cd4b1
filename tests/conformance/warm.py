"""The command line, warm: `stockade` in a child of a process that has imported it already.

Starting Python and importing gRPC costs most of a short call. A suite of two hundred calls cannot pay that each time,
so this process imports once and forks for each command; a command is the same code with the same arguments,
descriptors, environment and terminal. Run as a program: `warm.py SOCKET`; ends when standard input does.

A client sends one JSON object {argv, directory, terminal} with its three descriptors, and gets back a line with
the pid and a line with the exit status, as subprocess numbers it.
"""

import array
import contextlib
import fcntl
import json
import os
import select
import signal
import socket
import subprocess
import sys
import termios
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, Final, NoReturn

_MOST: Final = 1 << 16  # bytes of a request


def main() -> None:
    import grpc.aio  # noqa: F401 - what every command imports

    from stockade_client import __main__ as command_line

    signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # nobody waits for handlers
    with socket.socket(socket.AF_UNIX) as listening:
        listening.bind(sys.argv[1])
        listening.listen(64)
        print("ready", flush=True)
        while True:
            ready, _, _ = select.select([listening.fileno(), 0], [], [])
            if listening.fileno() not in ready:
                return
            connection, _ = listening.accept()
            with connection:
                if os.fork() == 0:
                    listening.close()
                    _handle(connection, command_line)


def _handle(connection: socket.socket, command_line: Any) -> NoReturn:
    """Forks the command, tells its pid, waits for it, tells its status."""
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    data, ancillary, _, _ = connection.recvmsg(_MOST, socket.CMSG_SPACE(12))
    given = array.array("i")
    for _, _, rights in ancillary:
        given.frombytes(rights)
    request = json.loads(data)
    child = os.fork()
    if child == 0:
        connection.close()
        _become(command_line, request, given)
    for descriptor in given:
        os.close(descriptor)
    connection.sendall(f"{child}\n".encode())
    _, status = os.waitpid(child, 0)
    with contextlib.suppress(OSError):
        connection.sendall(f"{os.waitstatus_to_exitcode(status)}\n".encode())
    os._exit(0)


def _become(command_line: Any, request: dict[str, Any], given: Sequence[int]) -> NoReturn:
    for number, descriptor in enumerate(given):
        os.dup2(descriptor, number)
    os.chdir(request["directory"])
    if request["terminal"]:
        os.setsid()
        fcntl.ioctl(0, termios.TIOCSCTTY, 0)
    sys.argv = ["stockade", *request["argv"]]
    status: Any = 1
    try:
        command_line.main()
        status = 0
    except SystemExit as end:
        status = end.code
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(status if isinstance(status, int) else 0 if status is None else 1)


class Command:
    """A command under way, with the part of subprocess.Popen's interface that the runner uses."""

    def __init__(self, connection: socket.socket) -> None:
        self._connection = connection
        self._lines = connection.makefile("rb")
        self.pid = int(self._lines.readline())

    def wait(self, timeout: float | None = None) -> int:
        """The exit status. Raises subprocess.TimeoutExpired."""
        self._connection.settimeout(timeout)
        try:
            line = self._lines.readline()
        except TimeoutError:
            # A file over a socket cannot be read again after a timeout.
            self._lines = self._connection.makefile("rb")
            raise subprocess.TimeoutExpired("stockade", timeout or 0) from None
        self._lines.close()
        self._connection.close()
        return int(line)

    def kill(self) -> None:
        with contextlib.suppress(ProcessLookupError):
            os.kill(self.pid, signal.SIGKILL)


class Warm:
    """The client's side."""

    def __init__(self, place: str) -> None:
        self._place = place

    def start(self, argv: list[str], descriptors: tuple[int, int, int], *, directory: str, terminal: bool) -> Command:
        connection = socket.socket(socket.AF_UNIX)
        connection.connect(self._place)
        request = json.dumps({"argv": argv, "directory": directory, "terminal": terminal}).encode()
        rights = (socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", descriptors))
        connection.sendmsg([request], [rights])
        return Command(connection)


@contextlib.contextmanager
def warm(place: Path, environment: dict[str, str]) -> Iterator[Warm]:
    """The warm command line on a socket at `place`, until the block ends."""
    with subprocess.Popen(
        [sys.executable, __file__, str(place)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        env=environment,
        umask=0,
    ) as process:
        assert process.stdout is not None
        if process.stdout.readline() != b"ready\n":
            raise RuntimeError("the warm command line did not start; its own words are above")
        yield Warm(str(place))


if __name__ == "__main__":
    main()
