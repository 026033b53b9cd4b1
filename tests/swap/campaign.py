"""Calls at paths that lead out of the workspace every other moment: through a gate, and through a whole daemon."""

import mmap
import os
import random
import subprocess
import sys
from collections import Counter
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from stockade_client import connect, local_daemon
from stockade_client.session import Session
from stockade_daemon.errors import Refusal
from stockade_daemon.gate import paths
from stockade_daemon.gate.gate import Gate
from stockade_daemon.gate.intents import Committed, Planned
from stockade_daemon.gate.workspace import Workspace
from tests.gate.conftest import Actor
from tests.swap.swapper import COUNT
from tests.swap.watch import watched

ROOT: Final = Path(__file__).parents[2]
SECRET: Final = b"outside, and nobody's business\n"
# What may be said at a path that is something else every moment.
EXPECTED: Final = frozenset(
    ("FS_OUTSIDE_WORKSPACE", "FS_CONFLICT", "FS_STALE_VERSION", "FS_NOT_FOUND", "FS_NOT_OBSERVED", "FS_NOT_DIRECTORY")
)
KINDS: Final = ("read", "write", "edit", "create", "deep", "absent")
_CALLS_A_WRITE: Final = 200  # a hang detector: so many calls, and a write that is decided must be among them


@dataclass(slots=True)
class Counts:
    outcomes: Counter[str] = field(default_factory=Counter)  # "KIND: done", or KIND and a code
    writes: int = 0  # changes that were decided about and came to their commit
    committed: int = 0  # of those; the others were refused there
    swaps: int = 0
    faults: list[str] = field(default_factory=list)


@dataclass(slots=True)
class _Hands(Actor):
    """Counts the changes that come to their commit."""

    counts: Counts

    async def commit(self, planned: Planned) -> Committed:
        self.counts.writes += 1
        done = await Actor.commit(self, planned)
        self.counts.committed += 1
        return done


async def campaign(place: Path, writes: int, seed: int, *, walk: bool) -> Counts:
    """Calls below an empty directory until `writes` changes have come to their commit.

    `walk`: by our own walk, as on a kernel without openat2.
    """
    counts = Counts()
    chance = random.Random(seed)
    paths.walk_always = walk
    try:
        async with _swapped(place, counts) as (work, swaps):
            with Workspace.open(str(work)) as workspace:
                hands = _Hands(Gate(workspace), [], counts)
                number = 0
                while counts.writes < writes and number < writes * _CALLS_A_WRITE:
                    swaps.wait(chance.randrange(3))
                    await _call(hands, chance.choice(KINDS), number, counts)
                    number += 1
    finally:
        paths.walk_always = False
    if counts.writes < writes:
        counts.faults.append(f"of {number} calls only {counts.writes} came to a commit")
    return counts


async def through_a_daemon(place: Path, calls: int, seed: int) -> Counts:
    """`calls` calls of `write` and `edit`, through a private daemon with all that belongs to one."""
    counts = Counts()
    chance = random.Random(seed)
    async with (
        _swapped(place, counts) as (work, swaps),
        local_daemon(state=place / "state") as address,
        connect(address) as daemon,
        daemon.session(workspace=work, profile="ci") as session,
    ):
        for number in range(calls):
            swaps.wait(chance.randrange(3))
            await _tool_call(session, chance.choice(("edit", "write", "create", "deep")), number, counts)
    return counts


async def _tool_call(session: Session, kind: str, number: int, counts: Counts) -> None:
    path = {"create": f"d/new-{number}.txt", "deep": f"d/deep/more-{number}/new.txt"}.get(kind, "d/a.txt")
    if kind in ("edit", "write"):
        seen = await session.call("read", path=path)
        content = str(seen.value["content"]) if seen.ok and isinstance(seen.value, dict) else ""
        if SECRET.decode() in content:
            counts.faults.append(f"call {number} has read what is outside")
    counts.writes += 1
    if kind == "edit":
        result = await session.call("edit", path=path, old_string=content or "0", new_string=f"{number}\n.")
    else:
        result = await session.call("write", path=path, content=f"{number}\n")
    counts.committed += result.ok
    code = result.error.code if result.error else "done"
    counts.outcomes[f"{kind}: {code}"] += 1
    if not result.ok and code not in {*EXPECTED, "FS_EDIT_NOT_FOUND"}:
        counts.faults.append(f"call {number}, {kind}: {result.error}")


