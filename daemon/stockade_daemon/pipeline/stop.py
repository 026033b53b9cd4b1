"""Stopping a call: one request, the first cause wins, and a clock that stands while a person thinks."""

import asyncio
import math
from collections.abc import Coroutine, Iterator
from contextlib import contextmanager
from typing import Any, Literal, TypeAlias, TypeVar

T = TypeVar("T")

Cause: TypeAlias = Literal["cancelled", "closing", "lease", "draining", "deadline", "output"]


class Stopped(Exception):
    """The call was asked to stop before what was awaited was done."""

    def __init__(self, cause: Cause) -> None:
        super().__init__(cause)
        self.cause = cause


class Stop:
    """Asks a call to stop. Nobody is interrupted in the middle of a commit."""

    def __init__(self) -> None:
        self.requested = asyncio.Event()
        self.cause: Cause | None = None
        self.by: str | None = None  # the principal that requested it; None: nobody but the daemon

    def request(self, cause: Cause, by: str | None = None) -> None:
        """The first cause stays: a deadline that fires after a cancel changes nothing."""
        if self.cause is None:
            self.cause, self.by = cause, by
            self.requested.set()

    def check(self) -> None:
        if self.cause is not None:
            raise Stopped(self.cause)

    async def race(self, work: Coroutine[Any, Any, T]) -> T:
        """The result of `work`, or Stopped as soon as a stop is requested; `work` is then cancelled and awaited."""
        task = asyncio.ensure_future(work)
        waiter = asyncio.ensure_future(self.requested.wait())
        try:
            await asyncio.wait({task, waiter}, return_when=asyncio.FIRST_COMPLETED)
            if task.done():
                return task.result()
            assert self.cause is not None
            raise Stopped(self.cause)
        finally:
            for each in (task, waiter):
                if not each.done():
                    each.cancel()
            # Waits for `task`, which may have a commit to finish; what it raises now no longer counts.
            await asyncio.gather(task, waiter, return_exceptions=True)


class Clock:
    """The body's own time, in seconds."""

    def __init__(self, stop: Stop) -> None:
        self._stop = stop
        self._loop = asyncio.get_running_loop()
        self._started: float | None = None
        self._spent = 0.0
        self._limit = math.inf
        self.reason = ""  # whose limit it is
        self._timer: asyncio.TimerHandle | None = None

    def limit(self, seconds: float, reason: str) -> None:
        """Requests a stop for `deadline` when the clock has run that long; `reason` says whose limit it is."""
        self._limit = seconds
        self.reason = f"{seconds:g} s ({reason})"

    @contextmanager
    def running(self) -> Iterator[None]:
        """The body has its job: its time passes."""
        self._go()
        try:
            yield
        finally:
            self._halt()

    @contextmanager
    def paused(self) -> Iterator[None]:
        """The clock stands: somebody else's time passes."""
        running = self._started is not None
        self._halt()
        try:
            yield
        finally:
            if running:
                self._go()

    @property
    def spent(self) -> float:
        return self._spent + (self._loop.time() - self._started if self._started is not None else 0.0)

    def _go(self) -> None:
        self._started = self._loop.time()
        if self._limit < math.inf:
            self._timer = self._loop.call_later(max(0.0, self._limit - self._spent), self._stop.request, "deadline")

    def _halt(self) -> None:
        if self._started is not None:
            self._spent += self._loop.time() - self._started
            self._started = None
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
