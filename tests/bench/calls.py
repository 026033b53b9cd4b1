"""Latency and rate of single calls, beside bubblewrap's, in turns."""

import asyncio
import time
from collections.abc import Awaitable, Callable, Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from stockade_client import connect
from stockade_client.session import Session
from tests.bench.daemon import running
from tests.bench.figures import Row, Table, rounded, spread
from tests.bench.yardstick import Missing, Yardstick

CLIENTS: Final = 8
_PAUSE_S: Final = 0.03  # between two calls of an agent that looks at what it got
_NOT_MEASURED: Final[Row] = {"n": 0, "p50 ms": None, "p95 ms": None, "p99 ms": None}


@dataclass(frozen=True, slots=True)
class Amount:
    """How much is measured."""

    turns: int  # of both sides
    calls: int  # of each side in a turn
    rate: int  # calls of each side for a rate

    @classmethod
    def chosen(cls, *, quick: bool) -> "Amount":
        return cls(4, 25, 200) if quick else cls(20, 50, 1600)


Timed = Callable[[], Awaitable[Sequence[float]]]  # milliseconds of one turn


async def measured(place: Path, yardstick: Yardstick, tell: Callable[[str], None], *, quick: bool) -> list[Table]:
    """The tables "latency" and "rate", of profile `dev` with all its layers."""
    amount = Amount.chosen(quick=quick)
    async with running(place) as daemon, connect(daemon.address) as client:
        (daemon.workspace / "a.txt").write_bytes(b"0123456789abcde\n" * 64)
        async with client.session(workspace=daemon.workspace, profile="dev") as session:
            tables = [await _latency(session, yardstick, amount, tell)]
        tables.append(await _rates(daemon.address, daemon.workspace, yardstick, amount, tell))
    return tables


async def read(session: Session) -> None:
    result = await session.call("read", path="a.txt")
    if not result.ok:
        raise RuntimeError(f"a read failed: {result.error}")


async def shell(session: Session) -> None:
    result = await session.call("shell", command="true")
    if not result.ok or result.field("exit_code") != 0:
        raise RuntimeError(f"a shell failed: {result.error}")


_Call = Callable[[Session], Awaitable[None]]


async def timed(call: _Call, session: Session, count: int, *, pause_s: float = 0.0) -> list[float]:
    """Milliseconds from the client's call to its result, one after the other."""
    found: list[float] = []
    nothing = asyncio.Event()  # never set: waiting for it is a pause
    for _ in range(count):
        if pause_s:
            try:
                async with asyncio.timeout(pause_s):
                    await nothing.wait()
            except TimeoutError:
                pass
        begun = time.perf_counter_ns()
        await call(session)
        found.append((time.perf_counter_ns() - begun) / 1e6)
    return found


async def _latency(session: Session, yardstick: Yardstick, amount: Amount, tell: Callable[[str], None]) -> Table:
    async def bwrap(*argv: str) -> Sequence[float]:
        return (await yardstick.sandboxed(amount.calls, 1, *argv)).each_ms

    async def bare(*argv: str) -> Sequence[float]:
        return (await yardstick.bare(amount.calls, 1, *argv)).each_ms

    sides: dict[str, Timed] = {
        "read of 1 KiB": lambda: timed(read, session, amount.calls, pause_s=_PAUSE_S),
        "bwrap /bin/true": lambda: bwrap("/bin/true"),
        "fork and exec /bin/true": lambda: bare("/bin/true"),
        'shell {command: "true"}': lambda: timed(shell, session, amount.calls, pause_s=_PAUSE_S),
        "bwrap bash -c true": lambda: bwrap("/bin/bash", "-c", "true"),
        "read, no pause between": lambda: timed(read, session, amount.calls),
        "shell, no pause between": lambda: timed(shell, session, amount.calls),
    }
    found: dict[str, list[float]] = {name: [] for name in sides}
    lacking: dict[str, str] = {}
    for call in (read, shell):
        await timed(call, session, 10)  # templates start, modules are imported
    for turn in range(amount.turns):
        tell(f"latency: turn {turn + 1} of {amount.turns}")
        for name, side in sides.items():
            try:
                found[name] += await side()
            except Missing as missing:
                lacking[name] = str(missing)
    against = {"read": "bwrap /bin/true", "shell": "bwrap bash -c true"}
    rows: list[Row] = []
    for name, values in found.items():
        figures = spread(values) if values else _NOT_MEASURED
        other = found.get(against.get(name.split()[0].rstrip(","), ""), [])
        ratio = rounded(_p50(values) / _p50(other)) if other and values else None
        note = f"not measured here: {lacking[name]}" if name in lacking else ""
        rows.append({"what": name, **figures, "of bwrap's p50": ratio, "note": note})
    return Table("Latency of one call, client to result", tuple(rows))


def _p50(values: Sequence[float]) -> float:
    return sorted(values)[len(values) // 2]


async def _rates(
    address: str, workspace: Path, yardstick: Yardstick, amount: Amount, tell: Callable[[str], None]
) -> Table:
    found: dict[str, list[float]] = {}
    lacking: dict[str, str] = {}
    async with AsyncExitStack() as stack:
        sessions = []
        for _ in range(CLIENTS):
            client = await stack.enter_async_context(connect(address))
            sessions.append(await stack.enter_async_context(client.session(workspace=workspace, profile="dev")))
        for call in (read, shell):
            await _at_once(call, sessions, CLIENTS)
        turns = 4
        for turn in range(turns):
            tell(f"rates: turn {turn + 1} of {turns}")
            for name, call, argv in (
                ("reads", read, ("/bin/true",)),
                ("shells", shell, ("/bin/bash", "-c", "true")),
            ):
                count = amount.rate // turns
                begun = time.perf_counter()
                await _at_once(call, sessions, count)
                found.setdefault(name, []).append(count / (time.perf_counter() - begun))
                other = f"bwrap {' '.join(argv)}"
                try:
                    runs = await yardstick.sandboxed(count, CLIENTS, *argv)
                    found.setdefault(other, []).append(count / runs.all_s)
                except Missing as missing:
                    lacking[other] = str(missing)
    rows: list[Row] = []
    for name, other in (("reads", "bwrap /bin/true"), ("shells", "bwrap /bin/bash -c true")):
        ours, theirs = _p50(found[name]), _p50(found[other]) if other in found else None
        rows.append(
            {
                "what": f"{name}, {CLIENTS} clients",
                "n": amount.rate,
                "a second": rounded(ours),
                "bwrap's": None if theirs is None else rounded(theirs),
                "ratio": None if theirs is None else rounded(ours / theirs),
                "note": f"not measured here: {lacking[other]}" if other in lacking else "",
            }
        )
    return Table(f"Calls a second, {CLIENTS} clients with a session each", tuple(rows))


async def _at_once(call: _Call, sessions: Sequence[Session], count: int) -> None:
    """`count` calls, each session's one after the other, all sessions at once."""
    left = iter(range(count))

    async def work(session: Session) -> None:
        for _ in left:
            await call(session)

    async with asyncio.TaskGroup() as tasks:
        for session in sessions:
            tasks.create_task(work(session))
