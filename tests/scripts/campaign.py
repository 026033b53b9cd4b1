"""Scripts run directly on one copy of a tree and through Stockade on another; then the trees are compared."""

import asyncio
import hashlib
import json
import os
import random
import signal
import stat
import subprocess
import tempfile
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from stockade_client import Daemon, connect
from stockade_daemon.removing import remove_tree
from tests.end_to_end.session_s import start_with
from tests.end_to_end.stockaded import Stockaded
from tests.scripts.generator import MEETING, Steps, grow, run
from tests.scripts.snapshot import Snapshot, differences, snapshot

STEPS: Final = 10
# By turns: with scratch every view has one more layer below it, and a mount in it.
PROFILES: Final = ("ci", "keeping")
KEEPING: Final = 'extends = "ci"\nwiden = ["filesystem.scratch"]\nfilesystem.scratch = ["kept aside", ".kept"]\n'
# A command reads this file until somebody outside has written into it: bash opens it anew each time.
WAITS: Final = f"echo ready; until read -r line < {MEETING}; do :; done\n"


@dataclass(slots=True)
class Report:
    scripts: int = 0
    conflicts: int = 0
    changes: Counter[str] = field(default_factory=Counter)
    faults: list[str] = field(default_factory=list)


async def campaign(count: int, seed: int, *, links: bool, without: frozenset[str] = frozenset()) -> Report:
    """`count` scripts of which every fifth meets an outside change. `links`, `without`: see Steps."""
    directory = Path(tempfile.mkdtemp(prefix="scripts-"))
    daemon = Stockaded(directory, workspaces=directory)
    report = Report()
    try:
        await asyncio.to_thread(start_with, daemon, {"keeping": KEEPING})
        async with connect(daemon.address) as client:
            for number in range(count):
                at, one = directory / str(number), f"{seed}/{number}"
                original, script = await asyncio.to_thread(prepared, at, one, links, without)
                before = snapshot(original)
                report.scripts += 1
                judge = _meeting if number % 5 == 4 else _alone
                profile = PROFILES[number % len(PROFILES)]
                if faults := await judge(client, profile, at, script, before, report):
                    report.faults.append(
                        "\n  ".join([f"seed {one}, profile {profile}", *faults, "the script:", *script.splitlines()])
                    )
                await asyncio.to_thread(remove_tree, at)
    finally:
        if daemon.process is not None:
            daemon.end(signal.SIGTERM)
        remove_tree(directory)
    return report


def copied(tree: Path, to: Path) -> None:
    """A copy with everything that snapshot.py tells. What its owner may not read is made readable meanwhile."""
    closed = _opened(tree)
    subprocess.run(["cp", "-a", "--", tree, to], check=True)
    for path, mode in reversed(closed):
        for top in (tree, to):
            os.chmod(os.path.join(os.fsencode(top), path), mode)


def _opened(tree: Path) -> list[tuple[bytes, int]]:
    """Makes readable what its owner may not read: which files and directories that were, and their modes."""
    if os.geteuid() == 0:
        return []
    wanted = {stat.S_IFREG: 0o400, stat.S_IFDIR: 0o500}
    found, left = [], [b"."]
    while left:
        path = left.pop()
        where = os.path.join(os.fsencode(tree), path)
        status = os.lstat(where)
        needs, mode = wanted.get(stat.S_IFMT(status.st_mode), 0), stat.S_IMODE(status.st_mode)
        if mode & needs != needs:
            found.append((path, mode))
            os.chmod(where, mode | needs)
        if stat.S_ISDIR(status.st_mode):
            left += [os.path.join(path, name) for name in os.listdir(where)]
    return found


def prepared(at: Path, seed: str, links: bool, without: frozenset[str]) -> tuple[Path, str]:
    """A directory with `original`, `direct` and `workspace`, three times one tree; the first of them, and a script."""
    chance = random.Random(seed)
    original = at / "original"
    original.mkdir(parents=True)
    grow(original, chance, links=links, without=without)
    (original / MEETING).touch()
    for name in ("planned", "direct", "workspace"):
        copied(original, at / name)
    return original, Steps(at / "planned", chance, links, without).script(STEPS)


async def _alone(client: Daemon, profile: str, at: Path, script: str, before: Snapshot, report: Report) -> list[str]:
    direct = await asyncio.to_thread(run, script, at / "direct")
    async with client.session(at / "workspace", profile) as session:
        result = await session.call("shell", command=script)
    if result.error is not None:
        return [f"{result.error.code}: {result.error.message}"]
    value: Any = json.loads(json.dumps(result.value))
    report.changes.update(effect["change"] for effect in value["effects"])
    after = snapshot(at / "workspace")
    faults = differences(snapshot(at / "direct"), after)
    if value["exit_code"] != direct.returncode:
        faults.append(f"it ended with {value['exit_code']}, directly with {direct.returncode}")
    return faults + [f"not among the effects: {path!r}" for path in unnamed(before, after, value["effects"])]


async def _meeting(client: Daemon, profile: str, at: Path, script: str, _before: Snapshot, report: Report) -> list[str]:
    """Somebody outside changes a file that the script changes too, while the script runs."""
    workspace, victim = at / "workspace", "met by two"
    (workspace / victim).write_text("at first\n")
    # Before the command begins: an ordinary user's look at what he may not read changes ctimes.
    expected = snapshot(workspace)
    command = f"{WAITS}{script}\necho inside > '{victim}'"
    async with client.session(workspace, profile) as session:
        call = await session.start("shell", command=command)
        async with call.output() as pieces:
            async for _ in pieces:
                break
        (workspace / victim).write_text("of the outsider\n")
        (workspace / MEETING).write_text("go\n")
        result = await call.result()
    report.conflicts += 1
    after = snapshot(workspace)
    for name, content in ((victim, "of the outsider\n"), (MEETING, "go\n")):
        digest = hashlib.sha256(content.encode()).hexdigest()
        expected[name.encode()] = expected[name.encode()]._replace(content=digest)
    faults = differences(expected, after)
    if result.error is None or result.error.code != "FS_CONFLICT":
        faults.append(f"no conflict: {result.error or result.value}")
    elif victim not in result.error.message:
        faults.append(f"the conflict does not name {victim}: {result.error.message}")
    return faults


def unnamed(before: Snapshot, after: Snapshot, effects: list[dict[str, Any]]) -> list[bytes]:
    """Paths that have changed and that no effect names: not the path, no directory above that came, went or moved, and
    no other name of the same file."""
    whole, named = set(), set()
    for effect in effects:
        for name in (effect["path"], effect.get("from")):
            if name is not None:
                named.add(name)
                if effect["change"] in ("created", "deleted", "replaced", "renamed"):
                    whole.add(name)
    missing = []
    for path in sorted(before.keys() | after.keys()):
        one, other = before.get(path), after.get(path)
        if path == b"." or (one and other and one._replace(names=()) == other._replace(names=())):
            continue
        shown = path.decode("utf-8", "backslashreplace")
        above = [shown[:at] for at, letter in enumerate(shown) if letter == "/"]
        others = {each.decode("utf-8", "backslashreplace") for entry in (one, other) if entry for each in entry.names}
        if shown not in named and not whole.intersection(above) and not named & others:
            missing.append(path)
    return missing
