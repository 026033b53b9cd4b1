"""`stockade record`: what a session did is played again, green, and differs exactly where the workspace does."""

import json
import re
from pathlib import Path
from typing import Any

import pytest

from stockade_client import Ask, connect
from stockade_client.runs import patterns
from stockade_client.runs.entries import EntryCall, Expected
from stockade_client.runs.places import Places, as_expression, faults, put_in
from stockade_client.runs.searching import Searcher
from stockade_client.runs.volatile import pattern_of
from tests.end_to_end.conftest import Stockade
from tests.end_to_end.stockaded import Stockaded


async def answer(ask: Ask) -> None:
    await ask.decide("no.txt" not in str(ask.card), "not this one")


async def did(shared: Stockaded, workspace: Path, session_id: str) -> None:
    """A session of most kinds of calls, on a copy, so that the workspace is as it was when it began."""
    async with (
        connect(shared.address) as daemon,
        daemon.session(workspace, "dev", id=session_id, approve=answer, workspace_view="copy") as session,
    ):
        await session.call("edit", path="a.txt", old_string="two", new_string="2")  # refused: not read
        await session.call("read", path="a.txt")
        await session.call("edit", path=f"{workspace}/a.txt", old_string="two", new_string="2")
        await session.call("write", path="no.txt", content="x")  # the person says no
        await session.call("shell", command=f"cat a.txt {workspace}/a.txt; date; date +%s.%Ns >&2; mktemp; exit 3")
        await session.call("shell", command="echo made > made.txt; kill -9 $$")
        await session.call("shell", command="echo made > made.txt; echo '${workspace}'")
        await session.call("read", path="other.txt")
        await session.call_many([("glob", {"pattern": "*.txt"}), ("grep", {"pattern": "one"})])
        await session.call_json("read", b'{"path": ')
        await session.call_json("read", b'["a.txt"]')
        await session.call("nothing")
        await session.call("shell", command="sleep 60", timeout_s=0.2)
        call = await session.start("shell", command="sleep 60")
        await call.cancel()
        await call.result()
        await session.call("todo_write", todos=[{"content": "look", "status": "pending"}])
        await session.close()


async def test_a_recorded_session_is_green_again_and_one_changed_file_changes_what_it_reaches(
    shared: Stockaded, stockade: Stockade, workspace: Path, directory: Path
) -> None:
    (workspace / "other.txt").write_text("other\n")
    await did(shared, workspace, "recorded")
    done = stockade("record", "recorded")
    assert done.returncode == 0, done.stderr
    assert "left out: call" in done.stderr
    assert "ABORTED" in done.stderr
    calls = directory / "calls.jsonl"
    calls.write_text(done.stdout)
    assert str(workspace) not in done.stdout
    header, *lines = [json.loads(line) for line in done.stdout.splitlines()]
    assert header == {"isolation": "run"}
    assert len(lines) == 15
    by_tool = [each["tool"] for each in lines]
    assert by_tool[:4] == ["edit", "read", "edit", "write"]
    assert lines[2]["answer"] is True
    assert lines[3]["answer"] == {"allow": False, "says": "not this one"}

    done = stockade("run", str(calls), "--profile", "dev")
    assert done.returncode == 0, done.stdout + done.stderr
    assert "15 passed" in done.stdout

    elsewhere = directory / "elsewhere"
    elsewhere.mkdir()
    for name, text in (("a.txt", "one\ntwo\nthree\n"), ("other.txt", "changed\n")):
        (elsewhere / name).write_text(text)
    done = stockade("run", str(calls), "--profile", "dev", "--workspace", str(elsewhere), "--json")
    assert done.returncode == 1, done.stdout + done.stderr
    *outcomes, _ = [json.loads(line) for line in done.stdout.splitlines()]
    assert [each["name"] for each in outcomes if each["outcome"] != "passed"] == ["008 Read other.txt"]


