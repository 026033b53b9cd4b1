"""An event loop in a thread of its own, and how other threads wait for what it does.

Whoever waits is in charge: Ctrl-C and a deadline cancel the work on the loop, which takes back what it began, and the
error goes on once it has. A thread that waits is also lent out: what the loop wants done by the program (an ask that
somebody must answer) is done there, so that `input` reads the terminal as if the program had called it.
"""

import asyncio
import concurrent.futures
import os
import threading
import time
from collections import deque
from collections.abc import Callable, Coroutine, Iterator
from contextlib import AbstractAsyncContextManager, contextmanager, suppress
from contextvars import ContextVar
from types import TracebackType
from typing import Any, Generic, Self, TypeVar

from stockade_client.errors import Misused

T = TypeVar("T")

_ends_at: ContextVar[float | None] = ContextVar("ends_at", default=None)  # by time.monotonic


@contextmanager
def deadline(seconds: float) -> Iterator[None]:
    """Whatever waits in this block, in this thread, ends with TimeoutError after so many seconds.

    As after Ctrl-C, a call that was waited for is taken back first; what is closed on the way out is waited for. A
    deadline around this one counts as well.
    """
    outer, own = _ends_at.get(), time.monotonic() + seconds
    token = _ends_at.set(own if outer is None else min(own, outer))
    try:
        yield
    finally:
        _ends_at.reset(token)


class Errands:
    """What the loop wants done by a thread that waits for it."""

    def __init__(self) -> None:
        self._changed = threading.Condition()  # keeps the queue, and the looks at whether the work has ended
        self._queue: deque[Callable[[], None]] = deque()

    def put(self, errand: Callable[[], None]) -> None:
        """Has some thread run it: one that waits, or the next that does."""
        with self._changed:
            self._queue.append(errand)
            self._changed.notify_all()

    def run_until(self, ended: "concurrent.futures.Future[Any]", ends_at: float | None) -> None:
        """Runs errands until the future is done. Raises TimeoutError, and what an errand raises."""
        ended.add_done_callback(self._wake)
        while True:
            with self._changed:
                left = None if ends_at is None else ends_at - time.monotonic()
                if not self._changed.wait_for(lambda: ended.done() or bool(self._queue), left):
                    raise TimeoutError("the deadline has passed")
                if ended.done():
                    return
                errand = self._queue.popleft()
            errand()

    def _wake(self, _: object) -> None:
        with self._changed:
            self._changed.notify_all()


class _Work(Generic[T]):
    """A coroutine on the loop. `ended` is done when it has come to its end, whichever."""

    def __init__(self, loop: asyncio.AbstractEventLoop, function: Callable[[], Coroutine[Any, Any, T]]) -> None:
        self.ended: concurrent.futures.Future[asyncio.Task[T]] = concurrent.futures.Future()
        self._loop = loop
        self._function = function
        self._task: asyncio.Task[T] | None = None
        loop.call_soon_threadsafe(self._start)

    def cancel(self) -> None:
        """Safe to call when it has ended, and the loop with it."""
        with suppress(RuntimeError):
            self._loop.call_soon_threadsafe(self._cancel)

    def result(self) -> T:
        """Once it has ended. Raises what it raised, Misused where the loop ended before it."""
        try:
            return self.ended.result().result()
        except asyncio.CancelledError:
            raise Misused("the connection was closed while this was waited for; connect again") from None

    def _start(self) -> None:
        self._task = self._loop.create_task(self._function())
        self._task.add_done_callback(self.ended.set_result)

    def _cancel(self) -> None:
        if self._task is not None:
            self._task.cancel()


