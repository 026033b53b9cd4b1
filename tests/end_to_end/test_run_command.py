"""`stockade run`: entries on copies of their own, reports, faults of what they run on, and its exit status."""

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import junitparser
import pytest

from tests.end_to_end.conftest import Stockade
from tests.end_to_end.stockaded import COMMAND_S, Stockaded, running, worker_of
from tests.scripts.snapshot import differences, snapshot

READ = {"tool": "read", "args": {"path": "a.txt"}}


def write(path: Path, *entries: Any) -> str:
    path.write_text("".join(f"{json.dumps(each)}\n" for each in entries))
    return str(path)


def shell(command: str, **expect: Any) -> dict[str, Any]:
    return {"tool": "shell", "args": {"command": command}, "expect": expect}


def cases(report: Path) -> dict[str, junitparser.TestCase]:
    return {case.name: case for suite in junitparser.JUnitXml.fromfile(str(report)) for case in suite}


def test_entries_that_write_one_path_at_once_see_their_own_and_the_workspace_sees_nothing(
    stockade: Stockade, workspace: Path, directory: Path
) -> None:
    before = snapshot(workspace)
    entries = [
        {
            "name": f"entry {number}",
            "calls": [
                READ,
                {"tool": "write", "args": {"path": "same", "content": f"{number}\n"}},
                shell(
                    f"cat same; echo {number} >> same; cat ${{workspace}}/a.txt", stdout=f"{number}\none\ntwo\nthree\n"
                ),
            ],
            "files": {"same": f"{number}\n{number}\n", "a.txt": "one\ntwo\nthree\n", "absent": None},
        }
        for number in range(12)
    ]
    calls, report = write(directory / "calls.jsonl", *entries), directory / "out.xml"
    done = stockade("run", calls, "--profile", "ci", "--jobs", "4", "--junit", str(report))
    assert done.returncode == 0, done.stdout + done.stderr
    assert "12 entries in" in done.stdout
    assert "12 passed" in done.stdout
    assert differences(before, snapshot(workspace)) == []
    read = junitparser.JUnitXml.fromfile(str(report))
    assert (read.tests, read.failures, read.errors, read.skipped) == (12, 0, 0, 0)
    assert [case.name for suite in read for case in suite] == [f"entry {number}" for number in range(12)]
    told = {each.get("name"): each.get("value", "") for each in ElementTree.parse(report).iter("property")}
    assert told["profile"] == "ci"
    assert len(told["profile_digest"]) == 64
    assert "seccomp" in told["layers"]


def test_failures_are_told_by_their_kind_with_where_and_how(
    stockade: Stockade, directory: Path, workspace: Path
) -> None:
    (workspace / "binary").write_bytes(b"\0\1")
    digest = "b413f47d13ee2fe6c845b2ee141af81de858df4ec549a58b7970bb96645bc8d2"
    calls = write(
        directory / "calls.jsonl",
        {"name": "status", **shell("echo why; exit 3")},
        {"name": "status and output", **shell("echo no; exit 3", stdout="yes\n")},
        {"name": "expected status", **shell("exit 3", exit_code=3)},
        {"name": "refused", "tool": "edit", "args": {"path": "a.txt", "old_string": "two", "new_string": "2"}},
        {"name": "expected refusal", "tool": "edit", "args": {"path": "a.txt", "old_string": "two", "new_string": "2"},
         "expect": {"error": {"code": "FS_NOT_OBSERVED", "domain": "policy", "message": {"$contains": "a.txt"}}}},
        {"name": "late", "timeout_s": 0.5, **shell("sleep 60")},
        {"name": "file", **READ, "files": {"a.txt": "one\n2\nthree\n"}},
        {"name": "digest", **READ, "files": {"binary": {"$sha256": digest}}},
    )  # fmt: skip
    report = directory / "out.xml"
    done = stockade("run", calls, "--profile", "ci", "--junit", str(report), "--jobs", "2", "--json")
    assert done.returncode == 1, done.stdout + done.stderr
    lines = [json.loads(line) for line in done.stdout.splitlines()]
    outcomes = {each["name"]: each["outcome"] for each in lines[:-1]}
    assert outcomes == {
        "status": "failed",
        "status and output": "failed",
        "expected status": "passed",
        "refused": "failed",
        "expected refusal": "passed",
        "late": "timeout",
        "file": "failed",
        "digest": "passed",
    }
    reasons = {each["name"]: each["reasons"] for each in lines[:-1]}
    assert reasons["status"] == ["the exit status should be 0 and is 3; it printed\nwhy"]
    told = reasons["status and output"][0]
    assert "no" in told
    assert told.endswith("\nthe exit status should be 0 and is 3")
    assert "-2\n+two" in reasons["file"][0]
    summary = lines[-1]["summary"]
    assert (summary["total"], summary["passed"], summary["failed"], summary["refused"]) == (8, 3, 4, 1)
    assert cases(report)["refused"].result[0].type == "refused"
    assert lines[0]["calls"][0]["layers"]


