"""A real private daemon for the client's tests, and the command line as a person runs it."""

import os
import subprocess
import sys
import tempfile
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import TypeAlias

import pytest
import pytest_asyncio

from stockade_client import Daemon, connect, local_daemon
from stockade_client.demo.prepare import NotPrepared, fetch, prepare
from stockade_client.link import Link, opened
from tests.client.served import Served

Stockade: TypeAlias = Callable[..., subprocess.CompletedProcess[bytes]]
COMMAND_S = 60.0  # a hang detector


@pytest_asyncio.fixture(scope="package", loop_scope="session")
async def address() -> AsyncIterator[str]:
    """One private daemon for all tests of the client."""
    async with local_daemon() as address:
        yield address


@pytest_asyncio.fixture
async def daemon(address: str) -> AsyncIterator[Daemon]:
    async with connect(address) as daemon:
        yield daemon


@pytest.fixture
def workspace(scratch: Path) -> Path:
    """A small directory to work on."""
    directory = Path(tempfile.mkdtemp(prefix="workspace-", dir=scratch))
    (directory / "a.txt").write_text("one\ntwo\nthree\n")
    (directory / "b.txt").write_text("bee\n")
    return directory


@pytest.fixture
def environment(address: str) -> dict[str, str]:
    """The environment of a command that uses the tests' daemon."""
    return {**os.environ, "STOCKADE_ADDRESS": address}


@pytest.fixture
def stockade(environment: dict[str, str], workspace: Path) -> Stockade:
    """`stockade(*arguments)`: the command in the workspace, without a terminal, against the tests' daemon."""

    def run(
        *arguments: str, stdin: bytes = b"", env: dict[str, str] | None = None
    ) -> subprocess.CompletedProcess[bytes]:
        return subprocess.run(
            [sys.executable, "-m", "stockade_client", *arguments],
            cwd=workspace,
            env=environment if env is None else env,
            input=stdin,
            capture_output=True,
            timeout=COMMAND_S,
            check=False,
        )

    return run


@pytest_asyncio.fixture
async def link() -> AsyncIterator[Link]:
    """A link that nobody answers, for values that only carry one."""
    async with opened("unix:/nowhere/daemon.sock", None) as link:
        yield link


@pytest_asyncio.fixture(scope="session", loop_scope="session")
async def archive(scratch: Path) -> Path:
    """The demo's archive, fetched once."""
    try:
        return await fetch(scratch / "cache")
    except NotPrepared as error:
        pytest.skip(f"the package index cannot be reached: {error}")


@pytest_asyncio.fixture
async def prepared(archive: Path, scratch: Path) -> Path:
    """A fresh workspace of the demo."""
    workspace = Path(tempfile.mkdtemp(prefix="demo-", dir=scratch))
    await prepare(workspace, archive.parent)
    return workspace


@pytest.fixture
def served(scratch: Path, workspace: Path) -> Served:
    directory = scratch / workspace.name.replace("workspace", "served")
    directory.mkdir(mode=0o700)
    return Served(directory, workspace)