class Background:
    """The loop and its thread, for as long as the block runs; entered and left by the same thread, used by any."""

    def __init__(self) -> None:
        self._ready: concurrent.futures.Future[asyncio.AbstractEventLoop] = concurrent.futures.Future()
        # A program that is ended in the middle must not wait for it; the kernel closes what it had open.
        self._thread = threading.Thread(target=self._run, name="stockade-client", daemon=True)
        self._pid = os.getpid()
        self._closed = False
        self._end: asyncio.Event

    def __enter__(self) -> Self:
        _check_no_loop()
        self._thread.start()
        try:
            self._ready.result()
        except BaseException:
            self._ready.add_done_callback(self._stop)
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._closed = True
        self._ready.add_done_callback(self._stop)
        self._thread.join()

    @property
    def loop(self) -> asyncio.AbstractEventLoop:
        return self._ready.result()

    def wait(self, function: Callable[[], Coroutine[Any, Any, T]], errands: Errands) -> T:
        """What the coroutine of `function` returns or raises.

        Raises TimeoutError for a deadline of the calling thread, KeyboardInterrupt, or what an errand raised, when the
        coroutine was cancelled and has ended. Misused: in a thread with a running event loop, or after the block.
        """
        work = self._begin(function)
        _wait(work, errands, _ends_at.get())
        return work.result()

    @contextmanager
    def held(self, context: AbstractAsyncContextManager[T], errands: Errands) -> Iterator[T]:
        """The value of an asynchronous context manager, entered and left by one task of the loop.

        What it raises at its end is raised here; an error of the block is shown to it, and goes on.
        """
        entered: concurrent.futures.Future[T] = concurrent.futures.Future()
        leave: asyncio.Future[None] = self.loop.create_future()

        async def hold() -> None:
            async with context as value:
                entered.set_result(value)
                await leave

        work = self._begin(hold)
        work.ended.add_done_callback(lambda _: entered.cancel())
        try:
            errands.run_until(entered, _ends_at.get())
        except BaseException:
            work.cancel()
            _wait(work, Errands(), None)
            raise
        if entered.cancelled():
            work.result()
        try:
            yield entered.result()
        except BaseException as error:
            self.soon(_leave_with, leave, error)
            _wait(work, Errands(), None)
            outcome = None if (task := work.ended.result()).cancelled() else task.exception()
            if outcome is None or outcome is error:
                raise
            raise outcome from error
        self.soon(_leave, leave)
        _wait(work, Errands(), None)
        work.result()

    def soon(self, function: Callable[..., None], *arguments: object) -> None:
        """Has the loop call it; nothing where the loop is closed."""
        with suppress(RuntimeError):
            self.loop.call_soon_threadsafe(function, *arguments)

    def _begin(self, function: Callable[[], Coroutine[Any, Any, T]]) -> _Work[T]:
        _check_no_loop()
        if os.getpid() != self._pid:
            raise Misused("this connection belongs to the process that forked this one; connect again here")
        try:
            if not self._closed:
                return _Work(self.loop, function)
        except RuntimeError:
            pass  # it was closed this moment
        raise Misused("the block that this belongs to is over; use it inside of its `with`")

    def _run(self) -> None:
        try:
            with asyncio.Runner() as runner:
                runner.run(self._until_stopped())
        except BaseException as error:
            if self._ready.done():
                raise
            self._ready.set_exception(error)

    async def _until_stopped(self) -> None:
        self._end = asyncio.Event()
        self._ready.set_result(asyncio.get_running_loop())
        await self._end.wait()

    def _stop(self, ready: "concurrent.futures.Future[asyncio.AbstractEventLoop]") -> None:
        if ready.exception() is None:
            ready.result().call_soon_threadsafe(self._end.set)


def _wait(work: _Work[Any], errands: Errands, ends_at: float | None) -> None:
    try:
        errands.run_until(work.ended, ends_at)
    except BaseException:
        work.cancel()
        # A second Ctrl-C gets out of here at once: whoever insists need not wait.
        Errands().run_until(work.ended, None)
        raise


def _leave(leave: "asyncio.Future[None]") -> None:
    if not leave.done():
        leave.set_result(None)


def _leave_with(leave: "asyncio.Future[None]", error: BaseException) -> None:
    # Of the others, KeyboardInterrupt and SystemExit would end the loop, and no future takes a StopIteration.
    if leave.done():
        return
    if isinstance(error, Exception) and not isinstance(error, StopIteration):
        leave.set_exception(error)
    else:
        leave.cancel()


def _check_no_loop() -> None:
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return
    raise Misused(
        "stockade_client.sync waits in the calling thread, and this one runs an event loop, which would stand still, "
        "for ever where the answer has to come from it; await stockade_client.connect and its like here, or call this "
        "in another thread (asyncio.to_thread)"
    )
