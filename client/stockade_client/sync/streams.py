"""Streams for a thread: an iterator over what an asynchronous one gives."""

import asyncio
from collections.abc import Callable
from types import TracebackType
from typing import Any, Generic, Self, TypeVar

from stockade_client import link
from stockade_client.errors import Misused
from stockade_client.sync.background import Background, Errands

Item = TypeVar("Item")


class Stream(Generic[Item]):
    """Items as they come: an iterator that is also a context manager.

    Iterated to its end it closes itself; whoever may stop earlier holds it in `with`. Ctrl-C, or a deadline, while it
    waits for an item ends it. One thread iterates; any may close it, which ends the iteration.
    """

    def __init__(
        self, background: Background, errands: Errands, source: "link.Stream[Any]", wrap: Callable[[Any], Item]
    ) -> None:
        self._background = background
        self._errands = errands
        self._source = source
        self._wrap = wrap
        self._closed = False
        self._reading: asyncio.Task[Any] | None = None  # belongs to the loop

    def __iter__(self) -> Self:
        return self

    def __next__(self) -> Item:
        items = () if self._closed else self._background.wait(self._next, self._errands)
        if not items:
            raise StopIteration
        return self._wrap(items[0])

    def close(self) -> None:
        """Ends the stream in the daemon too. Safe to repeat."""
        if not self._closed:
            self._background.wait(self._close, Errands())

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    async def _next(self) -> tuple[Any, ...]:
        """One item; none at the end. On the loop, like what follows."""
        if self._reading is not None:
            raise Misused("another thread is iterating over this stream; give each thread a stream of its own")
        self._reading = asyncio.current_task()
        try:
            return (await anext(self._source),)
        except StopAsyncIteration:
            self._closed = True
            return ()
        except asyncio.CancelledError:
            if self._closed:
                return ()  # by another thread
            raise
        finally:
            self._reading = None

    async def _close(self) -> None:
        self._closed = True
        if self._reading is not None:
            self._reading.cancel()
            await asyncio.wait([self._reading])
        await self._source.aclose()
