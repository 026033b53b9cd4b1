"""Reads against `cat`, edits through the gate, and the daemon's memory over files that are too large."""

import asyncio
import os
import time
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Final

from stockade_client import connect
from stockade_client.session import Session
from stockade_daemon.gate.gate import Gate
from stockade_daemon.gate.workspace import Workspace
from tests.bench import large
from tests.bench.calls import read
from tests.bench.daemon import running
from tests.bench.figures import Row, Table, rounded
from tests.gate.conftest import Actor

PROFILE: Final = 'extends = "dev"\nwiden = ["approval.writes"]\n[approval]\nwrites = "allow"\n'
_LINES: Final = b"0123456789abcde\n" * 64
_TURNS: Final = 4

_Side = Callable[[int], Awaitable[None]]


async def measured(place: Path, tell: Callable[[str], None], *, quick: bool) -> list[Table]:
    """The tables "rates" and "large"."""
    count = 100 if quick else 1000
    async with running(place, profiles={"writes": PROFILE}) as daemon, connect(daemon.address) as client:
        async with client.session(workspace=daemon.workspace, profile="writes") as session:
            rates = await _rates(daemon.workspace, session, count, tell)
        tell(f"files: planting {large.FILES} files")
        await asyncio.to_thread(large.plant, daemon.workspace)
        rows: list[Row] = []
        async with client.session(workspace=daemon.workspace, profile="writes") as session:
            async for each in large.grown(daemon, session):
                tell(f"files: {each.what}")
                note = "" if each.code == each.expected else f"{each.expected} was expected"
                rows.append({"what": each.what, "result": each.code, "MiB": rounded(each.peak / 2**20), "note": note})
    return [rates, Table("The daemon's RSS grows by, at its peak", tuple(rows))]


async def _rates(workspace: Path, session: Session, count: int, tell: Callable[[str], None]) -> Table:
    """All sides in turns, one call after the other."""
    (workspace / "a.txt").write_bytes(_LINES)
    (workspace / "b.txt").write_bytes(b"count 0\n" + _LINES)
    (workspace / "c.txt").write_bytes(b"count 0\n" + _LINES)
    (workspace / "d.txt").write_bytes(_LINES)
    await session.call("read", path="b.txt")
    with Workspace.open(str(workspace)) as opened:
        actor = Actor(Gate(opened), [])
        await actor.read("c.txt")
        done = {"tool": 0, "gate": 0}

        async def reads(_: int) -> None:
            await read(session)

        async def cat(_: int) -> None:
            process = await asyncio.create_subprocess_exec(
                "cat", str(workspace / "a.txt"), stdout=asyncio.subprocess.PIPE
            )
            await process.communicate()

        async def edits(_: int) -> None:
            number = done["tool"]
            result = await session.call(
                "edit", path="b.txt", old_string=f"count {number}\n", new_string=f"count {number + 1}\n"
            )
            if not result.ok:
                raise RuntimeError(f"an edit failed: {result.error}")
            done["tool"] += 1

        async def at_the_gate(_: int) -> None:
            number = done["gate"]
            await actor.edit("c.txt", b"count %d\n" % number, b"count %d\n" % (number + 1))
            actor.begun.clear()
            done["gate"] += 1

        async def plain(number: int) -> None:
            await asyncio.to_thread(_replaced, workspace / "d.txt", b"count %d\n" % number + _LINES)

        sides: dict[str, _Side] = {
            "read of 1 KiB": reads,
            "cat of 1 KiB, a process each": cat,
            "edit of 1 KiB": edits,
            "the gate's part of an edit": at_the_gate,
            "write, fsync and rename of 1 KiB": plain,
        }
        spent = dict.fromkeys(sides, 0.0)
        for turn in range(_TURNS):
            tell(f"files: rates, turn {turn + 1} of {_TURNS}")
            for name, side in sides.items():
                begun = time.perf_counter()
                for number in range(count // _TURNS):
                    await side(number)
                spent[name] += time.perf_counter() - begun
    total = count // _TURNS * _TURNS
    rows: list[Row] = [{"what": name, "n": total, "a second": rounded(total / took)} for name, took in spent.items()]
    return Table("One client, one call after the other", tuple(rows))


def _replaced(path: Path, content: bytes) -> None:
    """What a careful editor does, without any question."""
    beside = path.with_suffix(".new")
    with open(beside, "wb") as file:
        file.write(content)
        file.flush()
        os.fsync(file.fileno())
    beside.rename(path)
