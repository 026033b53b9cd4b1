"""How long a second session's calls take while a first one's body uses up what it can."""

import asyncio
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Final

from stockade_client import connect
from stockade_client.results import CallResult
from stockade_client.session import Session
from tests.bench.bombs import BOMBS, LIMITS, Bomb
from tests.bench.calls import read, shell, timed
from tests.bench.daemon import running
from tests.bench.figures import Row, Table, quantile, rounded

PROFILES: Final = ("strict", "dev")
_QUIET: Final = 40  # calls of each kind before each bomb


async def measured(place: Path, tell: Callable[[str], None], *, quick: bool) -> list[Table]:
    """For each profile the table of its bombs."""
    own = {f"{name}-bomb": f'extends = "{name}"\nwiden = ["limits.memory_mb"]\n{LIMITS}' for name in PROFILES}
    tables = []
    async with running(place, profiles=own) as daemon, connect(daemon.address) as client:
        (daemon.workspace / "a.txt").write_bytes(b"0123456789abcde\n" * 64)
        for name in PROFILES:
            async with (
                client.session(workspace=daemon.workspace, profile=f"{name}-bomb") as hostile,
                connect(daemon.address) as other,
                other.session(workspace=daemon.workspace, profile=name) as second,
            ):
                for call in (read, shell):
                    await timed(call, second, 10)  # its template starts
                rows = []
                for bomb in BOMBS:
                    rows += await _beside(bomb, hostile, second, 1 if quick else 3, tell)
            tables.append(Table(f"A second session's calls during a bomb, profile {name}", tuple(rows)))
    return tables


async def _beside(bomb: Bomb, hostile: Session, second: Session, times: int, tell: Callable[[str], None]) -> list[Row]:
    quiet: dict[str, list[float]] = {"read": [], "shell": []}
    during: dict[str, list[float]] = {"read": [], "shell": []}
    kinds = {"read": read, "shell": shell}
    ends: list[str] = []
    lasted: list[float] = []
    for number in range(times):
        tell(f"{bomb.name}, {number + 1} of {times}")
        for _ in range(_QUIET):
            for kind, call in kinds.items():
                quiet[kind] += await timed(call, second, 1)
        begun = time.perf_counter()
        running_bomb = asyncio.create_task(hostile.call("shell", argv=["python3", "-c", bomb.program]))
        ended: list[float] = []
        running_bomb.add_done_callback(partial(_note_end, ended, begun))
        while not running_bomb.done():
            for kind, call in kinds.items():
                during[kind] += await timed(call, second, 1)
        ends.append(_end(await running_bomb))
        lasted.append(ended[0] * 1000)
    told = ", ".join(dict.fromkeys(ends))
    return [
        {
            "bomb": bomb.name,
            "call": kind,
            "quiet n": len(quiet[kind]),
            "p50 ms": rounded(quantile(quiet[kind], 0.5)),
            "p95 ms": rounded(quantile(quiet[kind], 0.95)),
            "max ms": rounded(max(quiet[kind])),
            "during n": len(during[kind]),
            "during p50 ms": rounded(quantile(during[kind], 0.5)),
            "during p95 ms": rounded(quantile(during[kind], 0.95)),
            "during max ms": rounded(max(during[kind])),
            "its result": told,
            "after ms": round(quantile(lasted, 0.5)),
        }
        for kind in kinds
    ]


def _note_end(ended: list[float], begun: float, _: object) -> None:
    ended.append(time.perf_counter() - begun)


def _end(result: CallResult) -> str:
    """The typed result in a few words."""
    if result.error is not None:
        limits = result.field("limits_hit")
        hit = f" ({', '.join(map(str, limits))})" if isinstance(limits, list) and limits else ""
        return f"{result.error.code}{hit}"
    words = [f"ok, exit {result.field('exit_code')}"]
    limits = result.field("limits_hit")
    if isinstance(limits, list) and limits:
        words.append(f"hit {', '.join(map(str, limits))}")
    if result.field("truncated"):
        words.append("output cut")
    said = str(result.field("stdout") or "").strip()
    if said and len(said) < 60:
        words.append(f"“{said}”")
    return ", ".join(words)
