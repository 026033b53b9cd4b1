"""Requests that start workers outside of any session take turns: one at a time, a few wait, the rest is sent away.

Calls are bounded by their sessions and turns. These are not, so a client that asks for many at once would have the
host's processors, and its requests would keep everybody else's waiting.
"""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Final

from stockade_daemon.errors import Busy

WAITING: Final = 8  # a check takes a quarter of a second, a probe a few


class Turns:
    """Used on one event loop. Who goes away while it waits leaves its place."""

    def __init__(self) -> None:
        self._one = asyncio.Lock()
        self._here = 0

    @asynccontextmanager
    async def turn(self) -> AsyncIterator[None]:
        """Waits for its turn and has it while the block runs. Raises Busy where WAITING others wait."""
        if self._here > WAITING:
            raise Busy(
                "too many profiles are to be probed, tool files checked or hosts examined at once: one is under way "
                f"and {WAITING} wait; repeat it later"
            )
        self._here += 1
        try:
            async with self._one:
                yield
        finally:
            self._here -= 1
