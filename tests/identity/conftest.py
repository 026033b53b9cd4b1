"""A daemon that knows four principals by their tokens: two agents, an approver and an admin."""

import signal
import tempfile
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import AbstractAsyncContextManager, AsyncExitStack
from pathlib import Path

import pytest
import pytest_asyncio

from stockade_client import Daemon, connect
from stockade_daemon.rpc.tokens import make
from tests.end_to_end.stockaded import Stockaded
from tests.identity.people import ROLES, People


@pytest.fixture
def directory(scratch: Path) -> Path:
    return Path(tempfile.mkdtemp(dir=scratch))


@pytest.fixture
def stockaded(directory: Path, scratch: Path) -> Iterator[Stockaded]:
    """A daemon of this test, not started yet."""
    daemon = Stockaded(directory, workspaces=scratch)
    try:
        yield daemon
    finally:
        if daemon.process is not None:
            daemon.end(signal.SIGKILL)


@pytest.fixture
def people(directory: Path) -> People:
    tokens = directory / "tokens"
    tokens.mkdir(mode=0o700)
    return People(
        {name: make(tokens / name) for name in ROLES},
        {name: tokens / name for name in ROLES},
        directory / "work",
    )


@pytest.fixture
def knowing(stockaded: Stockaded, people: People) -> Stockaded:
    """The daemon with the four in its configuration, running."""
    for name in ("ann", "ben"):
        place = people.workspace(name)
        place.mkdir(parents=True)
        (place / "a.txt").write_text("one\n")
    stockaded.configuration.write_text(f"{stockaded.configuration.read_text()}{people.toml()}")
    stockaded.start()
    return stockaded


As = Callable[[str], AbstractAsyncContextManager[Daemon]]


@pytest.fixture
def connected(knowing: Stockaded, people: People) -> As:
    """`connected("ann")`: a connection with that one's token."""
    return lambda name: connect(knowing.address, people.tokens[name])


@pytest_asyncio.fixture
async def four(connected: As) -> AsyncIterator[dict[str, Daemon]]:
    """A connection of each."""
    async with AsyncExitStack() as connections:
        yield {name: await connections.enter_async_context(connected(name)) for name in ROLES}
