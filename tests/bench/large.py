"""What a daemon's memory makes of files and trees that are too large: each with what the call must come to."""

import os
from collections.abc import AsyncIterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from stockade_client.session import Session
from tests.bench.daemon import Running

HUGE_MB: Final = 500
LINE_MB: Final = 50
FULL_MB: Final = 63  # below what the gate takes
FILES: Final = 100_000


@dataclass(frozen=True, slots=True)
class Grown:
    """One call, and by how many bytes the daemon's RSS was higher at its peak than before."""

    what: str
    code: str  # ok, or of the refusal
    expected: str
    peak: int


def plant(workspace: Path, *, files: int = FILES) -> None:
    """The huge file has almost no blocks; the tree has `files` empty files, a thousand in each directory."""
    with open(workspace / "huge.bin", "wb") as huge:
        huge.write(b"It begins as text.\n" * 10_000)
        huge.truncate(HUGE_MB << 20)
    with open(workspace / "line.txt", "wb") as line:
        for _ in range(LINE_MB):
            line.write(b"x" * (1 << 20))
    with open(workspace / "full.txt", "wb") as full:
        for number in range(FULL_MB):
            full.write(b"%07d\n" % number * (1 << 17))
    for start in range(0, files, 1000):
        directory = workspace / "tree" / f"d{start // 1000}"
        directory.mkdir(parents=True)
        for number in range(start, min(start + 1000, files)):
            (directory / f"f{number}").touch()
    (workspace / "tree" / "one.txt").write_text("one\n")
    os.link(workspace / "tree" / "one.txt", workspace / "tree" / "two.txt")


async def grown(daemon: Running, session: Session) -> AsyncIterator[Grown]:
    """Each call in turn, in a workspace that was planted. Peaks are VmHWM of proc_pid_status(5), begun anew."""
    calls: tuple[tuple[str, str, str, dict[str, Any]], ...] = (
        (f"read a file of {HUGE_MB} MiB", "FS_TOO_LARGE", "read", {"path": "huge.bin"}),
        (f"edit a file of {HUGE_MB} MiB", "FS_TOO_LARGE", "edit", _edit("huge.bin", "a", "b")),
        (f"write over a file of {HUGE_MB} MiB", "FS_TOO_LARGE", "write", {"path": "huge.bin", "content": "small"}),
        (f"read a line of {LINE_MB} MiB", "ok", "read", {"path": "line.txt"}),
        (
            f"edit a line of {LINE_MB} MiB",
            "FS_PARTIAL_OBSERVATION",
            "edit",
            _edit("line.txt", "x" * 100, "y", all=True),
        ),
        (f"read ten lines of {FULL_MB} MiB", "ok", "read", {"path": "full.txt", "offset": 1, "limit": 10}),
        (
            f"edit {FULL_MB} MiB, a part of which was seen",
            "FS_AMBIGUOUS_EDIT",
            "edit",
            _edit("full.txt", "0000000", "1"),
        ),
        ("list a directory of 100", "ok", "list", {"path": "tree"}),
        (f"read what is not there, among {FILES} files", "FS_NOT_FOUND", "read", {"path": "tree/d1/f1000x"}),
        (f"read one of two names, among {FILES} files", "ok", "read", {"path": "tree/one.txt"}),
        (f"edit one of two names, among {FILES} files", "ok", "edit", _edit("tree/one.txt", "one", "two")),
    )
    for what, expected, tool, arguments in calls:
        before = daemon.memory()
        daemon.forget_peak()
        result = await session.call(tool, **arguments)
        code = result.error.code if result.error else "ok"
        yield Grown(what, code, expected, daemon.memory("VmHWM") - before)


def _edit(path: str, old: str, new: str, *, all: bool = False) -> dict[str, Any]:
    return {"path": path, "old_string": old, "new_string": new, "replace_all": all}
