"""Probes in the process of a function's body: what a tool's author could do without starting a program."""

import asyncio
import contextlib
import threading
import time
from collections.abc import Coroutine, Iterator, Sequence
from concurrent.futures import Future
from typing import Any, Final, TypeVar

from stockade_client import Daemon, connect
from stockade_client.session import Session
from stockade_worker import landlock
from tests.conformance.calling import LIMIT_S, Ended
from tests.conformance.daemon import PROFILE, daemon
from tests.conformance.planting import Plant
from tests.conformance.probes import Probe
from tests.conformance.processes import end_those_with
from tests.everybodys_python import everybodys_python

T = TypeVar("T")

IN_PLACE: Final = "function-in-place"
TOOLS: Final = {"function-none": "blind", "function-read": "looking", IN_PLACE: "blind"}
# A function asks the gate for files: it has no workspace to write to, so what comes of an attempt is the verdict.
_PREAMBLE: Final = """
import sys
def _refused(kind, error, trace):
    import os, errno
    said = 'HELD refused ' + errno.errorcode.get(error.errno, '?') + ' ' + str(error)
    os.write(1, said.encode('utf-8', 'replace')[:200] + b'\\n')
    os._exit(0)
try:
    exec(compile(PROGRAM, 'probe', 'exec'), globals())
except OSError as error:
    hook = _refused if sys.excepthook is sys.__excepthook__ else sys.excepthook
    hook(type(error), error, None)
"""


def lacking_in_place() -> str:
    """What this host lacks for workers without namespaces; empty: nothing."""
    if landlock.abi() < landlock.SCOPES_ABI:
        return f"Landlock of ABI {landlock.SCOPES_ABI}, which scopes signals"
    try:
        everybodys_python()
    except FileNotFoundError as error:
        return str(error)
    return ""


class Loop:
    """An event loop in a thread of its own, for callers that are threads."""

    def __init__(self) -> None:
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, daemon=True)

    def run(self, work: Coroutine[Any, Any, T]) -> T:
        future: Future[T] = asyncio.run_coroutine_threadsafe(work, self._loop)
        return future.result()

    @contextlib.contextmanager
    def running(self) -> Iterator["Loop"]:
        self._thread.start()
        try:
            yield self
        finally:
            self._loop.call_soon_threadsafe(self._loop.stop)
            self._thread.join()
            self._loop.close()

    @contextlib.contextmanager
    def entered(self, context: "contextlib.AbstractAsyncContextManager[T]") -> Iterator[T]:
        """An asynchronous context, entered and left on the loop, by one task: scopes of tasks want that."""
        ready: Future[T] = Future()
        leave = asyncio.Event()

        async def hold() -> None:
            try:
                async with context as value:
                    ready.set_result(value)
                    await leave.wait()
            except BaseException as error:
                if not ready.done():
                    ready.set_exception(error)
                raise

        holding = asyncio.run_coroutine_threadsafe(hold(), self._loop)
        try:
            yield ready.result()
        finally:
            self._loop.call_soon_threadsafe(leave.set)
            holding.result()


@contextlib.contextmanager
def client(address: str) -> Iterator[tuple[Loop, Daemon]]:
    """A connection that threads can use."""
    with Loop().running() as loop, loop.entered(connect(address)) as connected:
        yield loop, connected


class FunctionDoor:
    def __init__(self, name: str, plant: Plant, loop: Loop, session: Session, *, output_cap: int) -> None:
        self.name = name
        self.output_cap = output_cap
        self._plant = plant
        self._loop = loop
        self._session = session

    def call(self, program: str, probe: Probe) -> Ended:
        return self._loop.run(self._call(f"PROGRAM = {program!r}\n{_PREAMBLE}"))

    async def _call(self, program: str) -> Ended:
        begun = time.monotonic()
        late = False
        call = await self._session.start(TOOLS[self.name], program=program)
        try:
            async with asyncio.timeout(LIMIT_S):
                result = await call.result()
        except TimeoutError:
            late = True
            result = await call.withdraw() or await call.result()
            end_those_with(self._plant.orphan())
        out = b""
        async with call.output(follow=False) as pieces:
            async for piece in pieces:
                out += piece
        return Ended(
            code=None if result.error is not None else 0,
            out=out.decode("utf-8", "replace"),
            err=str(result.error or ""),
            received=len(out),
            late=late,
            seconds=time.monotonic() - begun,
        )


@contextlib.contextmanager
def function_door(name: str, plant: Plant, profile: str, *, lacking: Sequence[str] = ()) -> Iterator[FunctionDoor]:
    """A daemon with the probes' bodies, and a session for them; in-place on a host that refuses user namespaces."""
    lacking = [*lacking, *(["user_namespaces"] if name == IN_PLACE else [])]
    with (
        daemon(plant, profile, module="tests.conformance.daemon_with_bodies", lacking=lacking) as running,
        client(running.address) as (loop, connected),
        loop.entered(connected.session(workspace=str(plant.workspace), profile=PROFILE)) as session,
    ):
        yield FunctionDoor(name, plant, loop, session, output_cap=running.output_mb << 20)
