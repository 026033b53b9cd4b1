"""`stockaded` that notes when each stage of a call begins and ends; everything else is the product's own.

Where the environment names a file in BENCH_STAGES, a line of JSON goes there for each span: [stage, begin, end] in
nanoseconds of CLOCK_MONOTONIC, which the client's clock can be compared with.
"""

import functools
import json
import os
import time
from collections.abc import Callable
from typing import Any, Final

from stockade_daemon.__main__ import main

_SPANS: Final[list[tuple[str, int, int]]] = []


def _waited_for(owner: Any, name: str, stage: str) -> None:
    inner: Callable[..., Any] = getattr(owner, name)

    @functools.wraps(inner)
    async def outer(*arguments: Any, **named: Any) -> Any:
        begun = time.monotonic_ns()
        try:
            return await inner(*arguments, **named)
        finally:
            _SPANS.append((stage, begun, time.monotonic_ns()))

    setattr(owner, name, outer)


def _called(owner: Any, name: str, stage: str) -> None:
    inner: Callable[..., Any] = getattr(owner, name)

    @functools.wraps(inner)
    def outer(*arguments: Any, **named: Any) -> Any:
        begun = time.monotonic_ns()
        try:
            return inner(*arguments, **named)
        finally:
            _SPANS.append((stage, begun, time.monotonic_ns()))

    setattr(owner, name, outer)


def replace() -> None:
    # Here, because the command line imports all of it late and so may we.
    from stockade_daemon.gate.effects.transactions import Transactions
    from stockade_daemon.gate.gate import Gate
    from stockade_daemon.ledger.ledger import Ledger
    from stockade_daemon.pipeline import command, dispatch, function, run
    from stockade_daemon.pipeline.engine import Engine
    from stockade_daemon.rpc.calls import CallsService
    from stockade_daemon.sandbox.mounter import Mounter
    from stockade_daemon.sandbox.room import Room
    from stockade_daemon.sandbox.scratch import ScratchRoom
    from stockade_daemon.sandbox.template import Template
    from stockade_daemon.sandbox.worker import Worker

    _waited_for(CallsService, "Start", "rpc")
    _waited_for(Engine, "begin", "begin")
    _waited_for(Engine, "_run", "run")
    _waited_for(Ledger, "start_call", "ledger: tool/call")
    _waited_for(Ledger, "dispatched", "ledger: call/dispatched")
    _waited_for(Ledger, "settle", "ledger: tool/result")
    _waited_for(Ledger, "call", "ledger: look-up")
    _called(Ledger, "note", "ledger: notes")
    _waited_for(run, "pre_execute", "policy: pre-execute")
    _called(run, "guard", "policy: guards")
    _waited_for(run, "post_execute", "policy: post-execute")
    _called(run, "finalize", "finalize")
    _waited_for(Room, "take", "take a worker")
    _waited_for(Room, "prepare", "prepare the next worker")
    _called(ScratchRoom, "make", "its scratch directory")
    _waited_for(Mounter, "make", "its mount")
    _waited_for(Template, "spawn", "its clone")
    _waited_for(Worker, "join", "its control group")
    _waited_for(Worker, "ready", "its sealing")
    _waited_for(Worker, "close", "the last worker is closed")
    _waited_for(dispatch, "run_function", "body")
    _waited_for(dispatch, "run_command", "body")
    _waited_for(function._Conversation, "_begin", "the job is sent")
    _waited_for(function._Conversation, "_next", "the worker's turns")
    _waited_for(function._Conversation, "_answer", "answers to it")
    _waited_for(function._Conversation, "run", "conversation")
    _waited_for(Gate, "read", "gate: read")
    _waited_for(Worker, "exited", "command runs")
    _waited_for(Worker, "gone", "its processes end")
    _waited_for(command, "settle", "effects")
    _waited_for(command, "discarded", "effects")
    _waited_for(Transactions, "plan", "effects: plan")
    _waited_for(Transactions, "commit", "effects: commit")


if __name__ == "__main__":
    replace()
    try:
        main()
    finally:
        with open(os.environ["BENCH_STAGES"], "w", encoding="ascii") as out:
            for span in _SPANS:
                out.write(json.dumps(span) + "\n")
