"""Calls through a gate at paths that lead out of the workspace every other moment."""

import mmap
import os
import random
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from stockade_daemon.errors import Refusal
from stockade_daemon.gate import paths
from stockade_daemon.gate.gate import Gate
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


@dataclass(slots=True)
class Counts:
    outcomes: Counter[str] = field(default_factory=Counter)  # "KIND: done", or KIND and a code
    swaps: int = 0
    faults: list[str] = field(default_factory=list)


async def campaign(place: Path, calls: int, seed: int, *, walk: bool) -> Counts:
    """`calls` calls below an empty directory. `walk`: by our own walk, as on a kernel without openat2."""
    counts = Counts()
    chance = random.Random(seed)
    work, outside = place / "work", place / "outside"
    for directory in (work / "d" / "deep", outside / "deep"):
        directory.mkdir(parents=True)
    (work / "evil").symlink_to(outside)
    for name in ("a.txt", "deep/b.txt"):
        (work / "d" / name).write_bytes(b"0\n")
        (outside / name).write_bytes(SECRET)
    before = _tree(outside)
    paths.walk_always = walk
    try:
        with (
            watched(outside) as one,
            watched(outside / "deep") as other,
            Workspace.open(str(work)) as workspace,
        ):
            with _swapping(work, place / "swaps") as swaps:
                actor = Actor(Gate(workspace), [])
                for number in range(calls):
                    swaps.wait(chance.randrange(3))
                    await _call(actor, chance.choice(KINDS), number, counts)
                counts.swaps = swaps.count()
            counts.faults += [f"outside: {each}" for watch in (one, other) for each in watch.seen()]
    finally:
        paths.walk_always = False
    if _tree(outside) != before:
        counts.faults.append(f"outside is not what it was: {sorted(_tree(outside).keys() ^ before.keys())}")
    counts.faults += [f"{path} is left" for path in work.rglob(".stockade-*")]
    return counts


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
