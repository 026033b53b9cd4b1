"""Patterns of what entries of `stockade run` printed are of all of it, and of nothing that is not there."""

import json
from pathlib import Path
from typing import Any

from tests.end_to_end.conftest import Stockade

# 200 KiB with a word in the middle, and 9 MiB, of which the profile keeps one.
MIDDLE = "head -c 100000 /dev/zero | tr '\\0' x; echo secret; head -c 100000 /dev/zero | tr '\\0' x"
MUCH = "head -c 9000000 /dev/zero | tr '\\0' x"


def test_what_is_searched_in_an_output_is_searched_in_all_of_it(
    stockade: Stockade, directory: Path, workspace: Path
) -> None:
    def shell(command: str, **expect: Any) -> dict[str, Any]:
        return {"tool": "shell", "args": {"command": command}, "expect": expect}

    entries = [
        shell(MIDDLE, stdout={"$lacks": "secret"}),
        shell(MIDDLE, stdout={"$contains": "secret"}),
        shell(MIDDLE, stdout={"$regex": "^x*secret$"}),
        shell(MIDDLE, value={"stdout": {"$lacks": "secret"}}),
        shell(MIDDLE, stdout={"$lacks": "bytes left out"}),
        shell(MUCH, stdout={"$lacks": "secret"}),
        {"tool": "read", "args": {"path": "a.txt"}, "expect": {"stdout": {"$lacks": "secret"}}},
        {"tool": "read", "args": {"path": "a.txt"}, "expect": {"value": {"size": {"$lacks": "secret"}}}},
    ]
    calls = directory / "calls.jsonl"
    named = [{"name": str(number), **each} for number, each in enumerate(entries)]
    calls.write_text("".join(f"{json.dumps(each)}\n" for each in [{"isolation": "run"}, *named]))
    profile = directory / "short.toml"
    profile.write_text('extends = "ci"\n[limits]\noutput_mb = 1\n')
    done = stockade("run", str(calls), "--profile", str(profile), "--json")
    lines = [json.loads(line) for line in done.stdout.splitlines()]
    assert "summary" in lines[-1], done.stderr
    said = {int(each["name"]): " ".join(each["reasons"]) for each in lines[:-1]}
    assert said[0].startswith('stdout should not contain "secret" and is')
    assert (said[1], said[2], said[4]) == ("", "", "")
    assert said[3].startswith('value.stdout should not contain "secret" and is')
    assert said[5] == ("stdout cannot be told: of stdout, 1048576 of 9000000 bytes were kept, and not the middle")
    assert said[6] == "read should have stdout, and its result has none"
    assert said[7] == 'value.size should not contain "secret" and is 14'