def test_lines_that_cannot_be_used_stop_the_run_or_only_themselves(
    stockade: Stockade, directory: Path, workspace: Path
) -> None:
    calls = directory / "calls.jsonl"
    calls.write_text(
        '{"name": "good", "tool": "shell", "args": {"command": "true"}}\n{"tool": "raed"}\n'
        '{"tool": "read", "arg": {}}\n'
    )
    report = directory / "out.xml"
    for first, options in ((2, []), (2, ["--keep-going", "--junit", str(report)])):
        done = stockade("run", str(calls), "--profile", "ci", *options)
        assert done.returncode == first
        assert f"{calls}:3:18: 'arg' is no key here; did you mean 'args'?" in done.stderr
        assert f"{calls}:2:2: no tool is called 'raed'; did you mean 'read'?" in done.stderr
        assert ("nothing was run" in done.stderr) == (not options)
    assert "1 passed; 2 lines malformed" in done.stdout
    assert cases(report)["good"].is_passed
    assert cases(report)[f"{calls}:2"].result[0].type == "malformed"
    for arguments, said in (
        ([str(directory / "missing.jsonl")], "cannot read the file of calls"),
        ([str(calls), "--workspace", str(directory / "none")], "'arg' is no key"),
        ([write(directory / "fine.jsonl", READ), "--workspace", str(directory / "none")], "does not exist"),
        ([str(directory / "fine.jsonl"), "--shard", "3/2"], "no part of a whole"),
        ([str(directory / "fine.jsonl"), "--only", "nothing"], "no entry is chosen by --only 'nothing'\n"),
        ([str(directory / "fine.jsonl"), "--junit", str(directory / "no" / "out.xml")], "cannot be written"),
    ):
        done = stockade("run", *arguments, "--profile", "ci")
        assert (done.returncode, done.stdout) == (2, "")
        assert said in done.stderr


def test_a_file_whose_entries_share_a_session_is_played_in_order_on_one_copy(
    stockade: Stockade, directory: Path, workspace: Path
) -> None:
    entries = [
        {"name": "look", **READ},
        {"name": "change", "tool": "edit", "args": {"path": "a.txt", "old_string": "two", "new_string": "2"}},
        {"name": "see", **shell("cat a.txt", stdout="one\n2\nthree\n")},
    ]
    alone = write(directory / "alone.jsonl", *entries)
    done = stockade("run", alone, "--profile", "ci", "--fail-fast")
    assert done.returncode == 1
    assert "1 passed, 1 failed, 1 not run" in done.stdout
    together = write(directory / "together.jsonl", {"isolation": "run"}, *entries)
    done = stockade("run", together, "--profile", "ci")
    assert done.returncode == 0, done.stdout
    done = stockade("run", alone, "--profile", "ci", "--isolation", "run")
    assert done.returncode == 0, done.stdout
    assert (workspace / "a.txt").read_text() == "one\ntwo\nthree\n"


def test_asks_get_the_answers_of_the_file_and_otherwise_no(
    stockade: Stockade, directory: Path, workspace: Path
) -> None:
    asked = {"tool": "write", "args": {"path": "b", "content": "x"}}

    def no(why: str) -> dict[str, Any]:
        return {"error": {"code": "APPROVAL_REJECTED", "message": {"$contains": why}}}

    said = {"allow": False, "says": "not today"}
    calls = write(
        directory / "calls.jsonl",
        {"name": "yes", **asked, "answer": True, "files": {"b": "x"}},
        {"name": "no", **asked, "answer": said, "expect": no("not today"), "files": {"b": None}},
        {"name": "nobody", **asked, "expect": no("--yes")},
    )
    done = stockade("run", calls, "--profile", "dev")
    assert done.returncode == 0, done.stdout
    done = stockade("run", calls, "--profile", "dev", "--only", "nobody", "--yes")
    assert "write should have failed with APPROVAL_REJECTED and succeeded" in done.stdout
    assert not (workspace / "b").exists()


