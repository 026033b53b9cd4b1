"""`stockaded` in which somebody is killed at a named point of a call; everything else is the product's own.

    python -m tests.faults.daemon FAULT serve …        FAULT is POINT:VICTIM:NTH, or nothing at all

Says on standard output whom it killed: `killed VICTIM`. A point is passed when a call comes to it, whichever call.
"""

import asyncio
import os
import signal
import sys
from collections.abc import Awaitable, Callable
from typing import Any, Final

from stockade_daemon.__main__ import main
from stockade_daemon.gate import gate, publish
from stockade_daemon.gate.gate import Gate
from stockade_daemon.ledger.ledger import Ledger
from stockade_daemon.pipeline import function, run
from stockade_daemon.policy.approvals import Approvals
from stockade_daemon.sandbox.channel import FrameChannel
from stockade_daemon.sandbox.mounter import Mounter
from stockade_daemon.sandbox.room import Room
from tests.faults.points import POINTS, Fault

_KEPT: Final = 64  # pidfds of processes that were there


class Injector:
    """Counts how often its point is passed, and kills once."""

    def __init__(self, fault: Fault | None) -> None:
        self._fault = fault
        self._passed = 0
        self._pidfds: dict[str, list[int]] = {"zygote": [], "mounter": [], "worker": []}

    def note(self, kind: str, pidfd: int) -> None:
        """A process that may be killed; a descriptor of it that is ours."""
        known = self._pidfds[kind]
        known.append(pidfd)
        if len(known) > _KEPT:
            os.close(known.pop(0))

    def passed(self, point: str) -> None:
        if self._fault is None or self._fault.point != point:
            return
        self._passed += 1
        # Where none of the victims is there, the next one to pass finds one.
        if self._passed >= self._fault.nth and self._kill(self._fault.victim):
            self._fault = None

    def _kill(self, victim: str) -> bool:
        if victim == "daemon":
            os.write(1, b"killed daemon\n")
            os.kill(os.getpid(), signal.SIGKILL)
        for pidfd in reversed(self._pidfds[victim]):
            try:
                signal.pidfd_send_signal(pidfd, signal.SIGKILL)
            except ProcessLookupError:
                continue
            os.write(1, f"killed {victim}\n".encode())
            return True
        return False


def _after(owner: Any, name: str, then: Callable[..., object]) -> None:
    """Has `then` called with the result and the arguments when the coroutine function is over, if it returns."""
    real: Callable[..., Awaitable[Any]] = getattr(owner, name)

    async def replacement(*arguments: Any, **named: Any) -> Any:
        result = await real(*arguments, **named)
        then(result, *arguments, **named)
        return result

    setattr(owner, name, replacement)


def _before(owner: Any, name: str, first: Callable[..., object]) -> None:
    real: Callable[..., Awaitable[Any]] = getattr(owner, name)

    async def replacement(*arguments: Any, **named: Any) -> Any:
        first(*arguments, **named)
        return await real(*arguments, **named)

    setattr(owner, name, replacement)


def install(injector: Injector) -> None:
    """Replaces the functions at whose beginning or end the points are."""

    def at(point: str) -> Callable[..., None]:
        assert point in POINTS
        return lambda *_, **__: injector.passed(point)

    _after(Ledger, "start_call", at("recorded"))
    _after(run, "pre_execute", at("decided"))
    _before(Approvals, "_wait", at("asked"))
    _before(Ledger, "dispatched", at("worker taken"))
    _after(Ledger, "dispatched", at("dispatched"))
    _after(Gate, "read", at("read opened"))
    _after(Gate, "decide", at("intent decided"))
    _before(Ledger, "settle", at("before settle"))
    _after(Ledger, "settle", at("after settle"))

    def sent(result: object, channel: object, header: dict[str, Any], *_: object, **__: object) -> None:
        if header.get("type") in ("function", "command"):
            injector.passed("job sent")

    _after(FrameChannel, "send", sent)

    def appended(result: object, ledger: object, session_id: str, type: str, *_: object, **__: object) -> None:
        point = {"fs/begun": "begun", "fs/committed": "committed recorded"}.get(type)
        if point is not None:
            injector.passed(point)

    _after(Ledger, "append", appended)

    def published(*arguments: Any) -> str:
        happened = publish.publish(*arguments)
        injector.passed("published")
        return happened

    gate.publish = published  # type: ignore[assignment,attr-defined]
    value = function._Conversation._value

    def received(conversation: Any, frame: Any) -> Any:
        injector.passed("value received")
        return value(conversation, frame)

    function._Conversation._value = received  # type: ignore[assignment,method-assign]

    def mounter_answered(frame: Any, mounter: Mounter, kind: str, *_: object) -> None:
        if kind == "template":
            injector.note("zygote", os.dup(frame.descriptors[0]))

    _after(Mounter, "ask", mounter_answered)

    def started(process: asyncio.subprocess.Process, *arguments: object, **_: object) -> None:
        if any("stockade_worker.mounter" in str(each) for each in arguments):
            injector.note("mounter", os.pidfd_open(process.pid))

    _after(asyncio, "create_subprocess_exec", started)
    _after(Room, "take", lambda worker, *_, **__: injector.note("worker", os.dup(worker._pidfd)))


if __name__ == "__main__":
    fault = sys.argv.pop(1)
    install(Injector(Fault.of(fault) if fault else None))
    main()
