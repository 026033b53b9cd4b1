"""A private daemon and a client for the tests of calls."""

import tempfile
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
import pytest_asyncio

from stockade_client import Daemon, connect, local_daemon
from stockade_client.session import Session

ASKING = """
[approval]
reads = "allow"
writes = "ask"
commands = "ask"
wait_s = 600
"""


@pytest_asyncio.fixture(scope="package", loop_scope="session")
async def address() -> AsyncIterator[str]:
    async with local_daemon() as address:
        yield address


@pytest_asyncio.fixture
async def daemon(address: str) -> AsyncIterator[Daemon]:
    async with connect(address) as daemon:
        yield daemon


@pytest.fixture
def workspace(scratch: Path) -> Path:
    place = Path(tempfile.mkdtemp(dir=scratch))
    (place / "a.txt").write_text("one\ntwo\nthree\n")
    return place


@pytest_asyncio.fixture
async def session(daemon: Daemon, workspace: Path) -> AsyncIterator[Session]:
    """A session under profile dev in which nobody is there to approve."""
    async with daemon.session(workspace=workspace, profile="dev") as session:
        yield session


@pytest_asyncio.fixture
async def asking(daemon: Daemon, workspace: Path) -> AsyncIterator[Session]:
    """A session whose commands and writes wait for somebody."""
    profile = workspace.parent / f"{workspace.name}.toml"
    profile.write_text(ASKING)
    async with daemon.session(workspace=workspace, profile=profile) as session:
        yield session