@contextmanager
def started(daemon: Stockaded, workspace: Path, *arguments: str) -> Iterator[subprocess.Popen[str]]:
    with subprocess.Popen(
        [sys.executable, "-m", "stockade_client", "run", *arguments, "--profile", "ci"],
        cwd=workspace,
        env=daemon.environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as process:
        try:
            yield process
        finally:
            process.kill()


def worker_with(word: str, *, but: int = 0) -> int:
    """Waits for a command whose command line has the word; the first process of its worker."""
    while True:
        for pid in running(word):
            worker = worker_of(pid)
            if worker is not None and worker != but:
                return worker


def end_sleep(word: str, number: signal.Signals) -> None:
    """Waits until a worker's process, which may still be about to become it, is `sleep`, and sends it the signal."""
    while True:
        for pid in running(word):
            with suppress(OSError):  # it has ended meanwhile
                if Path(f"/proc/{pid}/comm").read_text() == "sleep\n":
                    os.kill(pid, number)
                    return


def test_a_worker_that_is_killed_from_outside_is_infrastructure_and_played_once_more(
    shared: Stockaded, workspace: Path, directory: Path
) -> None:
    once, always = f"sleep 4{os.getpid()}.25", f"sleep 5{os.getpid()}.25"
    calls = write(
        directory / "calls.jsonl",
        {"name": "once", **shell(f"exec {once}")},
        {"name": "always", **shell(f"exec {always}")},
        {"name": "other", **READ},
    )
    report = directory / "out.xml"
    with started(shared, workspace, calls, "--junit", str(report), "--timeout", "300") as process:
        for word in (once, always):
            first = worker_with(word.split()[1])
            os.kill(first, signal.SIGKILL)
            second = worker_with(word.split()[1], but=first)
            if word == once:
                end_sleep(word.split()[1], signal.SIGKILL)  # the command itself: that is the command's end
            else:
                os.kill(second, signal.SIGKILL)
        out, err = process.communicate(timeout=COMMAND_S)
    assert process.returncode == 1, out + err  # the command that died of a signal
    read = junitparser.JUnitXml.fromfile(str(report))
    assert (read.tests, read.failures, read.errors) == (3, 1, 1)
    found = cases(report)
    assert found["once"].result[0].type == "failed"
    assert found["always"].result[0].type == "infrastructure"
    assert "ended from outside" in found["always"].result[0].message
    assert found["other"].is_passed
    assert "played twice (2):" in out


def test_a_daemon_that_is_killed_and_started_again_costs_the_entry_an_attempt(
    stockaded: Stockaded, workspace: Path, directory: Path
) -> None:
    stockaded.start()
    word = f"6{os.getpid()}.25"
    calls = write(directory / "calls.jsonl", {"name": "long", **shell(f"sleep {word}")}, {"name": "other", **READ})
    with started(stockaded, workspace, calls) as process:
        first = worker_with(word)
        stockaded.end(signal.SIGKILL)
        stockaded.start()
        os.kill(worker_with(word, but=first), 0)
        end_sleep(word, signal.SIGTERM)
        out, err = process.communicate(timeout=COMMAND_S)
    assert process.returncode == 1, out + err
    assert "attempt 2" in out
    assert "played again because of the infrastructure: long: " in out
    assert "1 passed, 1 failed" in out
    assert os.listdir(stockaded.state / "copies") == []


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_what_was_played_before_an_interruption_is_reported(
    shared: Stockaded, workspace: Path, directory: Path, number: signal.Signals
) -> None:
    calls = write(
        directory / "calls.jsonl",
        {"name": "fast", **READ},
        {"name": "slow", **shell("exec sleep 600")},
        {"name": "later", **READ},
    )
    report = directory / "out.xml"
    with started(shared, workspace, calls, "--junit", str(report)) as process:
        assert process.stdout is not None
        assert process.stdout.readline().startswith("ok       fast")
        process.send_signal(number)
        out, _ = process.communicate(timeout=COMMAND_S)
    assert process.returncode == 128 + number
    assert "1 passed, 2 not run" in out
    read = junitparser.JUnitXml.fromfile(str(report))
    assert (read.tests, read.failures, read.errors, read.skipped) == (3, 0, 0, 2)
