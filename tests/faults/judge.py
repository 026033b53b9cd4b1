"""What must be true of ledger and disk, whatever was killed: every fault that is found, in words."""

import re
from collections import Counter, defaultdict
from collections.abc import Sequence
from pathlib import Path

from stockade_client.values import Event
from tests.faults.load import END, Job

NOTHING = "none (proven)"
BEFORE_DISPATCH = ("TOOL_NOT_STARTED", "ABORTED_BEFORE_DISPATCH", "SANDBOX_FAILED")


def judged(job: Job, events: Sequence[Event], workspace: Path) -> list[str]:
    """Faults of one session."""
    faults = []
    if [event.seq for event in events] != list(range(1, len(events) + 1)):
        faults.append("its events are not numbered 1, 2, 3 …")
    stories: dict[str, list[Event]] = defaultdict(list)
    for event in events:
        if event.call_id:
            stories[event.call_id].append(event)
    lines = (workspace / job.file).read_text().splitlines(keepends=True)
    if not lines or lines[-1] != END:
        faults.append(f"{job.file} has lost its end")
    there = Counter(line.rstrip("\n") for line in lines[:-1])
    faults += [f"{job.file} has {line!r}, which no edit wrote" for line in there if line not in job.marks]
    for call_id, story in stories.items():
        faults += [f"{call_id}: {fault}" for fault in _of_call(story, there.get(call_id, 0), job.told.get(call_id))]
    faults += [
        f"{call_id}: was told to the client and is not recorded" for call_id in job.told if call_id not in stories
    ]
    return [f"{job.session_id}: {fault}" for fault in faults]


def _of_call(story: Sequence[Event], times: int, told: str | None) -> list[str]:
    """`times`: how often the call's mark is on the disk. `told`: what its client was told."""
    types = Counter(event.type for event in story)
    faults = [f"{types[type]} {type}" for type in ("tool/call", "tool/result") if types[type] != 1]
    if faults:
        return faults
    if story[0].type != "tool/call":
        faults.append(f"begins with {story[0].type}")
    result = next(event.body for event in story if event.type == "tool/result")
    error = result.get("error")
    code = str(error["code"]) if isinstance(error, dict) else "ok"
    if told not in (None, code):
        faults.append(f"recorded as {code} and told as {told}")
    if times > 1:
        faults.append(f"its effect is on the disk {times} times")
    for type in ("call/dispatched", "fs/begun", "fs/committed"):
        if types[type] > 1:
            faults.append(f"{types[type]} {type}")
    if code in BEFORE_DISPATCH and types["call/dispatched"]:
        faults.append(f"{code} after call/dispatched")
    if types["fs/committed"] and not times:
        faults.append("fs/committed without its effect")
    if times and not types["fs/begun"]:
        faults.append("an effect without fs/begun")
    if code == "TOOL_OUTCOME_UNKNOWN":
        assert isinstance(error, dict)
        said = re.search(r"effects: (.*?)\. (?:Look|It changed)", str(error["message"]))
        faults += _of_unknown(said[1] if said else "not said", types, times)
    elif times and not types["fs/committed"]:
        faults.append(f"{code} with an effect that was not recorded as committed")
    elif code == "ok" and story[0].body.get("tool") == "edit" and not times:
        faults.append("ok without its effect")
    return faults


def _of_unknown(effects: str, types: Counter[str], times: int) -> list[str]:
    """An unknown outcome wants a dispatched call, and says of its effects what events and disk do."""
    faults = [] if types["call/dispatched"] else ["unknown without call/dispatched"]
    expected = "committed:" if types["fs/committed"] else "committed (proven):" if times else NOTHING
    if not effects.startswith(expected):
        faults.append(f"unknown with effects {effects!r}, where events and disk say {expected!r}")
    if not types["fs/begun"] and effects != NOTHING:
        faults.append(f"unknown with effects {effects!r} and no fs/begun")
    return faults


def left_over(workspace: Path, jobs: Sequence[Job]) -> list[str]:
    known = {job.file for job in jobs}
    return [f"{path.name} is left in the workspace" for path in workspace.iterdir() if path.name not in known]
