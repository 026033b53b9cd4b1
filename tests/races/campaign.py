"""Rounds side by side on one state, through three daemons of which the first two are killed while answers race."""

import asyncio
import os
import random
import signal
import sys
import tempfile
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from stockade_client import Daemon, connect
from stockade_daemon.removing import remove_tree
from tests.races.judge import judged
from tests.races.round import ANSWERS, PHASES, PROFILE, Round

BATCH: Final = 20  # rounds that share their daemons
HANG_S: Final = 300.0


@dataclass(slots=True)
class Counts:
    came_to: Counter[str] = field(default_factory=Counter)
    answers: Counter[str] = field(default_factory=Counter)
    mutated: Counter[str] = field(default_factory=Counter)
    carried: int = 0  # asks that a second daemon had to go on with
    carried_twice: int = 0
    faults: list[str] = field(default_factory=list)


async def campaign(rounds: int, seed: int, counts: Counts, *, told: Callable[[str], object] = print) -> None:
    os.umask(0o022)
    for start in range(0, rounds, BATCH):
        await batch(range(start, min(rounds, start + BATCH)), seed, counts)
        told(f"{counts.came_to.total()} rounds, {counts.answers.total()} answers, {len(counts.faults)} faults")


async def batch(numbers: Sequence[int], seed: int, counts: Counts) -> None:
    directory = Path(tempfile.mkdtemp(prefix="races-"))
    try:
        place = _Place(directory)
        rounds = []
        for number in numbers:
            workspace = place.workspaces / str(number)
            workspace.mkdir()
            rounds.append(Round(number, workspace, random.Random(f"{seed}/{number}")))
        async with asyncio.timeout(HANG_S):
            await _play(place, rounds, random.Random(f"{seed}/{numbers[0]}/kills"), counts)
        said = place.log.read_text()
        if "met a fault of the daemon" in said:
            counts.faults.append(f"a daemon {said[said.find('met a fault of the daemon') :][:3000]}")
    finally:
        await asyncio.to_thread(remove_tree, directory)


async def _play(place: "_Place", rounds: Sequence[Round], chance: random.Random, counts: Counts) -> None:
    for phase in range(PHASES):
        process = await place.start()
        try:
            async with connect(place.address) as daemon:
                if phase == 0:
                    await asyncio.gather(*(each.begin(daemon) for each in rounds))
                else:
                    waiting = len(await daemon.calls())
                    counts.carried += waiting if phase == 1 else 0
                    counts.carried_twice += waiting if phase == 2 else 0
                await _race(daemon, rounds, process, chance, last=phase == PHASES - 1)
                if phase == PHASES - 1:
                    await _judge(daemon, rounds, counts)
        finally:
            if process.returncode is None:
                process.send_signal(signal.SIGKILL if phase < PHASES - 1 else signal.SIGTERM)
            await process.wait()


async def _race(
    daemon: Daemon,
    rounds: Sequence[Round],
    process: asyncio.subprocess.Process,
    chance: random.Random,
    *,
    last: bool,
) -> None:
    """Answers of all rounds at once, and in the middle of them the daemon's end, but for the last one."""
    answering = []
    for each in rounds:
        left = each.unanswered
        chance.shuffle(left)
        answering.append(each.answer(daemon, left if last else left[: chance.choice((0, 0, 1, 2, 10, ANSWERS))]))
    racing = asyncio.gather(*answering)
    if not last:
        passed = asyncio.Event()
        asyncio.get_running_loop().call_later(chance.random() / 4, passed.set)
        await passed.wait()
        process.send_signal(signal.SIGKILL)
    await racing


async def _judge(daemon: Daemon, rounds: Sequence[Round], counts: Counts) -> None:
    for each in rounds:
        async with daemon.events(each.session_id, follow=True) as stream:
            events = []
            async for event in stream:
                events.append(event)
                if event.type == "tool/result" and event.call_id == "c":
                    break
        word, faults = await asyncio.to_thread(judged, each, events)
        counts.came_to[word] += 1
        counts.answers += Counter(word for said in each.said.values() for word in said)
        counts.mutated[each.mutated or "nothing"] += 1
        counts.faults += [
            f"round {each.number} ({each.kind}, {each.mutated or 'nothing'} changed): {f}" for f in faults
        ]


class _Place:
    """A state, workspaces and a configuration."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.workspaces = directory / "workspaces"
        self.workspaces.mkdir()
        profiles = directory / "profiles"
        profiles.mkdir()
        (profiles / "asking.toml").write_text(PROFILE)
        self.configuration = directory / "stockade.toml"
        self.configuration.write_text(
            f'[daemon]\nworkspaces = ["{self.workspaces}"]\n[profiles]\npaths = ["{profiles}"]\n'
        )
        self.address = f"unix:{directory}/run/daemon.sock"
        self.log = directory / "log"

    async def start(self) -> asyncio.subprocess.Process:
        with self.log.open("ab") as log:
            process = await asyncio.create_subprocess_exec(
                *(sys.executable, "-m", "stockade_daemon", "serve"),
                *("--socket", str(self.directory / "run" / "daemon.sock"), "--state", str(self.directory / "state")),
                *("--config", str(self.configuration)),
                stdout=asyncio.subprocess.PIPE,
                stderr=log,
            )
        assert process.stdout is not None
        line = await process.stdout.readline()
        if not line.startswith(b"ready "):
            raise AssertionError(f"a daemon did not start: {self.log.read_text()[-2000:]}")
        return process
