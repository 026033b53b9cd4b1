"""An engine with listeners of a test's own around real workers, and what its ledger says."""

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from stockade_daemon.app import services_of
from stockade_daemon.gate.copies import Copies
from stockade_daemon.ledger.ledger import Ledger
from stockade_daemon.pipeline.context import Services
from stockade_daemon.pipeline.engine import Engine
from stockade_daemon.pipeline.opening import Opening
from stockade_daemon.pipeline.rules import Rules
from stockade_daemon.pipeline.sessions import Sessions
from stockade_daemon.profiles import read as profiles
from stockade_daemon.sandbox.pool import Pool


@dataclass(frozen=True, slots=True)
class Tried:
    """Session s under profile dev, on a workspace with a.txt."""

    engine: Engine
    ledger: Ledger

    async def story(self, *types: str) -> list[str]:
        """`TYPE CALL` of the events of these types, in order, with all that was noted so far."""
        await self.ledger.append("s", "policy/guards")  # durable behind what was noted
        events = await self.ledger.read("s")
        return [f"{each.type} {each.call_id}" for each in events if each.type in types]

    async def code(self, call_id: str) -> str:
        """What the call came to."""
        record, _ = await self.engine.wait("s", call_id, 60)
        assert record.result is not None, record
        error: Any = record.result.get("error")
        return str(error["code"]) if error else "ok"


@asynccontextmanager
async def an_engine(place: Path, listen: Callable[[Services], object]) -> AsyncIterator[Tried]:
    """`listen` adds the listeners."""
    state, workspace = place / "state", place / "workspace"
    for each in (state, state / "outputs", workspace):
        each.mkdir(mode=0o700)
    (workspace / "a.txt").write_text("one\n")
    rules = Rules(private=True, workspaces=(), profile_directories=(profiles.shipped(),), own=(state,))
    async with Ledger.open(str(state / "ledger")) as ledger, Pool.start(state) as pool:
        sessions = Sessions(ledger, pool, rules, Copies(state / "copies"))
        services = services_of(ledger, pool, state / "outputs")
        listen(services)
        async with Engine.start(services, sessions, [], grace_s=0) as engine:
            await sessions.open(Opening("s", str(workspace), "dev", None, "ask"))
            yield Tried(engine, ledger)
        sessions.close()
