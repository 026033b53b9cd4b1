"""Searching a large tree, beside ripgrep without a sandbox, in turns; and what memory that takes."""

import asyncio
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, Final

from stockade_client import connect
from stockade_client.session import Session
from stockade_daemon.sandbox import library
from tests.bench.daemon import running
from tests.bench.figures import Row, Table, rounded, spread

FILES: Final = 100_000
_IN_ONE: Final = 1000  # files of a directory
_TEXT: Final = "a line of text that says little\n" * 20

_Arguments = dict[str, Any]
# What is asked, and ripgrep's own command for it: in the same order, and as fast as it can.
_CASES: Final[Sequence[tuple[str, str, _Arguments, tuple[str, ...], tuple[str, ...]]]] = (
    ("grep, one line of 1000 files", "grep", {"pattern": "needle"}, ("--sort=path", "-n", "needle"), ("-n", "needle")),
    (
        "grep, one file name of a hundred",
        "grep",
        {"pattern": "needle", "include": "*7?.txt"},
        ("--sort=path", "-n", "-g", "*7?.txt", "needle"),
        ("-n", "-g", "*7?.txt", "needle"),
    ),
    ("glob, all files", "glob", {"pattern": "**"}, ("--sort=path", "--files"), ("--files",)),
)


async def measured(place: Path, tell: Callable[[str], None], *, quick: bool) -> list[Table]:
    """The table "search"."""
    files, turns = (FILES // 10, 3) if quick else (FILES, 7)
    program = library.programs()["rg"]
    async with running(place) as daemon, connect(daemon.address) as client:
        tell(f"search: {files} files")
        await asyncio.to_thread(_plant, daemon.workspace, files)
        async with client.session(workspace=daemon.workspace, profile="dev") as session:
            rows: list[Row] = []
            for what, tool, arguments, ordered, fastest in _CASES:
                tell(f"search: {what}")
                ours: list[float] = []
                sides: dict[tuple[str, ...], list[float]] = {ordered: [], fastest: []}
                peak = 0
                await _called(session, tool, arguments)
                before = daemon.memory()
                daemon.forget_peak()
                for _ in range(turns):
                    begun = time.perf_counter()
                    peak = max(peak, await _called(session, tool, arguments))
                    ours.append((time.perf_counter() - begun) * 1000)
                    for command, taken in sides.items():
                        taken.append(await _bare(program, command, daemon.workspace))
                middle = sorted(ours)[turns // 2]
                rows.append(
                    {
                        "what": what,
                        **spread(ours),
                        "of ripgrep's in this order": rounded(middle / sorted(sides[ordered])[turns // 2]),
                        "of ripgrep's fastest": rounded(middle / sorted(sides[fastest])[turns // 2]),
                        "call's peak, MiB": rounded(peak / 2**20),
                        "daemon grows by, MiB": rounded(max(daemon.memory("VmHWM") - before, 0) / 2**20),
                    }
                )
    return [Table(f"Searching a tree of {files} files", tuple(rows))]


def _plant(workspace: Path, files: int) -> None:
    for number in range(files):
        directory = workspace / f"d{number // _IN_ONE:03}"
        directory.mkdir(exist_ok=True)
        text = f"{_TEXT}needle\n" if number % _IN_ONE == 77 else _TEXT
        (directory / f"f{number % _IN_ONE:03}.txt").write_text(text)


async def _called(session: Session, tool: str, arguments: _Arguments) -> int:
    """The peak memory of a call in bytes, as its result tells it."""
    result = await session.call(tool, **arguments)
    if not result.ok or not result.field("total"):
        raise RuntimeError(f"a search failed: {result.error}")
    return result.usage.max_rss_bytes


async def _bare(program: str, command: Sequence[str], workspace: Path) -> float:
    """Milliseconds of ripgrep without a sandbox, its output read to the end."""
    begun = time.perf_counter()
    process = await asyncio.create_subprocess_exec(
        program, "--no-config", *command, ".", cwd=workspace, stdout=asyncio.subprocess.PIPE
    )
    await process.communicate()
    if process.returncode:
        raise RuntimeError(f"{program} ended with {process.returncode}")
    return (time.perf_counter() - begun) * 1000
