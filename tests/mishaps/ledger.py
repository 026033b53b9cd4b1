"""The ledger's disk fills before a call, or between the two records of a commit; then there is room and a new start."""

import asyncio
import json
import signal
from pathlib import Path
from typing import Final

from stockade_client import NoAnswer, connect
from stockade_client.errors import DaemonError
from stockade_client.session import Session
from stockade_client.values import Event
from tests.faults.judge import judged, left_over
from tests.faults.load import END, Job, code, dump
from tests.mishaps.campaign import Counts, Troubled, troubled
from tests.mishaps.disk import Disk

STATE_KIB: Final = 16 * 1024
CALLS: Final = 200  # the most that a ledger without room may still take; a hang detector
MOMENTS: Final = ("before a call", "before publish", "after publish")


async def campaign(directory: Path, counts: Counts) -> None:
    """In an existing directory, whose `state` is a small file system."""
    daemon = troubled(directory, directory / "workspace")
    disk = Disk(directory / "state")
    for number, moment in enumerate(MOMENTS):
        job = Job(number, daemon.address, directory / "workspace", "troubled", "", asyncio.Event())
        try:
            await asyncio.to_thread(daemon.start)
            await _until_refused(daemon, job, directory, disk, moment)
            disk.restore(directory / "none")
            await asyncio.to_thread(daemon.end)
            await asyncio.to_thread(daemon.start)
            events = await _afterwards(daemon, job, counts, moment)
            found = judged(job, events, directory / "workspace") + left_over(directory / "workspace", [job])
            counts.faults += [f"the ledger's disk fills {moment}: {fault}" for fault in found]
            counts.outcomes[f"ledger full {moment}: {_last(events)}"] += 1
        finally:
            if daemon.process is not None:
                daemon.end(signal.SIGTERM)
        (directory / "workspace" / job.file).unlink()


async def _until_refused(daemon: Troubled, job: Job, directory: Path, disk: Disk, moment: str) -> None:
    """Edits until the daemon says that it can record no more."""
    async with connect(daemon.address) as client:
        try:
            async with client.session(directory / "workspace", "troubled", id=job.session_id) as session:
                await session.call_json("read", dump({"path": job.file}), call_id="seen")
                if moment == MOMENTS[0]:
                    disk.fill()
                else:
                    (directory / "next").write_text(json.dumps({"point": moment, "mishap": "ledger full"}))
                for number in range(CALLS):
                    await _edit(session, job, f"mark-{number}")
        except (DaemonError, NoAnswer):
            return
    raise AssertionError("a full disk has not kept the ledger from growing")


async def _edit(session: Session, job: Job, mark: str) -> None:
    job.marks.add(mark)
    arguments = dump({"path": job.file, "old_string": END, "new_string": f"{mark}\n{END}"})
    job.told[mark] = code(await session.call_json("edit", arguments, call_id=mark))


async def _afterwards(daemon: Troubled, job: Job, counts: Counts, moment: str) -> list[Event]:
    """All events of the session, after it has gone on as if nothing had been."""
    async with connect(daemon.address) as client:
        async with client.events(job.session_id) as stream:
            events = [event async for event in stream]
        async with client.session(daemon.directory / "workspace", "troubled", id=job.session_id) as session:
            await session.call_json("read", dump({"path": job.file}))
            await _edit(session, job, "afterwards")
        if job.told["afterwards"] != "ok":
            counts.faults.append(f"{moment}: after a new start an edit ended with {job.told['afterwards']}")
        del job.told["afterwards"]
        return events


def _last(events: list[Event]) -> str:
    """What the last call came to."""
    error = [event.body.get("error") for event in events if event.type == "tool/result"][-1]
    return str(error["code"]) if isinstance(error, dict) else "done"
