"""Heartbeats of a stream: without them a reader cannot tell silence from a connection that is dead."""

import asyncio
from collections.abc import AsyncGenerator
from contextlib import aclosing, suppress
from typing import Final, TypeVar

_SHORTEST_S: Final = 0.1
_LONGEST_S: Final = 3600.0

T = TypeVar("T")


def pulse_of(heartbeat_s: float) -> float | None:
    """Seconds between heartbeats, within what is reasonable; None where none are asked for."""
    return min(max(heartbeat_s, _SHORTEST_S), _LONGEST_S) if heartbeat_s > 0 else None


async def beating(items: AsyncGenerator[T, None], pulse_s: float | None) -> AsyncGenerator[T | None, None]:
    """The items, and None at once and whenever none came for `pulse_s` seconds. Closes `items`."""
    async with aclosing(items):
        if pulse_s is None:
            async for item in items:
                yield item
            return
        yield None
        coming: asyncio.Task[T] | None = None
        try:
            while True:
                # A task, because a wait that is given up must not end the generator in the middle.
                coming = coming or asyncio.create_task(_next(items))
                done, _ = await asyncio.wait([coming], timeout=pulse_s)
                if not done:
                    yield None
                    continue
                try:
                    item = coming.result()
                except StopAsyncIteration:
                    return
                finally:
                    coming = None
                yield item
        finally:
            if coming is not None:
                coming.cancel()
                with suppress(asyncio.CancelledError, StopAsyncIteration):
                    await coming


async def _next(items: AsyncGenerator[T, None]) -> T:
    return await anext(items)
