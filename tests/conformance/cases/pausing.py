"""Pausing a daemon at a named point of a call: the daemon says that it is there, and goes on when it is told.

The daemon's side is paused_daemon.py, which is given the socket in its environment.
"""

import asyncio
import re
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Final

from tests.conformance.cases.daemons import CaseDaemon
from tests.conformance.cases.verdicts import Fails, Missing

MODULE: Final = "tests.conformance.cases.paused_daemon"
SOCKET: Final = "STOCKADE_CASES_PAUSE"
POINT: Final = "STOCKADE_CASES_POINT"

# Words of the corpus, and the points that paused_daemon.py knows.
_POINTS: Final = (
    (re.compile(r"\b(commit|rename|publish)"), "publishing"),
    (re.compile(r"\bapproval and (spawn|dispatch|exec)"), "approved"),
)


def point_of(words: str) -> str:
    """Raises Missing for a point that no daemon here can be paused at."""
    for pattern, point in _POINTS:
        if pattern.search(words):
            return point
    raise Missing(f"a way to pause the daemon {words!r}")


def variables(daemon_directory: str, words: str) -> dict[str, str]:
    """Of the environment of a daemon that is to be paused."""
    return {SOCKET: f"{daemon_directory}/pause", POINT: point_of(words)}


@asynccontextmanager
async def paused_once(daemon: CaseDaemon, meanwhile: Callable[[], Awaitable[None]]) -> AsyncIterator[None]:
    """Has `meanwhile` run when the daemon first comes to its point within the block.

    Raises Fails where it never came there, and what `meanwhile` raises.
    """
    loop = asyncio.get_running_loop()
    passed: asyncio.Future[None] = loop.create_future()

    async def met(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            await reader.readline()
            if not passed.done():
                await meanwhile()
                passed.set_result(None)
        except BaseException as error:
            if not passed.done():
                passed.set_exception(error)
        finally:
            writer.close()  # the daemon goes on at the end of the stream

    server = await asyncio.start_unix_server(met, daemon.environment[SOCKET])
    async with server:
        yield
    if not passed.done():
        raise Fails(f"the daemon never came to the point {daemon.environment[POINT]!r}")
    passed.result()