@asynccontextmanager
async def _swapped(place: Path, counts: Counts) -> AsyncIterator[tuple[Path, "_Swaps"]]:
    """A workspace in which `d` is a link out every other moment. At the end: nothing outside has been touched."""
    work, outside = place / "work", place / "outside"
    for directory in (work / "d" / "deep", outside / "deep"):
        directory.mkdir(parents=True)
    (work / "evil").symlink_to(outside)
    for name in ("a.txt", "deep/b.txt"):
        (work / "d" / name).write_bytes(b"0\n")
        (outside / name).write_bytes(SECRET)
    before = _tree(outside)
    with watched(outside) as one, watched(outside / "deep") as other:
        with _swapping(work, place / "swaps") as swaps:
            yield work, swaps
            counts.swaps = swaps.count()
        counts.faults += [f"outside: {each}" for watch in (one, other) for each in watch.seen()]
    if _tree(outside) != before:
        counts.faults.append(f"outside is not what it was: {sorted(_tree(outside).keys() ^ before.keys())}")
    counts.faults += [f"{path} is left" for path in work.rglob(".stockade-*")]


async def _call(actor: Actor, kind: str, number: int, counts: Counts) -> None:
    try:
        match kind:
            case "read" | "write" | "edit":
                content = await actor.read("d/a.txt")
                if SECRET in content:
                    counts.faults.append(f"call {number} has read what is outside")
                if kind == "write":
                    await actor.write("d/a.txt", b"%d\n" % number)
                elif kind == "edit":
                    await actor.edit("d/a.txt", content.rstrip(), b"%d" % number)
            case "create":
                await actor.write(f"d/new-{number}.txt", b"new\n")
            case "deep":
                await actor.write(f"d/deep/more-{number}/new.txt", b"new\n")
            case "absent":
                if await actor.gate.absent("d/none.txt") is None:
                    counts.faults.append(f"call {number} has found d/none.txt, which nobody made")
        counts.outcomes[f"{kind}: done"] += 1
    except Refusal as refusal:
        counts.outcomes[f"{kind}: {refusal.code}"] += 1
        if refusal.code not in EXPECTED:
            counts.faults.append(f"call {number}, {kind}: {refusal.code} {refusal.message}")


class _Swaps:
    """How often the two names have changed places so far."""

    def __init__(self, shared: mmap.mmap, process: subprocess.Popen[bytes]) -> None:
        self._shared = shared
        self._process = process

    def count(self) -> int:
        found: int = COUNT.unpack_from(self._shared)[0]
        return found

    def wait(self, more: int) -> None:
        """Until so many more have been made: else the calls of one slice of time would all meet the same."""
        until = self.count() + more
        while self.count() < until:
            if self._process.poll() is not None:
                raise RuntimeError(f"the swapper ended with status {self._process.returncode}")
            os.sched_yield()


@contextmanager
def _swapping(work: Path, counter: Path) -> Iterator[_Swaps]:
    counter.write_bytes(bytes(COUNT.size))
    with (
        counter.open("rb") as file,
        mmap.mmap(file.fileno(), COUNT.size, prot=mmap.PROT_READ) as shared,
        subprocess.Popen(
            [sys.executable, "-m", "tests.swap.swapper", str(work), "d", "evil", str(counter)],
            stdin=subprocess.PIPE,
            cwd=ROOT,
            start_new_session=True,  # Ctrl-C is its parent's to deal with
        ) as swapper,
    ):
        assert swapper.stdin is not None
        swaps = _Swaps(shared, swapper)
        try:
            swaps.wait(1)
            yield swaps
        finally:
            swapper.stdin.close()
            swapper.wait()
    if swapper.returncode:
        raise RuntimeError(f"the swapper ended with status {swapper.returncode}")


def _tree(directory: Path) -> dict[str, tuple[bytes, int]]:
    """Contents, and what would tell of a change of them, of all that is in a directory."""
    return {
        str(path.relative_to(directory)): (path.read_bytes() if path.is_file() else b"", path.stat().st_ctime_ns)
        for path in sorted(directory.rglob("*"))
    }
