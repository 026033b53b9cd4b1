"""File work off the event loop, without losing what it made: a thread cannot be cancelled, only waited for."""

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any, TypeVar

T = TypeVar("T")


async def aside(work: Callable[[], T], *, undo: Callable[[T], object] | None = None) -> T:
    """The result of `work`, run in a thread. When the caller is cancelled meanwhile, `undo` gets the result."""
    running = asyncio.ensure_future(asyncio.to_thread(work))
    try:
        return await asyncio.shield(running)
    except asyncio.CancelledError:
        running.add_done_callback(lambda done: _dispose(done, undo))
        raise


async def finished(work: Coroutine[Any, Any, T]) -> T:
    """The result of `work`, which is finished even when the caller is cancelled; the cancellation follows then.

    For what must not stop half way: the caller's locks are held until it is over.
    """
    running = asyncio.ensure_future(work)
    try:
        return await asyncio.shield(running)
    except asyncio.CancelledError:
        while not running.done():
            try:
                await asyncio.wait([running])
            except asyncio.CancelledError:
                continue
        if not running.cancelled():
            running.exception()  # looked at, so that it is not reported as forgotten
        raise


def _dispose(done: "asyncio.Future[T]", undo: Callable[[T], object] | None) -> None:
    if done.cancelled() or done.exception() is not None or undo is None:
        return
    undo(done.result())
