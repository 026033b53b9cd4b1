"""The session `s` of a daemon that may end meanwhile, its asks and its calls, for tests through the wire."""

import asyncio
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path

from stockade_client import Call, CallResult, Daemon, connect
from stockade_client.approvals import Ask
from stockade_client.session import Session
from tests.end_to_end.stockaded import COMMAND_S, Stockaded


def start_with(stockaded: Stockaded, profiles: Mapping[str, str]) -> Stockaded:
    """Starts the daemon with these profiles: TOML by name."""
    place = stockaded.directory / "profiles"
    place.mkdir()
    for name, text in profiles.items():
        (place / f"{name}.toml").write_text(text)
    with stockaded.configuration.open("a") as configuration:
        configuration.write(f'[profiles]\npaths = ["{place}"]\n')
    stockaded.start()
    return stockaded


@asynccontextmanager
async def opened(served: Stockaded, workspace: Path, profile: str = "asking") -> AsyncIterator[tuple[Daemon, Session]]:
    """A session that stays open when the client goes."""
    async with connect(served.address) as daemon:
        session = daemon.session(workspace, profile, id="s")
        yield daemon, await session.__aenter__()


async def asked(daemon: Daemon) -> Ask:
    """The first ask that waits."""
    async with asyncio.timeout(COMMAND_S), daemon.approvals("s") as asks:
        return await anext(asks)


async def result_of(daemon: Daemon, call_id: str = "c") -> CallResult:
    """What a call has come to, or comes to."""
    async with asyncio.timeout(COMMAND_S):
        return await Call(daemon._link, "s", call_id, "").result()


def code(result: CallResult) -> str:
    """Of its error; `ok` without one."""
    return result.error.code if result.error else "ok"
