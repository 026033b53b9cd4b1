"""What committing a command's new files costs, beside copying the same tree without a sandbox, in turns."""

import asyncio
import json
import os
import shutil
import time
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from stockade_client import connect
from stockade_client.session import Session
from stockade_daemon.removing import remove_tree
from tests.bench.daemon import running
from tests.bench.figures import Row, Table, quantile, rounded

FILES: Final = 10_000
_IN_ONE: Final = 100  # files of a directory
_BYTES: Final = 2000  # of a file
_SOURCE: Final = "source"
_TARGET: Final = "target"
_COMMAND: Final = f"cp -a {_SOURCE}/. {_TARGET}"

# What the daemon notes of a call with changes (staged_daemon.py), and how it is called in the table.
PARTS: Final = {"effects: plan": "looks through them, ms", "effects: commit": "makes them true, ms"}


@dataclass(frozen=True, slots=True)
class _Case:
    what: str
    directories: bool  # the target has the directories before
    aim: float
    ours: list[float] = field(default_factory=list)  # ms, from the end of the command's last process to the result
    calls: list[float] = field(default_factory=list)  # ms
    parts: dict[str, list[float]] = field(default_factory=lambda: defaultdict(list))
    others: dict[str, list[float]] = field(default_factory=lambda: defaultdict(list))
    spans: list[tuple[int, int]] = field(default_factory=list)  # of calls, by CLOCK_MONOTONIC


async def measured(place: Path, tell: Callable[[str], None], *, quick: bool) -> list[Table]:
    """The tables "commit" and "whole calls"."""
    files, turns = (FILES // 10, 3) if quick else (FILES, 7)
    spans = place / "stages"
    cases = (
        _Case(f"{files} files in {files // _IN_ONE} directories that are there", True, 1.5),
        _Case(f"{files} files in {files // _IN_ONE} directories that are new", False, 0.3),
    )
    others = {"cp -a": ("cp", "-a"), "rsync -a": ("rsync", "-a")}
    beside = {name: argv for name, argv in others.items() if shutil.which(argv[0])}
    async with (
        running(place, module="tests.bench.staged_daemon", environment={"BENCH_STAGES": str(spans)}) as daemon,
        connect(daemon.address) as client,
    ):
        tell(f"effects: {files} files")
        await asyncio.to_thread(_plant, daemon.workspace / _SOURCE, files)
        async with client.session(workspace=daemon.workspace, profile="ci") as session:
            for turn in range(-1, turns):  # the first one is to warm up
                for case in cases:
                    tell(f"effects: {case.what}, turn {turn + 1} of {turns}")
                    await _turn(case, session, daemon.workspace, place / "outside", beside, files, counts=turn >= 0)
    noted = [json.loads(line) for line in spans.read_text().splitlines()]
    for case in cases:
        _split(case, [(str(stage), int(begun), int(ended)) for stage, begun, ended in noted])
    return [_commits(cases, others), _calls(cases)]


async def _turn(
    case: _Case,
    session: Session,
    workspace: Path,
    outside: Path,
    beside: Mapping[str, Sequence[str]],
    files: int,
    *,
    counts: bool,
) -> None:
    """Each side once, each into a target of its own that is as the others' were; `counts`: the figures are kept."""
    source, target = workspace / _SOURCE, workspace / _TARGET
    for name, argv in beside.items():
        await asyncio.to_thread(_prepared, source, outside, case.directories)
        begun = time.perf_counter()
        process = await asyncio.create_subprocess_exec(*argv, f"{source}/.", os.fspath(outside))
        if await process.wait():
            raise RuntimeError(f"{name} ended with {process.returncode}")
        if counts:
            case.others[name].append((time.perf_counter() - begun) * 1000)
        await asyncio.to_thread(remove_tree, outside)
    await asyncio.to_thread(_prepared, source, target, case.directories)
    begun_ns = time.monotonic_ns()
    result = await session.call("shell", command=_COMMAND)
    ended_ns = time.monotonic_ns()
    if not result.ok or result.field("exit_code") != 0 or result.field("effects_disposition") != "committed":
        raise RuntimeError(f"a command failed: {result.error} {result.value}")
    if await asyncio.to_thread(_count, target) != files:
        raise RuntimeError("what was committed is not what was copied")
    if counts:
        case.spans.append((begun_ns, ended_ns))
    await asyncio.to_thread(remove_tree, target)


def _split(case: _Case, noted: list[tuple[str, int, int]]) -> None:
    """Sorts what the daemon noted to the calls."""
    for begun, ended in case.spans:
        case.calls.append((ended - begun) / 1e6)
        for stage, since, until in noted:
            if begun <= since < ended:
                if stage == "effects":
                    case.ours.append((ended - since) / 1e6)
                if stage in PARTS:
                    case.parts[stage].append((until - since) / 1e6)


def _commits(cases: tuple[_Case, ...], others: Mapping[str, Sequence[str]]) -> Table:
    rows: list[Row] = []
    for case in cases:
        base = case.others["cp -a"]
        sides = {"a command's, committed": case.ours, **{name: case.others.get(name, []) for name in others}}
        for name, values in sides.items():
            ours = values is case.ours
            rows.append(
                {
                    "what": case.what,
                    "by": name,
                    "n": len(values),
                    "p50 ms": rounded(quantile(values, 0.5)) if values else None,
                    "min ms": rounded(min(values)) if values else None,
                    "of cp -a": rounded(quantile(values, 0.5) / quantile(base, 0.5)) if values and base else None,
                    "aim": case.aim if ours else None,
                    "note": "" if values else f"not measured here: {name.split()[0]} is missing",
                }
            )
    return Table("Committing new files, beside copying them", tuple(rows))


def _calls(cases: tuple[_Case, ...]) -> Table:
    rows: list[Row] = []
    for case in cases:
        row: Row = {"what": case.what, "n": len(case.calls), "call, ms": rounded(quantile(case.calls, 0.5))}
        command = [whole - ours for whole, ours in zip(case.calls, case.ours, strict=True)]
        row["command, ms"] = rounded(quantile(command, 0.5))
        row["commit, ms"] = rounded(quantile(case.ours, 0.5))
        for stage, name in PARTS.items():
            row[name] = rounded(quantile(case.parts[stage], 0.5))
        rows.append(row)
    return Table(f"The whole call, `{_COMMAND}`: medians", tuple(rows))


def _plant(source: Path, files: int) -> None:
    for number in range(files):
        directory = source / f"d{number // _IN_ONE:03}"
        if number % _IN_ONE == 0:
            directory.mkdir(parents=True)
        (directory / f"f{number % _IN_ONE:02}.js").write_bytes(b"%049d\n" % number * (_BYTES // 50))


def _prepared(source: Path, target: Path, directories: bool) -> None:
    """A target as each side finds it; nothing of what was written before waits for the disk."""
    target.mkdir()
    if directories:
        for each in source.iterdir():
            (target / each.name).mkdir()
    os.sync()


def _count(target: Path) -> int:
    return sum(1 for each in target.glob("*/*.js") if each.stat().st_size == _BYTES)