async def test_a_call_that_nobody_answered_is_left_out_with_the_reason(
    shared: Stockaded, stockade: Stockade, workspace: Path, directory: Path
) -> None:
    """A run always answers: what came of such a call cannot come of it again."""
    async with connect(shared.address) as daemon:
        async with daemon.session(workspace, "dev", id="unanswered", workspace_view="copy") as session:
            refused = [(await session.call("shell", command="echo x > new")).error]
            await session.call("read", path="a.txt")
        # Profile ci asks only since the link leaves the workspace: the refusal is the gate's.
        async with daemon.session(workspace, "ci", id="protected", workspace_view="copy") as session:
            refused.append((await session.call("shell", command="ln -s /etc/passwd out")).error)
    assert [each.code for each in refused if each] == ["APPROVAL_UNAVAILABLE", "FS_PROTECTED"]
    for session_id, lines in (("unanswered", 2), ("protected", 1)):
        done = stockade("record", session_id)
        assert done.returncode == 0, done.stderr
        assert "nobody answered what call call-" in done.stderr
        assert len(done.stdout.splitlines()) == lines
        if lines > 1:
            calls = directory / "calls.jsonl"
            calls.write_text(done.stdout)
            done = stockade("run", str(calls), "--profile", "dev")
            assert done.returncode == 0, done.stdout + done.stderr
            assert "1 passed" in done.stdout


def test_a_session_that_there_is_not_is_told(stockade: Stockade) -> None:
    done = stockade("record", "nothing-like-it")
    assert done.returncode == 2
    assert "there is no session 'nothing-like-it'" in done.stderr


VOLATILE: list[tuple[str, str, str]] = [
    ("Ran 60 tests in 0.123s\n\nOK (1.5)", "Ran 60 tests in 12.004s\n\nOK (1.5)", "Ran 61 tests in 0.123s\n\nOK (1.5)"),
    ("at 2026-12-03T06:38:55.123Z.", "at 2031-01-13T16:00:00Z.", "at noon."),
    ("Thu Dec  3 06:38:55 UTC 2026\n", "Fri Jan 13 16:00:00 CET 2031\n", "Thu\n"),
    (
        "-rw-r--r-- 1 agent agent 6 Dec  3 17:25 a.txt\n",
        "-rw-r--r-- 1 agent agent 6 Jan 13  2031 a.txt\n",
        "-rw-r--r-- 1 agent agent 6 in Dec a.txt\n",
    ),
    ("<object at 0x7f00deadbeef>", "<object at 0x7fff00112233>", "<object at home>"),
    ("/tmp/tmpab12_xyz/f and /tmp/tmp.aB3dE6gH9j", "/tmp/tmpzzzzzzzz/f and /tmp/tmp.0123456789", "/tmp/x/f and /tmp/y"),
]


@pytest.mark.parametrize(("recorded", "again", "other"), VOLATILE)
async def test_what_is_not_the_same_twice_is_matched_and_nothing_else(recorded: str, again: str, other: str) -> None:
    pattern: Any = pattern_of(recorded)
    assert set(pattern) == {"$regex"}
    assert list(patterns.faults(pattern, ())) == []
    async with Searcher() as searcher:
        for text in (recorded, again):
            assert await patterns.difference(pattern, text, "v", searcher.found) is None
        for text in (other, recorded + "x", "x" + recorded):
            assert await patterns.difference(pattern, text, "v", searcher.found) is not None
    text = "1.5 and 12:30 in 3 s of /w/a or /wide"
    assert pattern_of(put_in(text, "/w", ())) == "1.5 and 12:30 in 3 s of ${workspace}/a or /wide"


@pytest.mark.parametrize(
    "text",
    [
        "${workspace} $${workspace} $$${job 1} ${job 1} ${job x} $${job x} ${job } ${job",
        "/w/job-1 job-2 job-10 12:30:15 of job-1, $ {",
        '{"a": "/w"} \\ "${job 3}"',
    ],
)
async def test_a_text_with_places_is_that_text_again_where_it_is_played(text: str) -> None:
    """Elsewhere, and with jobs of other names: whatever the text says itself about places."""
    placed = put_in(text, "/w", ["job-1", "job-2"])
    assert list(faults(placed, ())) == []
    names = {"/w": "/other/.place", "job-1": "job-a", "job-2": "job-b"}
    wanted = re.sub(r"/w|job-1\b|job-2\b", lambda found: names[found[0]], text)
    places = Places("/other/.place", ["job-a", "job-b"])
    assert places.pattern(placed) == wanted
    expression: Any = places.pattern({"$regex": rf"\A{as_expression(placed)}\Z"})
    assert re.search(expression["$regex"], wanted)
    call = EntryCall("t", json.dumps({"a": [placed]}).encode(), Expected(), None, 1, 1)
    assert json.loads(places.call(call).arguments) == {"a": [wanted]}
