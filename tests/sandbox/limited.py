"""Engines with limits small enough to be met, for the tests of limits and of usage."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from stockade_daemon import json_text
from stockade_daemon.app import services_of
from stockade_daemon.gate.copies import Copies
from stockade_daemon.ledger.ledger import Ledger
from stockade_daemon.pipeline import function
from stockade_daemon.pipeline.engine import Engine
from stockade_daemon.pipeline.opening import Opening
from stockade_daemon.pipeline.rules import Rules
from stockade_daemon.pipeline.sessions import Sessions
from stockade_daemon.profiles import read as profiles
from stockade_daemon.sandbox import library, plan
from stockade_daemon.sandbox.pool import Pool

PROFILE = """
[filesystem]
tmp_mb = 8
tmp_inodes = 128
[limits]
wall_s = 20
cpu_s = {cpu_s}
memory_mb = {memory_mb}
processes = 64
open_files = 64
file_mb = 4
output_mb = 1
cpus = 2.0
"""


@dataclass(frozen=True, slots=True)
class Limited:
    """Two sessions, `s` and `other`, of one engine."""

    engine: Engine
    ledger: Ledger

    async def call(self, call_id: str, tool: str, session: str = "s", seconds: float = 30, **arguments: Any) -> Any:
        """The result of a call, as it is recorded."""
        await self.engine.begin(session, call_id, tool, json_text.dump(arguments))
        record, _ = await self.engine.wait(session, call_id, seconds)
        assert record.result is not None, "there is no result in time"
        value = await self.ledger.output(session, call_id, "value")  # where it is long
        return record.result if value is None else {**record.result, "value": json_text.parse(value, max_bytes=1 << 24)}

    async def beside(self, call_id: str, tool: str, **arguments: Any) -> tuple[Any, int]:
        """The same, and how many calls of the other session were answered meanwhile. Each has to be."""
        call = asyncio.create_task(self.call(call_id, tool, **arguments))
        answered = 0
        while not call.done():
            result = await self.call(f"{call_id}-{answered}", "shell", "other", 15, command="echo here")
            assert result["ok"], result
            assert result["value"]["stdout"] == "here\n"
            answered += 1
        return await call, answered


@asynccontextmanager
async def limited(place: Path, *, cgroups: bool, memory_mb: int = 128, cpu_s: int = 1) -> AsyncIterator[Limited]:
    """The built-in function `read` is replaced by bodies/read.py; commands are what they are."""
    state, workspace = place / "state", place / "workspace"
    for directory in (state, state / "outputs", workspace):
        directory.mkdir(mode=0o700)
    packages = {**library.packages(), "bodies": str(Path(__file__).parent / "bodies")}
    text = PROFILE.format(memory_mb=memory_mb, cpu_s=cpu_s).encode()
    rules = Rules(private=True, workspaces=(), profile_directories=(profiles.shipped(),), own=(state,))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(library, "packages", lambda: packages)
        patch.setattr(plan, "MODULES", ())
        patch.setattr(function, "_MODULES", "bodies")
        async with Ledger.open(str(state / "ledger")) as ledger, Pool.start(state, cgroups=cgroups) as pool:
            sessions = Sessions(ledger, pool, rules, Copies(state / "copies"))
            async with Engine.start(services_of(ledger, pool, state / "outputs"), sessions, [], grace_s=0) as engine:
                for name in ("s", "other"):
                    await sessions.open(Opening(name, str(workspace), "", text, "ask"))
                yield Limited(engine, ledger)
            sessions.close()
