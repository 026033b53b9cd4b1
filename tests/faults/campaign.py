"""Runs of a fault each, in stories: a daemon after the other on the same state, with clients that never stop."""

import asyncio
import os
import random
import signal
import sys
import tempfile
from collections import Counter
from collections.abc import Sequence
from contextlib import AsyncExitStack, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from stockade_client import connect
from stockade_client.values import Event
from stockade_daemon.removing import remove_tree
from tests.faults.judge import judged, left_over
from tests.faults.load import Job, load, told
from tests.faults.points import Fault, drawn

# What commands change is discarded here; commits of it have a campaign of their own, tests/kills.
PROFILES: Final = {
    "goes-ahead": 'extends = "dev"\nwiden = ["approval.writes"]\n[approval]\nwrites = "allow"\neffects = "discard"\n',
    "asks": 'extends = "dev"\n[approval]\ncommands = "ask"\neffects = "discard"\n',
}
JOBS: Final = 4
STORY: Final = 28  # runs on one state
HANG_S: Final = 60.0  # a hang detector: for a fault to happen, a daemon to start


class Hung(Exception):
    """Something that must happen has not."""


@dataclass(slots=True)
class Counts:
    """What a campaign has seen."""

    kills: Counter[tuple[str, str]] = field(default_factory=Counter)  # by point and victim
    calls: Counter[str] = field(default_factory=Counter)  # by what their clients were told
    events: int = 0
    faults: list[str] = field(default_factory=list)


class Place:
    """A state, a workspace and a configuration."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.workspace = directory / "workspace"
        self.workspace.mkdir()
        profiles = directory / "profiles"
        profiles.mkdir()
        for name, text in PROFILES.items():
            (profiles / f"{name}.toml").write_text(text)
        self.configuration = directory / "stockade.toml"
        self.configuration.write_text(
            f'[daemon]\nworkspaces = ["{self.workspace}"]\n[profiles]\npaths = ["{profiles}"]\n'
        )
        self.address = f"unix:{directory}/run/daemon.sock"
        self.log = directory / "log"
        self.there = asyncio.Event()  # set while there is a daemon that takes calls

    async def start(self, fault: Fault | None) -> tuple[asyncio.subprocess.Process, bytes]:
        """A daemon, and its first line: that it is ready, or that it was killed while it settled what was left."""
        with self.log.open("ab") as log:
            process = await asyncio.create_subprocess_exec(
                *(sys.executable, "-m", "tests.faults.daemon", "" if fault is None else fault.argument, "serve"),
                *("--socket", str(self.directory / "run" / "daemon.sock")),
                *("--state", str(self.directory / "state")),
                *("--config", str(self.configuration)),
                stdout=asyncio.subprocess.PIPE,
                stderr=log,
                cwd=Path(__file__).parents[2],
            )
        assert process.stdout is not None
        async with asyncio.timeout(HANG_S):
            line = await process.stdout.readline()
        if not line.startswith((b"ready ", b"killed ")):
            raise Hung(f"a daemon did not start: {self.log.read_text()[-2000:]}")
        self.there.set()
        return process, line


async def story(runs: Sequence[int], seed: int, counts: Counts) -> None:
    """Some runs on one state, then the judgement. `runs` are their numbers in the campaign."""
    chance = random.Random(f"{seed}/{runs[0]}")
    directory = Path(tempfile.mkdtemp(prefix="faults-"))
    try:
        place = Place(directory)
        profiles = ("goes-ahead", "goes-ahead", "goes-ahead", "asks")
        jobs = [
            Job(number, place.address, place.workspace, profiles[number % 4], f"{seed}/{runs[0]}", place.there)
            for number in range(JOBS)
        ]
        stopped = asyncio.Event()
        async with AsyncExitStack() as stack:
            async with asyncio.TaskGroup() as tasks:
                working = tasks.create_task(load(jobs, stopped))
                for number in runs:
                    fault = drawn(number, chance)
                    await _one(place, fault, chance)
                    counts.kills[fault.point, fault.victim] += 1
                last, _ = await place.start(None)
                stack.push_async_callback(_end, last, signal.SIGTERM)
                stopped.set()
                async with asyncio.timeout(HANG_S):
                    await working
            counts.calls += told(jobs)
            await _judge(place, jobs, counts, f"runs {runs[0]} to {runs[-1]} of --seed {seed}")
        counts.faults += _complaints(place.log)
    finally:
        remove_tree(directory)


async def _one(place: Place, fault: Fault, chance: random.Random) -> None:
    """A daemon until somebody is killed; where that was not the daemon itself, it ends too, one way or the other."""
    process, line = await place.start(fault)
    try:
        assert process.stdout is not None
        try:
            async with asyncio.timeout(HANG_S):
                if not line.startswith(b"killed "):
                    line = await process.stdout.readline()
        except TimeoutError:
            raise Hung(f"nobody came to {fault}: {place.log.read_text()[-2000:]}") from None
        if line.strip() != f"killed {fault.victim}".encode():
            raise Hung(f"{fault}: the daemon said {line!r} and {place.log.read_text()[-2000:]}")
    finally:
        place.there.clear()
        await _end(process, chance.choice((signal.SIGKILL, signal.SIGTERM)))


async def _end(process: asyncio.subprocess.Process, number: signal.Signals) -> None:
    if process.returncode is None:
        with suppress(ProcessLookupError):
            process.send_signal(number)
    async with asyncio.timeout(HANG_S):
        await process.wait()


async def _judge(place: Place, jobs: list[Job], counts: Counts, when: str) -> None:
    async with connect(place.address) as daemon:
        for job in jobs:
            async with daemon.events(job.session_id) as stream:
                events: list[Event] = [event async for event in stream]
            counts.events += len(events)
            found = await asyncio.to_thread(judged, job, events, place.workspace)
            counts.faults += [f"{when}: {fault}" for fault in found]
    counts.faults += [f"{when}: {fault}" for fault in await asyncio.to_thread(left_over, place.workspace, jobs)]


async def campaign(runs: int, seed: int, counts: Counts, *, length: int = STORY) -> None:
    """All runs, a story after the other."""
    os.umask(0o022)
    for start in range(0, runs, length):
        await story(range(start, min(runs, start + length)), seed, counts)
        done = counts.kills.total()
        print(f"{done} kills, {counts.calls.total()} calls, {len(counts.faults)} faults", flush=True)


def _complaints(log: Path) -> list[str]:
    """What daemons of a story say of faults of their own; a kill is not one."""
    text = log.read_text()
    at = text.find("met a fault of the daemon")
    return [] if at < 0 else [f"a daemon {text[at : at + 3000]}"]
