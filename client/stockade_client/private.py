"""A private daemon: started by a client, for its own lifetime.

It reads from a pipe, its lifeline, of which the client holds the other end. When the client dies, however it
dies, the daemon sees the end of file, stops its workers and removes its directory.
"""

import asyncio
import contextlib
import importlib.util
import os
import sys
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from typing import Final

from stockade_client.errors import DaemonNotInstalled, DaemonStartFailed, NoAnswer
from stockade_client.private_directory import SOCKET, private_directory

READY_S: Final = 30.0  # it imports grpc and builds a sandbox; a busy small machine takes a few seconds
# It kills its workers, removes what it made for them and closes the ledger: far below a second, but on a host with a
# load of fifty. Killed before it is done, it leaves control groups and directories for the next one to remove.
STOP_S: Final = 30.0
TERMINATE_S: Final = 15.0
SAID_BYTES: Final = 4000  # of the daemon's log, shown when it did not start

# The packages of the daemon's extra. They are looked for, never imported here.
_NEEDED: Final = (
    *("stockade_daemon", "grpc_health", "grpc_reflection"),
    *("jsonschema_rs", "pyseccomp", "watchfiles"),
)


@asynccontextmanager
async def local_daemon(
    config: str | os.PathLike[str] | None = None, state: str | os.PathLike[str] | None = None
) -> AsyncIterator[str]:
    """Starts a private daemon and gives its address; when the block ends it is gone, and so is all that it
    kept.

    config: a stockade.toml. state: a directory for the ledger, which then outlives the daemon.

    Raises DaemonNotInstalled, or DaemonStartFailed with what the daemon said.
    """
    _check_installed()
    with private_directory() as (directory, lock), _log(directory) as log, _lifeline() as (reading, release):
        command = _command(directory, reading, config, state)
        process = await asyncio.create_subprocess_exec(
            *command,
            stdin=asyncio.subprocess.DEVNULL,
            stdout=asyncio.subprocess.PIPE,
            stderr=log,
            pass_fds=(reading, lock),
            # Its directory would be kept from being unmounted; and python puts nothing of it on its path.
            cwd="/",
            env=_environment(),
            # Ctrl-C at the terminal reaches the whole foreground group; the daemon must live to settle the
            # call.
            start_new_session=True,
        )
        try:
            address = await _ready(process, log, " ".join(command))
            try:
                yield address
            except NoAnswer as error:
                if process.returncode is not None:
                    error.add_note(f"the private daemon ended (status {process.returncode}): {_said(log)}")
                raise
        finally:
            release()
            await _gone(process)


def _check_installed() -> None:
    missing = [name for name in _NEEDED if importlib.util.find_spec(name) is None]
    if missing:
        raise DaemonNotInstalled(
            f"a private daemon needs packages that are not installed ({', '.join(missing)}): install "
            "stockade[daemon], or set STOCKADE_ADDRESS to a running daemon's address"
        )


def _command(
    directory: str,
    lifeline: int,
    config: str | os.PathLike[str] | None,
    state: str | os.PathLike[str] | None,
) -> list[str]:
    command = [
        sys.executable,
        "-P",  # a workspace that holds a grpc.py must not be imported from
        *("-m", "stockade_daemon", "serve"),
        *("--socket", os.path.join(directory, SOCKET)),
        *("--state", os.path.abspath(state) if state is not None else os.path.join(directory, "state")),
        *("--private", directory),
        *("--lifeline", str(lifeline)),
    ]
    if config is not None:
        command += ["--config", os.path.abspath(config)]
    return command


def _environment() -> dict[str, str]:
    """Ours, with a PYTHONPATH that means the same from another directory."""
    environment = dict(os.environ)
    path = environment.get("PYTHONPATH")
    if path:
        # In a directory that was deleted a relative part means nothing, here or there.
        with contextlib.suppress(FileNotFoundError):
            environment["PYTHONPATH"] = os.pathsep.join(os.path.abspath(part) for part in path.split(os.pathsep))
    return environment


@contextmanager
def _lifeline() -> Iterator[tuple[int, "_Release"]]:
    reading, writing = os.pipe2(os.O_CLOEXEC)
    release = _Release(writing)
    try:
        yield reading, release
    finally:
        release()
        os.close(reading)


class _Release:
    """Lets go of the lifeline, once."""

    def __init__(self, descriptor: int) -> None:
        self._descriptor: int | None = descriptor

    def __call__(self) -> None:
        if self._descriptor is not None:
            os.close(self._descriptor)
            self._descriptor = None


@contextmanager
def _log(directory: str) -> Iterator[int]:
    """Where the daemon's log goes: the terminal belongs to the command that is run."""
    flags = os.O_RDWR | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC
    descriptor = os.open(os.path.join(directory, "daemon.log"), flags, 0o600)
    try:
        yield descriptor
    finally:
        os.close(descriptor)


def _said(log: int) -> str:
    size = os.fstat(log).st_size
    text = os.pread(log, SAID_BYTES, max(0, size - SAID_BYTES)).decode("utf-8", "replace").strip()
    return text or "it said nothing"


async def _ready(process: asyncio.subprocess.Process, log: int, command: str) -> str:
    """The address in the line that the daemon prints when it listens."""
    if process.stdout is None:
        raise DaemonStartFailed("the private daemon was started without a pipe; this is a fault of the client")
    try:
        async with asyncio.timeout(READY_S):
            line = await process.stdout.readline()
    except TimeoutError:
        raise DaemonStartFailed(
            f"the private daemon was not ready after {READY_S:g} s: {_said(log)}\nit was started with: {command}"
        ) from None
    word, _, address = line.decode("utf-8", "replace").strip().partition(" ")
    if word == "ready" and address:
        return address.split()[0]
    # Its end of the pipe closes a moment before it can be waited for.
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(STOP_S):
            await process.wait()
    raise DaemonStartFailed(f"the private daemon ended before it was ready (status {process.returncode}): {_said(log)}")


async def _gone(process: asyncio.subprocess.Process) -> None:
    """Returns when the daemon has ended: by itself after its lifeline, or by a signal, or killed."""
    for insist, seconds in ((None, STOP_S), (process.terminate, TERMINATE_S), (process.kill, None)):
        if process.returncode is None and insist is not None:
            with contextlib.suppress(ProcessLookupError):
                insist()
        try:
            async with asyncio.timeout(seconds):
                await process.wait()
            return
        except TimeoutError:
            continue
