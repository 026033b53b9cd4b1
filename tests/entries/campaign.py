"""Entries of `stockade run`, many at once, and what its report has to say of them."""

import json
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import junitparser

from tests.end_to_end.stockaded import running, worker_of
from tests.scripts.snapshot import differences, snapshot


@dataclass(frozen=True, slots=True)
class Report:
    """Of one run."""

    what: str
    entries: int
    seconds: float
    faults: list[str]

    def __str__(self) -> str:
        rate = self.entries / self.seconds
        verdict = "all as expected" if not self.faults else f"{len(self.faults)} FAULTS"
        return f"{self.what}: {self.entries} entries in {self.seconds:.1f} s ({rate:.1f} a second): {verdict}"


def of_one_path(place: Path, count: int, jobs: int) -> Report:
    """Each entry writes the same path, by a tool and by a command, and must see its own."""
    workspace = _workspace(place)
    before = snapshot(workspace)
    entries = [
        {
            "name": f"entry {number}",
            "calls": [
                {"tool": "write", "args": {"path": "same", "content": f"{number}\n"}},
                {
                    "tool": "shell",
                    "args": {"command": f"cat same; echo {number} >> same; ls"},
                    "expect": {"stdout": f"{number}\na.txt\nsame\n"},
                },
            ],
            "files": {"same": f"{number}\n{number}\n"},
        }
        for number in range(count)
    ]
    done, seconds, report = _run(place, workspace, entries, jobs)
    faults = [] if done == 0 else [f"the exit status is {done}"]
    faults += _counts(report, tests=count, failures=0, errors=0)
    faults += [f"the workspace: {each}" for each in differences(before, snapshot(workspace))]
    names = [case.name for case in _cases(report)]
    if names != [each["name"] for each in entries]:
        faults.append("the report's cases are not the entries in their order")
    return Report(f"one path, {jobs} jobs", count, seconds, faults)


def of_kills(place: Path, count: int, jobs: int) -> Report:
    """The workers of all entries are killed from outside: of every second one once, of the others twice."""
    workspace = _workspace(place)
    mark = f"killed-{os.getpid()}"
    entries = [
        {"name": f"entry {number}", "tool": "shell", "args": {"command": f"sleep 6; : {mark}-{number}-"}}
        for number in range(count)
    ]
    with _killing(mark, {number: 1 + number % 2 for number in range(count)}) as killed:
        done, seconds, report = _run(place, workspace, entries, jobs)
    twice = count // 2
    faults = [] if done == 3 else [f"the exit status is {done}"]
    faults += _counts(report, tests=count, failures=0, errors=twice)
    for number, case in enumerate(_cases(report)):
        wanted = 1 + number % 2
        if len(killed[number]) != wanted:
            faults.append(f"{case.name}: {len(killed[number])} of its workers were killed, not {wanted}")
        kinds = [each.type for each in case.result]
        if kinds != (["infrastructure"] if wanted == 2 else []):
            faults.append(f"{case.name}: {kinds}")
        told = {each.get("name"): each.get("value") for each in case._elem.iter("property")}
        if told.get("attempts") != "2" or "ended from outside" not in str(told.get("retried")):
            faults.append(f"{case.name}: {told}")
    return Report(f"{count + twice} workers killed, {jobs} jobs", count, seconds, faults)


def _workspace(place: Path) -> Path:
    workspace = place / "workspace"
    workspace.mkdir(parents=True)
    (workspace / "a.txt").write_text("one\n")
    return workspace


def _run(place: Path, workspace: Path, entries: list[dict[str, Any]], jobs: int) -> tuple[int, float, Path]:
    calls, report = place / "calls.jsonl", place / "report.xml"
    calls.write_text("".join(f"{json.dumps(each)}\n" for each in entries))
    begun = time.monotonic()
    with (place / "log").open("wb") as log:
        done = subprocess.run(
            [
                *(sys.executable, "-m", "stockade_client", "run", str(calls), "--private", "--profile", "ci"),
                *("--workspace", str(workspace), "--jobs", str(jobs), "--junit", str(report)),
            ],
            stdout=log,
            stderr=log,
            check=False,
        )
    return done.returncode, time.monotonic() - begun, report


def _cases(report: Path) -> list[junitparser.TestCase]:
    return [case for suite in junitparser.JUnitXml.fromfile(str(report)) for case in suite]


def _counts(report: Path, **wanted: int) -> list[str]:
    read = junitparser.JUnitXml.fromfile(str(report))
    return [
        f"the report has {getattr(read, name)} {name}, not {number}"
        for name, number in wanted.items()
        if getattr(read, name) != number
    ]


@contextmanager
def _killing(mark: str, wanted: dict[int, int]) -> Iterator[dict[int, list[int]]]:
    """Kills, while the block runs, the first process of each worker whose command has the mark and a number, as often
    as is wanted; gives the pids by number."""
    killed: dict[int, list[int]] = {number: [] for number in wanted}
    over = threading.Event()

    def work() -> None:
        while not over.wait(0.02):
            for pid in running(f"{mark}-"):
                worker = worker_of(pid)
                try:
                    line = Path(f"/proc/{pid}/cmdline").read_bytes().decode()
                    number = int(line.partition(f"{mark}-")[2].partition("-")[0])
                except (OSError, ValueError):
                    continue
                if worker is not None and worker not in killed[number] and len(killed[number]) < wanted[number]:
                    os.kill(worker, signal.SIGKILL)
                    killed[number].append(worker)

    thread = threading.Thread(target=work)
    thread.start()
    try:
        yield killed
    finally:
        over.set()
        thread.join()
