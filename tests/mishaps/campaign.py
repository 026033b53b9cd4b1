"""Each mishap at each point of each way of committing, on a small disk; then what bytes, names and ledger say."""

import asyncio
import json
import os
import shutil
import signal
import sys
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from stockade_client import Daemon, connect
from stockade_client.results import CallResult
from stockade_client.session import Session
from stockade_client.values import Event
from tests.end_to_end.stockaded import Stockaded
from tests.mishaps.disk import Disk
from tests.mishaps.points import MISHAPS, STEPS, points

PROFILE: Final = 'extends = "dev"\nwiden = ["approval.writes"]\n[approval]\nwrites = "allow"\n'
ROOT: Final = Path(__file__).parents[2]
OLD: Final = b"old\n" + b"o" * 2000 + b"\n"
NEW: Final = "new" + "n" * 30_000
CODES: Final = frozenset(
    ("FS_IO_ERROR", "FS_CONFLICT", "FS_STALE_VERSION", "FS_PERMISSION_DENIED", "FS_NOT_FOUND", "FS_TOO_LARGE")
)


@dataclass(frozen=True, slots=True)
class Case:
    method: str
    point: str
    mishap: str

    def __str__(self) -> str:
        return f"{self.mishap} {self.point}, {self.method}"


@dataclass(slots=True)
class Counts:
    outcomes: Counter[str] = field(default_factory=Counter)  # "MISHAP: CODE", or done
    not_reached: int = 0  # the commit did not come through the point
    seq: int = 0  # events that have been judged
    faults: list[str] = field(default_factory=list)


def cases() -> list[Case]:
    return [
        Case(method, point, mishap)
        for method in STEPS
        for point in points(method)
        for mishap in MISHAPS
    ]  # fmt: skip


class Troubled(Stockaded):
    """A daemon whose commits meet mishaps."""

    @property
    def command(self) -> list[str]:
        serve = super().command
        return [sys.executable, "-m", "tests.mishaps.daemon", str(self.directory), *serve[serve.index("serve") :]]

    @property
    def environment(self) -> dict[str, str]:
        return {**super().environment, "PYTHONPATH": str(ROOT)}


def troubled(directory: Path, workspace: Path) -> Troubled:
    """One that has not been started; makes its workspace and its profile, `troubled`."""
    workspace.mkdir()
    daemon = Troubled(directory, workspaces=workspace)
    profiles = directory / "profiles"
    profiles.mkdir()
    (profiles / "troubled.toml").write_text(PROFILE)
    with daemon.configuration.open("a") as configuration:
        configuration.write(f'[profiles]\npaths = ["{profiles}"]\n')
    return daemon


async def campaign(directory: Path, chosen: Sequence[Case], counts: Counts) -> None:
    """In an existing directory, whose `disk` is a small file system."""
    disk = directory / "disk"
    workspace = disk / "workspace"
    daemon = troubled(directory, workspace)
    try:
        await asyncio.to_thread(daemon.start)
        async with (
            connect(daemon.address) as client,
            client.session(workspace, "troubled", id="troubled") as session,
        ):
            for number, case in enumerate(chosen):
                await _one(_Place(directory, workspace, number), case, client, session, counts)
        await asyncio.to_thread(daemon.end)
        await asyncio.to_thread(daemon.start)
        async with connect(daemon.address) as client:
            counts.faults += _unsettled(await _events(client))
    finally:
        if daemon.process is not None:
            daemon.end(signal.SIGTERM)


class _Place:
    """The files of one case."""

    def __init__(self, directory: Path, workspace: Path, number: int) -> None:
        self.next = directory / "next"
        self.disk = Disk(directory / "disk")
        self.workspace = workspace
        self.directory = workspace / f"d{number}"
        self.name = "a.txt"

    @property
    def file(self) -> Path:
        return self.directory / self.name

    def path(self) -> str:
        return str(self.file.relative_to(self.workspace))


