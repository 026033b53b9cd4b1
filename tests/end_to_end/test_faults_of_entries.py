"""What entries of `stockade run` run on fails: in a look, in an earlier call, and where that is what is expected."""

import json
from pathlib import Path

from tests.end_to_end.test_doctor import on_a_host_without
from tests.end_to_end.test_run_command import READ, shell, write

OTHER = {"a.txt": "other"}


def test_a_fault_that_nobody_expects_is_infrastructure_wherever_it_is_met_and_an_expected_one_is_none(
    directory: Path, workspace: Path
) -> None:
    (workspace / "binary").write_bytes(b"\0\1")
    calls = write(
        directory / "calls.jsonl",
        {"name": "look", **READ, "files": {"binary": {"$sha256": "0" * 64}, "../q": None}},
        {"name": "earlier", "calls": [shell("true", ok=False), {**READ, "expect": {"text": "other"}}]},
        {"name": "expected", **shell("true", error="SANDBOX_FAILED"), "files": OTHER},
        {"name": "refused", "tool": "edit", "args": {"path": "a.txt", "old_string": "one", "new_string": "1"},
         "expect": {"error": "FS_NOT_OBSERVED"}, "files": OTHER},
    )  # fmt: skip
    run = on_a_host_without("overlay")
    done = run("run", calls, "--private", "--profile", "ci", "--workspace", str(workspace), "--json")
    found = {each["name"]: each for each in map(json.loads, done.stdout.splitlines()[:-1])}
    assert {name: (each["outcome"], each["attempts"], each["refused"]) for name, each in found.items()} == {
        "look": ("infrastructure", 2, False),
        "earlier": ("infrastructure", 2, False),
        "expected": ("failed", 1, False),
        "refused": ("failed", 1, False),
    }, done.stderr
    assert len(found["look"]["reasons"]) == 1
    assert found["look"]["reasons"][0].startswith("binary cannot be looked at: SANDBOX_FAILED: ")
    assert found["earlier"]["reasons"][0].startswith("call 1 of 2: shell failed with SANDBOX_FAILED: ")
