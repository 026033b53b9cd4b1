"""A daemon behind a proxy, rounds in which the connection is cut, and the judgement by a connection that is not."""

import asyncio
import random
import signal
import tempfile
import traceback
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from stockade_client import CallResult, Daemon, Event, connect
from stockade_daemon.removing import remove_tree
from tests.cuts.story import EDIT, OUTPUT, PHASES, Story
from tests.end_to_end.proxy import Proxy, between
from tests.end_to_end.stockaded import Stockaded

PROFILE: Final = 'extends = "dev"\nwiden = ["approval.wait_s"]\napproval.wait_s = 600\n'
HANG_S: Final = 120.0  # a hang detector, for one round


@dataclass(slots=True)
class Report:
    faults: list[str] = field(default_factory=list)
    rounds: Counter[str] = field(default_factory=Counter)  # by the phase in which the cut was due
    cuts: int = 0
    to_daemon: int = 0
    missed: int = 0
    calls: int = 0


@dataclass(frozen=True, slots=True)
class Cut:
    """Where a round is cut: when so many bytes of that direction have passed since the phase began."""

    phase: str
    after: int
    from_daemon: bool

    def __str__(self) -> str:
        return f"{self.phase}, after {self.after} bytes {'from' if self.from_daemon else 'to'} the daemon"


async def campaign(rounds: int, seed: int) -> Report:
    """`rounds` rounds, after one without a cut in which the bytes of each phase are counted."""
    report = Report()
    chance = random.Random(seed)
    directory = Path(tempfile.mkdtemp(prefix="cuts-"))
    workspace = directory / "workspace"
    workspace.mkdir()
    stockaded = Stockaded(directory, workspaces=workspace)
    profile = directory / "profiles" / "cuts.toml"
    profile.parent.mkdir()
    profile.write_text(PROFILE)
    with stockaded.configuration.open("a") as configuration:
        configuration.write(f'[profiles]\npaths = ["{profile.parent}"]\n')
    try:
        await asyncio.to_thread(stockaded.start)
        async with (
            between(stockaded.socket, directory / "p.sock") as proxy,
            connect(stockaded.address) as beside,
        ):
            counted = await _round("counting", [], proxy, beside, workspace, report)
            for number in range(rounds):
                cuts = [_cut(chance, counted) for _ in range(chance.choice((1, 1, 2)))]
                report.rounds[cuts[0].phase] += 1
                await _round(f"round-{number}", cuts, proxy, beside, workspace, report)
            report.cuts = proxy.cuts
        return report
    finally:
        if stockaded.process is not None:
            stockaded.end(signal.SIGTERM)
        remove_tree(directory)


def _cut(chance: random.Random, counted: dict[str, tuple[int, int]]) -> Cut:
    phase = chance.choice(PHASES)
    from_daemon = chance.random() < 0.5
    return Cut(phase, chance.randrange(counted[phase][from_daemon] + 1), from_daemon)


async def _round(
    name: str, cuts: Sequence[Cut], proxy: Proxy, beside: Daemon, workspace: Path, report: Report
) -> dict[str, tuple[int, int]]:
    """Bytes of each phase, to the daemon and from it."""
    counted: dict[str, tuple[int, int]] = {}
    where = f"{name} ({'; '.join(map(str, cuts))})"
    path = workspace / f"{name}.txt"
    await asyncio.to_thread(path.write_text, "=\n")
    story = Story(proxy.address, workspace, name)
    try:
        async with asyncio.timeout(HANG_S), story:
            for phase in PHASES:
                before = proxy.sent, proxy.passed
                for cut in cuts:
                    if cut.phase == phase:
                        report.missed += proxy.call_off()
                        proxy.cut_after(cut.after, from_daemon=cut.from_daemon)
                        report.to_daemon += not cut.from_daemon
                await story.play(phase)
                counted[phase] = proxy.sent - before[0], proxy.passed - before[1]
    except Exception as error:
        frames = traceback.extract_tb(error.__traceback__)
        report.faults.append(f"{where}: {error!r} at {frames[-1].filename}:{frames[-1].lineno}")
        report.missed += proxy.call_off()
        return counted
    report.missed += proxy.call_off()
    report.faults += [f"{where}: {fault}" for fault in await _faults(name, story, beside, path, report)]
    return counted


async def _faults(name: str, story: Story, beside: Daemon, path: Path, report: Report) -> list[str]:
    """What the ledger, the file and a connection that was never cut say against what the client said."""
    faults = []
    async with beside.events(name) as reading:
        events = [event async for event in reading]
    for call_id, result in story.results.items():
        report.calls += 1
        recorded = await beside.call(name, call_id, result.tool).result()
        if recorded != result:
            faults.append(f"{call_id}: {_differences(result, recorded)}")
        faults += _more_than_once(call_id, [event for event in events if event.call_id == call_id])
    if begun := {event.call_id for event in events if event.type == "tool/call"} - set(story.results):
        faults.append(f"calls that nobody asked for: {sorted(begun)}")
    if story.events != [event for event in events if event.seq <= len(story.events)] or not story.events:
        faults.append("the events that were read are not those that were recorded")
    if story.output != OUTPUT:
        faults.append(f"{len(story.output)} bytes of output were read, which are not the {len(OUTPUT)} written")
    if (text := await asyncio.to_thread(path.read_text)) != "=x\n":
        faults.append(f"the file is {text!r}")
    return faults


def _differences(said: CallResult, recorded: CallResult) -> str:
    names = [name for name in CallResult.__slots__ if getattr(said, name) != getattr(recorded, name)]
    return "; ".join(f"{name} was {getattr(said, name)!r}, not {getattr(recorded, name)!r}" for name in names)


def _more_than_once(call_id: str, events: Sequence[Event]) -> list[str]:
    count = Counter(event.type for event in events)
    once = ["tool/call", "call/dispatched", "tool/result"]
    if call_id == EDIT:
        once += ["approval/asked", "approval/decided", "fs/committed"]
    return [f"{call_id} has {count[type]} {type}" for type in once if count[type] != 1]
