"""A private daemon and a client for the tests of calls."""

import tempfile
from collections.abc import AsyncIterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio

from stockade_client import Daemon, connect, local_daemon
from stockade_client.session import Session
from stockade_daemon import json_text
from stockade_daemon.app import services_of
from stockade_daemon.gate.copies import Copies
from stockade_daemon.ledger.ledger import Ledger
from stockade_daemon.pipeline.context import Services
from stockade_daemon.pipeline.engine import Engine
from stockade_daemon.pipeline.observe import Observer
from stockade_daemon.pipeline.opening import Opening
from stockade_daemon.pipeline.rules import Rules
from stockade_daemon.pipeline.sessions import Sessions
from stockade_daemon.profiles import read as profiles
from stockade_daemon.registry import Registry
from stockade_daemon.sandbox.pool import Pool
from stockade_daemon.values import Event

HANG_S = 30.0
ALLOWING = """
extends = "dev"
widen = ["approval.writes", "approval.effects"]
approval.writes = "allow"
approval.effects = "commit"
"""
DISCARDING = 'extends = "dev"\napproval.effects = "discard"\n'
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
    """A session under profile dev, but that nothing of a command's is kept; nobody is there to approve."""
    profile = workspace.parent / f"{workspace.name}.toml"
    profile.write_text(DISCARDING)
    async with daemon.session(workspace=workspace, profile=profile) as session:
        yield session


@pytest_asyncio.fixture
async def asking(daemon: Daemon, workspace: Path) -> AsyncIterator[Session]:
    """A session whose commands and writes wait for somebody."""
    profile = workspace.parent / f"{workspace.name}.toml"
    profile.write_text(ASKING)
    async with daemon.session(workspace=workspace, profile=profile) as session:
        yield session


@dataclass(slots=True)
class Staged:
    """An engine with a real ledger and real workers, to whose extension points a test adds what it likes. Beside the
    built-in tools it has `any`: `shell`, with a value that may be any.

    Its session "s" allows everything; with `settings`, TOML of a profile, it is another one.
    """

    engine: Engine
    ledger: Ledger
    services: Services
    workspace: Path
    observers: list[Observer]

    async def call(self, call_id: str, tool: str, **arguments: Any) -> Any:
        """The body of its tool/result event."""
        return await self.call_json(call_id, tool, json_text.dump(arguments))

    async def call_json(self, call_id: str, tool: str, text: bytes) -> Any:
        await self.engine.begin("s", call_id, tool, text)
        record, _ = await self.engine.wait("s", call_id, HANG_S)
        assert record.result is not None
        return record.result

    async def events(self, call_id: str) -> list[Event]:
        return await self.ledger.read("s", call_id=call_id)

    async def types(self, call_id: str) -> list[str]:
        return [event.type for event in await self.events(call_id)]

    async def body(self, call_id: str, type: str) -> Mapping[str, Any]:
        """Of the one event of this type."""
        (found,) = [event.body for event in await self.events(call_id) if event.type == type]
        return found


@pytest.fixture
def settings() -> str:
    return ""


@pytest_asyncio.fixture
async def staged(tmp_path: Path, settings: str) -> AsyncIterator[Staged]:
    state, workspace = tmp_path / "state", tmp_path / "workspace"
    for place in (state, state / "outputs", workspace):
        place.mkdir(mode=0o700)
    (workspace / "a.txt").write_text("one\n")
    rules = Rules(private=True, workspaces=(), profile_directories=(profiles.shipped(),), own=(state,))
    async with Ledger.open(str(state / "ledger")) as ledger, Pool.start(state) as pool:
        services = services_of(ledger, pool, state / "outputs")
        services.tools.succeed([replace(Registry.load().find("shell"), name="any", output_schema=None)], [])
        observers: list[Observer] = []
        sessions = Sessions(ledger, pool, rules, Copies(state / "copies"))
        async with Engine.start(services, sessions, observers, grace_s=0) as engine:
            await sessions.open(Opening("s", str(workspace), "mine", f"{ALLOWING}{settings}".encode(), "ask"))
            yield Staged(engine, ledger, services, workspace, observers)
        sessions.close()