async def _one(place: _Place, case: Case, client: Daemon, session: Session, counts: Counts) -> None:
    place.directory.mkdir()
    if case.method == "create":
        place.name = "made/a.txt"
    else:
        place.file.write_bytes(OLD)
        await session.call("read", path=place.path())
    if case.method == "in place":
        os.link(place.file, place.directory / "b.txt")
    names = _names(place.workspace)
    place.next.write_text(
        json.dumps(
            {"point": case.point, "mishap": case.mishap, "file": str(place.file), "directory": str(place.directory)}
        )
    )
    if case.method == "create":
        result = await session.call("write", path=place.path(), content=NEW)
        expected = NEW.encode()
    else:
        result = await session.call("edit", path=place.path(), old_string="old", new_string=NEW)
        expected = OLD.replace(b"old", NEW.encode())
    happened = not place.next.exists()
    place.next.unlink(missing_ok=True)
    place.disk.restore(place.directory)
    if not happened:
        counts.not_reached += 1
    counts.outcomes[f"{case.mishap}: {result.error.code if result.error else 'done'}"] += 1
    events = [event for event in await _events(client, after=counts.seq) if event.call_id == result.call_id]
    counts.seq = events[-1].seq
    found = _judged(place, case, result, events, expected, names)
    await _goes_on(place, session, found)
    counts.faults += [f"{case}: {fault}" for fault in found]
    for each in place.workspace.iterdir():
        shutil.rmtree(each)


def _judged(
    place: _Place, case: Case, result: CallResult, events: Sequence[Event], expected: bytes, names: set[str]
) -> list[str]:
    faults = []
    old = None if case.method == "create" else OLD
    present = [
        path.read_bytes() if path.exists() else None
        for path in (place.file, place.workspace / "made-meanwhile" / place.name)
    ]
    made = expected in present
    if result.error is not None:
        if result.error.code not in CODES:
            faults.append(f"ended with {result.error}")
        if result.error.message.rstrip().count(". ") < 1:
            faults.append(f"says no remedy: {result.error.message}")
        if present[0] != old:
            faults.append(f"refused with {result.error}, and the old bytes do not stand")
    elif not made:
        faults.append("done, and the new bytes are nowhere")
    if place.name == "a.txt" and case.method == "in place" and (place.directory / "b.txt").read_bytes() != present[0]:
        faults.append("its two names have other bytes")
    if case.mishap == "read-only" and case.method != "create" and place.file.stat().st_mode & 0o7777 != 0o444:
        faults.append("it is no longer read-only")
    types = [event.type for event in events]
    if ("fs/committed" in types) != made:
        faults.append(f"the new bytes are {'there' if made else 'not there'}, and the ledger has {', '.join(types)}")
    strays = _names(place.workspace) - names - {f"{place.directory.name}/{place.name}", f"{place.directory.name}/made"}
    strays = {name for name in strays if not name.startswith("made-meanwhile")} if made else strays
    if result.error is not None and case.method == "create" and (place.directory / "made").exists():
        strays.add("made/")
    if strays:
        faults.append(f"left {', '.join(sorted(strays))}")
    return faults


async def _goes_on(place: _Place, session: Session, faults: list[str]) -> None:
    """The daemon serves the next call as if nothing had been."""
    after = place.workspace / "after.txt"
    after.write_bytes(b"before\n")
    await session.call("read", path="after.txt")
    result = await session.call("edit", path="after.txt", old_string="before", new_string="after")
    if result.error or after.read_bytes() != b"after\n":
        faults.append(f"the next call ended with {result.error}")
    after.unlink()
    if not place.directory.exists():
        place.directory.mkdir()


async def _events(client: Daemon, after: int = 0) -> list[Event]:
    async with client.events("troubled", after=after) as stream:
        return [event async for event in stream]


def _unsettled(events: Sequence[Event]) -> list[str]:
    """After a restart: every call has its one result, and none of them is left in doubt."""
    results = Counter(event.call_id for event in events if event.type == "tool/result")
    calls = {event.call_id for event in events if event.type == "tool/call"}
    faults = [f"{call}: {results[call]} results" for call in calls if results[call] != 1]
    for event in events:
        if event.type == "tool/result" and "TOOL_OUTCOME_UNKNOWN" in json.dumps(event.body):
            faults.append(f"{event.call_id}: its outcome is unknown, without a crash")
    return faults


def _names(directory: Path) -> set[str]:
    return {str(path.relative_to(directory)) for path in directory.rglob("*")}
