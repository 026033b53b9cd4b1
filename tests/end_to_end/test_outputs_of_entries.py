"""Patterns of what entries of `stockade run` printed are of all of it, and of nothing that is not there."""

import json
from pathlib import Path
from typing import Any

from tests.end_to_end.conftest import Stockade

# 200 KiB with a word in the middle, and 9 MiB, of which a profile may keep one.
MIDDLE = "head -c 100000 /dev/zero | tr '\\0' x; echo secret; head -c 100000 /dev/zero | tr '\\0' x"
MUCH = "head -c 9000000 /dev/zero | tr '\\0' x"


def shell(command: str, **expect: Any) -> dict[str, Any]:
    return {"tool": "shell", "args": {"command": command}, "expect": expect}


def told(stockade: Stockade, directory: Path, profile: str, entries: list[dict[str, Any]]) -> list[str]:
    """What is told about each of these entries, which share a session; "" where it passes."""
    calls = directory / "calls.jsonl"
    named = [{"name": str(number), **each} for number, each in enumerate(entries)]
    calls.write_text("".join(f"{json.dumps(each)}\n" for each in [{"isolation": "run"}, *named]))
    done = stockade("run", str(calls), "--profile", profile, "--json")
    lines = [json.loads(line) for line in done.stdout.splitlines()]
    assert done.returncode == 1, done.stderr
    said = {int(each["name"]): " ".join(each["reasons"]) for each in lines[:-1]}
    return [said[number] for number in range(len(entries))]


def test_what_is_searched_in_an_output_is_searched_in_all_of_it(
    stockade: Stockade, directory: Path, workspace: Path
) -> None:
    entries = [
        shell(MIDDLE, stdout={"$lacks": "secret"}),
        shell(MIDDLE, stdout={"$contains": "secret"}),
        shell(MIDDLE, stdout={"$regex": "^x*secret$"}),
        shell(MIDDLE, value={"stdout": {"$lacks": "secret"}}),
        shell(MIDDLE, stdout={"$lacks": "bytes left out"}),
        {"tool": "read", "args": {"path": "a.txt"}, "expect": {"stdout": {"$lacks": "secret"}}},
        {"tool": "read", "args": {"path": "a.txt"}, "expect": {"value": {"size": {"$lacks": "secret"}}}},
    ]
    said = told(stockade, directory, "ci", entries)
    assert said[0].startswith('stdout should not contain "secret" and is')
    assert (said[1], said[2], said[4]) == ("", "", "")
    assert said[3].startswith('value.stdout should not contain "secret" and is')
    assert said[5] == "read should have stdout, and its result has none"
    assert said[6] == 'value.size should not contain "secret" and is 14'
    # This profile keeps 1 MiB of an output.
    (told_of_much,) = told(stockade, directory, "hook", [shell(MUCH, stdout={"$lacks": "secret"})])
    assert told_of_much == "stdout cannot be told: of stdout, 1048576 of 9000000 bytes were kept, and not the middle"
