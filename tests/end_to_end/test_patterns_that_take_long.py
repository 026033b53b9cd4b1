"""Regular expressions that would be searched for longer than anybody waits: what they hold up is their own entry."""

import json
import os
import signal
from pathlib import Path
from typing import Any

import pytest

from stockade_client.runs.searching import Searcher, Unsearched
from tests.end_to_end.conftest import Stockade
from tests.end_to_end.stockaded import COMMAND_S, Stockaded, running
from tests.end_to_end.test_run_command import READ, started, write

ENDLESS = "^(a+)+$"
TEXT = "a" * 60 + "!"
SEARCHED: dict[str, Any] = {
    "name": "endless", "tool": "shell", "args": {"command": f"echo {TEXT}"}, "expect": {"stdout": {"$regex": ENDLESS}},
}  # fmt: skip


def searching_for(pid: int) -> list[int]:
    """The processes that search for this one; their last argument is its pid."""
    return running(f"\0{pid}\0")


def test_the_time_of_an_entry_limits_its_searches_and_what_comes_after_is_played(
    stockade: Stockade, directory: Path, workspace: Path
) -> None:
    (workspace / "long.txt").write_text(TEXT)
    call = {"tool": "shell", "args": {"command": "true"}}
    calls = write(
        directory / "calls.jsonl",
        {"isolation": "run"},
        {**SEARCHED, "timeout_s": 2},
        {"name": "a file", "calls": [call, call], "files": {"long.txt": {"$regex": ENDLESS}}, "timeout_s": 2},
        {"name": "a call", "tool": "shell", "args": {"command": "sleep 60"}, "timeout_s": 0.5},
        {"name": "later", **READ, "expect": {"text": {"$regex": "^.*one$"}}},
    )
    done = stockade("run", calls, "--profile", "ci", "--json")
    assert done.returncode == 1, done.stdout + done.stderr
    found = {each["name"]: each for each in map(json.loads, done.stdout.splitlines()[:-1])}
    said = f'the search for the regular expression "{ENDLESS}" took longer; simplify it'
    for name in ("endless", "a file"):
        assert (found[name]["outcome"], found[name]["reasons"]) == ("timeout", [f"it was not over after 2 s; {said}"])
    assert found["a call"]["reasons"] == ["it was not over after 0.5 s; call 1 of 1 was taken back"]
    assert found["later"]["outcome"] == "passed"


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGKILL])
def test_a_search_ends_with_its_run(
    shared: Stockaded, workspace: Path, directory: Path, number: signal.Signals
) -> None:
    calls = write(directory / "calls.jsonl", SEARCHED)
    with started(shared, workspace, calls) as process:
        while not searching_for(process.pid):
            assert process.poll() is None
        process.send_signal(number)
        out, err = process.communicate(timeout=COMMAND_S)
        assert process.returncode == (-number if number == signal.SIGKILL else 128 + number), out + err
    while searching_for(process.pid):
        assert number == signal.SIGKILL  # then the search finds out by itself


async def test_what_cannot_be_told_says_why_and_the_next_search_is_made_all_the_same() -> None:
    async with Searcher(longest_s=0.5) as searcher:
        assert await searcher.found("^ä\udc80$", "a\nä\udc80\n")
        with pytest.raises(Unsearched, match=r"^the search took longer than 0.5 s; simplify it$"):
            await searcher.found(ENDLESS, TEXT)
        assert not await searcher.found("b", "a" * 1_000_000)
        with pytest.raises(Unsearched, match=r"^error: bad character range z-a at position 1$"):
            await searcher.found("[z-a]", "a")
        (pid,) = searching_for(os.getpid())
        os.kill(pid, signal.SIGKILL)
        with pytest.raises(Unsearched, match="ended from outside"):
            await searcher.found("a", "a")
        assert await searcher.found("a", "a")
    assert searching_for(os.getpid()) == []
