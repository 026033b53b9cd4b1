"""One tree twice, at one path: commands run in it outside, and in a copy of it through Stockade."""

import asyncio
import fnmatch
import hashlib
import marshal
import os
import re
import subprocess
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import CodeType
from typing import Any, Final

from stockade_client import connect
from stockade_daemon.sandbox.plan import PATH
from tests.end_to_end.stockaded import COMMAND_S, Stockaded
from tests.scripts.snapshot import Snapshot, differences, snapshot

# What profile `ci` says, what it passes on (pytest tells more where it sees `CI`), and what a worker has of its own.
_ENVIRONMENT: Final = {
    **{name: os.environ[name] for name in ("CI", "TZ") if name in os.environ},
    "PATH": PATH,
    "LANG": "C.UTF-8",
    "TERM": "dumb",
    "GIT_OPTIONAL_LOCKS": "0",
    "PYTHONDONTWRITEBYTECODE": "1",
}


@dataclass(frozen=True, slots=True)
class Ran:
    """What came of the commands."""

    left: Snapshot
    statuses: tuple[int, ...]
    printed: tuple[str, ...]
    effects: tuple[Mapping[str, Any], ...] = ()  # of all of them


@dataclass(frozen=True, slots=True)
class Both:
    outside: Ran
    through: Ran

    def differences(self) -> list[str]:
        """What is not the same, for people; empty where nothing is."""
        told = differences(self.outside.left, self.through.left)
        for what in ("statuses", "printed"):
            one, other = getattr(self.outside, what), getattr(self.through, what)
            if one != other:
                told.append(f"{what}: {one!r}, {other!r}")
        return told


def both_ways(served: Stockaded, profile: str, workspace: Path, commands: Sequence[str]) -> Both:
    """Runs the commands, texts for bash, one after the other.

    Both at one path, since much of what tools write has absolute paths in it: outside first, then that tree goes to
    `outside` beside it and a copy from before takes its place. The commands' own output has to be the same, too.
    """
    beside, copy = workspace.with_name("outside"), workspace.with_name("copy")
    subprocess.run(["cp", "-a", "--", workspace, copy], check=True)
    outside = _outside(workspace, commands)
    workspace.rename(beside)
    copy.rename(workspace)
    return Both(outside, asyncio.run(_through(served, profile, workspace, commands)))


def _outside(workspace: Path, commands: Sequence[str]) -> Ran:
    """As workers have it: umask 022, without capabilities, an empty home."""
    home = workspace.with_name("home")
    home.mkdir()
    bare = ["setpriv", "--bounding-set=-all", "--inh-caps=-all"] if os.geteuid() == 0 else []
    done = [
        subprocess.run(
            [*bare, "bash", "-c", command],
            cwd=workspace,
            env={**_ENVIRONMENT, "HOME": str(home), "TMPDIR": str(home)},
            umask=0o022,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            timeout=COMMAND_S,
            check=False,
        )
        for command in commands
    ]
    return Ran(settled(workspace), tuple(each.returncode for each in done), tuple(each.stdout for each in done))


async def _through(served: Stockaded, profile: str, workspace: Path, commands: Sequence[str]) -> Ran:
    statuses, printed, effects = [], [], []
    async with connect(served.address) as daemon, daemon.session(workspace, profile) as session:
        for command in commands:
            result = await session.call("shell", command=f"exec 2>&1; {command}")
            assert result.error is None, result.error
            value: Any = result.value
            assert value["effects_disposition"] == "committed", result.content
            statuses.append(value["exit_code"])
            printed.append(value["stdout"])
            effects += value["effects"]
    return Ran(settled(workspace), tuple(statuses), tuple(printed), tuple(effects))


def settled(root: Path) -> Snapshot:
    """A snapshot in which what is not the same in two runs outside either is not told."""
    found = snapshot(root)
    for name, entry in found.items():
        for pattern, remaining in ASIDE.items():
            if entry.kind == "file" and fnmatch.fnmatch(os.fsdecode(name), pattern):
                digest = hashlib.sha256(remaining(root / os.fsdecode(name))).hexdigest()
                found[name] = entry._replace(content=digest)
    return found


def _index(path: Path) -> bytes:
    """What an index of git says, but for what stat(2) says of the files: times and inodes."""
    listed = ["git", "-C", str(path.parent.parent), "ls-files", "--stage", "-v", "-z"]
    return subprocess.run(listed, check=True, capture_output=True).stdout


def _compiled(path: Path) -> bytes:
    """A module's code, but for the time of its source (PEP 552), for where that was when it was compiled (pip compiles
    in a temporary directory), and for which objects the compiler happened to have only once (marshal's references)."""
    content = path.read_bytes()
    return content[:8] + marshal.dumps(_nowhere(marshal.loads(content[16:])), 2)


def _nowhere(code: CodeType) -> CodeType:
    inner = tuple(_nowhere(each) if isinstance(each, CodeType) else each for each in code.co_consts)
    return code.replace(co_filename="", co_consts=inner)


def _report(path: Path) -> bytes:
    """A report of tests, but for when they ran, how long and where."""
    return re.sub(rb' (time|timestamp|hostname)="[^"]*"', b"", path.read_bytes())


# By name, what is compared instead of all bytes. Times of files are no part of a snapshot.
ASIDE: Final[Mapping[str, Callable[[Path], bytes]]] = {
    ".git/index": _index,
    "*.pyc": _compiled,
    "*junit.xml": _report,
}
