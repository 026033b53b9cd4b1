"""A few kills in every run of the suite; `make faults` makes hundreds. And the judge sees what it is there for."""

import asyncio
import random
from pathlib import Path

import pytest

from stockade_client.values import Event
from tests.faults import campaign
from tests.faults.judge import judged
from tests.faults.load import END, Job
from tests.faults.points import POINTS, VICTIMS, Fault, drawn

Recorded = tuple[str, dict[str, object]]
CALL: Recorded = ("tool/call", {"tool": "edit"})
DISPATCHED: Recorded = ("call/dispatched", {})
BEGUN: Recorded = ("fs/begun", {})
COMMITTED: Recorded = ("fs/committed", {})
OK: Recorded = ("tool/result", {"ok": True})
Story = tuple[Recorded, ...]


def failed(code: str, effects: str = "") -> Recorded:
    message = f"It ended; effects: {effects}. Look at the state." if effects else "It ended."
    return "tool/result", {"ok": False, "error": {"code": code, "message": message}}


def faults(place: Path, story: Story, *lines: str, told: str | None = None) -> list[str]:
    job = Job(0, "unix:/nowhere", place, "dev", "seed", asyncio.Event())
    job.marks.add("c")
    if told is not None:
        job.told["c"] = told
    (place / job.file).write_text("".join(f"{line}\n" for line in lines) + END)
    events = [Event("session-0", seq, type, "c", 0, body) for seq, (type, body) in enumerate(story, 1)]  # type: ignore[arg-type]
    return judged(job, events, place)


@pytest.mark.parametrize(
    ("story", "lines"),
    [
        ((CALL, DISPATCHED, BEGUN, COMMITTED, OK), ("c",)),
        ((CALL, failed("TOOL_NOT_STARTED")), ()),
        ((CALL, DISPATCHED, failed("TOOL_OUTCOME_UNKNOWN", "none (proven)")), ()),
        ((CALL, DISPATCHED, BEGUN, failed("TOOL_OUTCOME_UNKNOWN", "none (proven)")), ()),
        ((CALL, DISPATCHED, BEGUN, failed("TOOL_OUTCOME_UNKNOWN", "committed (proven): file-0.txt")), ("c",)),
        ((CALL, DISPATCHED, BEGUN, COMMITTED, failed("TOOL_OUTCOME_UNKNOWN", "committed: file-0.txt")), ("c",)),
    ],
)
def test_a_true_story_has_no_fault(tmp_path: Path, story: Story, lines: tuple[str, ...]) -> None:
    assert faults(tmp_path, story, *lines) == []


@pytest.mark.parametrize(
    ("story", "lines", "words"),
    [
        ((CALL, DISPATCHED), (), "0 tool/result"),
        ((CALL, OK, OK), (), "2 tool/result"),
        ((CALL, DISPATCHED, BEGUN, COMMITTED, OK), ("c", "c"), "2 times"),
        ((CALL, DISPATCHED, BEGUN, COMMITTED, OK), (), "without its effect"),
        ((CALL, DISPATCHED, OK), (), "ok without its effect"),
        ((CALL, DISPATCHED, failed("TOOL_FAILED")), ("c",), "without fs/begun"),
        ((CALL, DISPATCHED, BEGUN, failed("TOOL_FAILED")), ("c",), "not recorded as committed"),
        ((CALL, DISPATCHED, failed("TOOL_NOT_STARTED")), (), "after call/dispatched"),
        ((CALL, failed("TOOL_OUTCOME_UNKNOWN", "none (proven)")), (), "without call/dispatched"),
        ((CALL, DISPATCHED, BEGUN, failed("TOOL_OUTCOME_UNKNOWN", "none (proven)")), ("c",), "committed (proven)"),
        ((CALL, DISPATCHED, BEGUN, failed("TOOL_OUTCOME_UNKNOWN")), (), "not said"),
        ((CALL, failed("ABORTED_BEFORE_DISPATCH")), ("who",), "which no edit wrote"),
    ],
)
def test_a_story_that_is_not_true_has_a_fault(tmp_path: Path, story: Story, lines: tuple[str, ...], words: str) -> None:
    found = faults(tmp_path, story, *lines)
    assert any(words in fault for fault in found), found


def test_what_a_client_was_told_is_what_is_recorded(tmp_path: Path) -> None:
    assert faults(tmp_path, (CALL, failed("TOOL_NOT_STARTED")), told="ok") != []


def test_a_campaign_has_each_pair_of_point_and_victim() -> None:
    size = len(POINTS) * len(VICTIMS)
    found = [drawn(number, random.Random(number)) for number in range(size)]
    assert len({(fault.point, fault.victim) for fault in found}) == size
    assert all(Fault.of(fault.argument) == fault for fault in found)


async def test_whatever_is_killed_every_call_has_one_result_and_its_effects_are_what_events_say() -> None:
    seed = random.randrange(10**6)
    first = random.randrange(len(POINTS) * len(VICTIMS))
    print(f"--seed {seed}, from run {first}")
    counts = campaign.Counts()
    # Three pairs, far apart: other points, other victims.
    await campaign.story([first + 17 * number for number in range(3)], seed, counts)
    assert counts.faults == []
    assert counts.kills.total() == 3
    assert counts.calls["ok"]
