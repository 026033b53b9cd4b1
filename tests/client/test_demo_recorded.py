"""The demo's session, recorded and played again."""

import json
from collections.abc import Callable
from pathlib import Path
from subprocess import CompletedProcess

from stockade_client.demo.prepare import FAULTY_FILE
from tests.client.test_demo import git

Stockade = Callable[..., "CompletedProcess[bytes]"]


def test_the_demo_is_green_again_and_differs_where_a_changed_file_is_looked_at(
    stockade: Stockade, prepared: Path, tmp_path: Path
) -> None:
    assert stockade("demo", "--workspace", str(prepared)).returncode == 0
    sessions = [json.loads(line) for line in stockade("sessions", "--json").stdout.splitlines()]
    (session,) = [each["session_id"] for each in sessions if each["workspace"] == str(prepared)]
    recorded = stockade("record", session)
    assert (recorded.returncode, recorded.stderr) == (0, b"")
    calls = tmp_path / "calls.jsonl"
    calls.write_bytes(recorded.stdout)
    git(prepared, "checkout", "--quiet", FAULTY_FILE)
    play = ("run", str(calls), "--profile", "dev", "--workspace", str(prepared), "--json")
    done = stockade(*play)
    assert done.returncode == 0, done.stdout + done.stderr
    assert git(prepared, "status", "--short") == ""
    with (prepared / FAULTY_FILE).open("a") as file:
        file.write("# one line more\n")
    done = stockade(*play)
    assert done.returncode == 1, done.stdout + done.stderr
    *outcomes, last = [json.loads(line) for line in done.stdout.splitlines()]
    differing = [each["calls"][-1]["tool"] for each in outcomes if each["outcome"] != "passed"]
    assert len(outcomes) == len(recorded.stdout.splitlines()) - 1
    # The window that was read and the change have another digest, and git tells of both lines; the tests of the program
    # and what a worker is kept from are as before.
    assert differing == ["read", "edit", "shell"], [each["reasons"] for each in outcomes]
    assert [each["name"].partition(" ")[2] for each in outcomes if each["outcome"] != "passed"][
        2
    ] == "Run git --no-pager diff"
    assert last["summary"]["infrastructure"] == 0
