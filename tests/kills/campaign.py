"""One command that changes many files, and a daemon that is killed at one point of its commit: afterwards the workspace
is exactly what it was or exactly what it was to be, and the ledger says which.
"""

import asyncio
import os
import random
import stat
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import TypeAlias

from stockade_client import Call, CallResult, connect
from tests.end_to_end.stockaded import COMMAND_S, Stockaded

Picture: TypeAlias = dict[
    str, tuple[int, bytes, int]
]  # path → mode, attributes with bytes or target, which of its names is the first


NEVER = 10**9  # no commit has so many points


class Killed(Stockaded):
    """A daemon that ends itself at a point of the first commit; without a number it is the usual one."""

    number: int | None = None

    @property
    def points(self) -> Path:
        return self.directory / "points"

    @property
    def command(self) -> list[str]:
        usual = super().command
        if self.number is None:
            return usual
        return [sys.executable, "-m", "tests.kills.daemon", str(self.number), str(self.points), *usual[3:]]


@dataclass(frozen=True, slots=True)
class Outcome:
    """What came of one commit."""

    points: tuple[str, ...]  # those that it passed
    fault: str  # empty: all is as it should be
    now: str  # old, new, neither


def plant(workspace: Path, files: int) -> str:
    """Makes a tree of about this many files; the script that changes all of it."""
    for name in ("kept", "moved/deep", "gone"):
        (workspace / name).mkdir(parents=True)
    for number in range(files):
        place = ("kept", "moved", "moved/deep", "gone")[number % 4]
        (workspace / place / f"f{number}").write_text(f"{number}\n" * (number % 7))
    (workspace / "first").write_text("one file\n")
    (workspace / "a").mkdir()
    (workspace / "b").mkdir()
    (workspace / "twin").write_text("of a file with two names\n")
    if os.geteuid() == 0:  # a user's overlay makes two files of it
        (workspace / "kept" / "other").hardlink_to(workspace / "twin")
    return "\n".join(
        (
            "echo more >> twin; chmod 640 twin",
            'python3 -c \'import os; [os.setxattr(each, "user.a", b"x") for each in ("twin", "kept")]\'',
            "i=0; for f in kept/*; do i=$((i+1)); case $((i%4)) in 0) rm $f;; 1) echo more >> $f;; "
            "2) chmod 600 $f;; 3) mv $f $f.new;; esac; done",
            "rm -r gone; mkdir -p made/deep; for i in $(seq 1 40); do echo $i > made/deep/$i; done",
            # Renames of directories, where the kernel gives them; else mv copies.
            "mv moved was; echo more >> was/f1; rm was/deep/f2; mv was/deep lifted; mv a c; mv b a",
            "for i in $(seq 1 30); do echo $i > kept/n$i; done; ln -s kept to; rm first; mkdir first; echo x > first/x",
            "touch -d 2001-02-03 kept/n1",
        )
    )


def picture(workspace: Path) -> Picture:
    """The tree, down to which names are one file's."""
    found: Picture = {}
    first: dict[int, int] = {}
    for number, path in enumerate(sorted(workspace.rglob("*"))):
        status = path.lstat()
        content = b"".join(
            os.fsencode(name) + os.getxattr(path, name, follow_symlinks=False)
            for name in os.listxattr(path, follow_symlinks=False)
            if name.startswith("user.")
        )
        if stat.S_ISLNK(status.st_mode):
            content += os.fsencode(os.readlink(path))
        elif stat.S_ISREG(status.st_mode):
            content += path.read_bytes()
        found[str(path.relative_to(workspace))] = status.st_mode, content, first.setdefault(status.st_ino, number)
    return found


def wanted(place: Path, files: int) -> tuple[Picture, Picture]:
    """The tree before, and after the script has run directly on it."""
    workspace = place / "direct"
    workspace.mkdir()
    script = plant(workspace, files)
    before = picture(workspace)
    subprocess.run(["bash", "-euc", script], cwd=workspace, check=True, umask=0o022)
    return before, picture(workspace)


async def once(place: Path, number: int, files: int, before: Picture, after: Picture) -> Outcome:
    """A commit whose daemon ends at point `number`, in an empty directory; NEVER: it does not end."""
    workspace = place / "workspace"
    workspace.mkdir()
    script = await asyncio.to_thread(plant, workspace, files)
    daemon = Killed(place, workspaces=place)
    daemon.number = number
    daemon.start()
    try:
        async with connect(daemon.address) as client:
            session = await client.session(workspace, "ci", id="s").__aenter__()
            call = await session.start("shell", call_id="c", command=f"set -eu; {script}")
            if number == NEVER:
                result = await call.result()
            else:
                assert daemon.process is not None
                await asyncio.to_thread(daemon.process.wait, COMMAND_S)
                assert daemon.process.stdout is not None
                daemon.process.stdout.close()
                daemon.number = None
                daemon.start()
                result = await _result(daemon.address)
    finally:
        if daemon.process is not None:
            daemon.end()
    points = tuple(daemon.points.read_text().split("\n"))
    return await asyncio.to_thread(_judged, place, points, result, before, after)


async def _result(address: str) -> CallResult:
    async with connect(address) as client, asyncio.timeout(COMMAND_S):
        return await Call(client._link, "s", "c", "").result()


def _judged(place: Path, points: tuple[str, ...], result: CallResult, before: Picture, after: Picture) -> Outcome:
    present = picture(place / "workspace")
    now = "old" if present == before else "new" if present == after else "neither"
    said = result.error.message if result.error else "effects: committed: all"
    says = "old" if "effects: none (proven)" in said else "new" if "effects: committed" in said else said
    left = [str(path) for name in ("kept", "areas", "scratch") for path in (place / "state" / name).glob("*")]
    left += [name for name in present if name.startswith((".stockade", "stockade-kept"))]
    fault = ""
    if now == "neither":
        differ = sorted(name for name in {*present, *after} if present.get(name) != after.get(name))
        fault = f"the tree is neither the old nor the new one, of which it has not {differ[:5]}"
    elif says != now:
        fault = f"the tree is the {now} one, and the ledger says {says}"
    elif left:
        fault = f"left behind: {left[:5]}"
    return Outcome(points, fault, now)


def chosen(points: int, most: int, seed: int) -> list[int]:
    """Which points a daemon ends at: all of them, or some, the first and the last among them."""
    if points <= most:
        return list(range(points))
    some = random.Random(seed).sample(range(1, points - 1), most - 2)
    return sorted({0, points - 1, *some})
