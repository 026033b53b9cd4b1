"""A real `stockaded` on a real socket, and the command line as a person runs it."""

import signal
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TypeAlias

import pytest

from tests.end_to_end.stockaded import COMMAND_S, Stockaded


@pytest.fixture
def directory(scratch: Path) -> Path:
    return Path(tempfile.mkdtemp(dir=scratch))


@pytest.fixture
def workspace(directory: Path) -> Path:
    place = directory / "workspace"
    place.mkdir()
    (place / "a.txt").write_text("one\ntwo\nthree\n")
    return place


@contextmanager
def _ended(daemon: Stockaded) -> Iterator[Stockaded]:
    """Ends the daemon, however the test ends."""
    try:
        yield daemon
    finally:
        if daemon.process is not None:
            daemon.end(signal.SIGKILL)


@pytest.fixture
def stockaded(directory: Path, scratch: Path) -> Iterator[Stockaded]:
    """A daemon of this test, not started yet."""
    with _ended(Stockaded(directory, workspaces=scratch)) as daemon:
        yield daemon


@pytest.fixture(scope="session")
def shared(scratch: Path) -> Iterator[Stockaded]:
    """A running daemon for tests that leave it as it was."""
    with _ended(Stockaded(Path(tempfile.mkdtemp(dir=scratch)), workspaces=scratch)) as daemon:
        daemon.start()
        yield daemon
        assert daemon.end() == 0, daemon.log.read_text()


Stockade: TypeAlias = Callable[..., subprocess.CompletedProcess[str]]


@pytest.fixture
def stockade(workspace: Path, shared: Stockaded) -> Stockade:
    """`stockade(*arguments, daemon=None)`: the command in the workspace, without a terminal, with a running daemon."""

    def run(*arguments: str, daemon: Stockaded | None = None, stdin: str = "") -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [sys.executable, "-m", "stockade_client", *arguments],
            cwd=workspace,
            env=(daemon or shared).environment,
            input=stdin,
            capture_output=True,
            text=True,
            timeout=COMMAND_S,
            check=False,
        )

    return run
