"""`stockade run` at a terminal: a progress bar while it goes on, which is gone when the last words stand there."""

import json
import os
import re
import subprocess
import sys
from pathlib import Path

from tests.end_to_end.conftest import Stockade
from tests.end_to_end.stockaded import COMMAND_S, Stockaded

ENTRIES = [
    *({"name": f"good {number}", "tool": "read", "args": {"path": "a.txt"}} for number in range(3)),
    {"name": "bad", "tool": "read", "args": {"path": "none.txt"}},
]


def at_a_terminal(daemon: Stockaded, workspace: Path, *arguments: str) -> tuple[int, str, str]:
    """Exit status, what the terminal got, and standard output, which is none."""
    ours, its = os.openpty()
    try:
        with subprocess.Popen(
            [sys.executable, "-m", "stockade_client", "run", *arguments, "--profile", "ci"],
            cwd=workspace,
            env={**daemon.environment, "TERM": "xterm", "COLUMNS": "100"},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=its,
            text=True,
        ) as process:
            os.close(its)
            out, _ = process.communicate(timeout=COMMAND_S)
        got = b""
        try:
            while data := os.read(ours, 1 << 16):
                got += data
        except OSError:
            pass  # EIO: nobody has the other side open any more (pty(7))
        return process.returncode, got.decode(), out
    finally:
        os.close(ours)


def test_a_terminal_has_a_bar_and_lines_only_for_what_did_not_pass(
    shared: Stockaded, workspace: Path, directory: Path
) -> None:
    calls = directory / "calls.jsonl"
    calls.write_text("".join(json.dumps(each) + "\n" for each in ENTRIES))
    status, shown, out = at_a_terminal(shared, workspace, str(calls))
    assert status == 1
    bars = re.findall(r"entries[^\r\n]*?(\d)/4", shown)
    assert bars, repr(shown)
    assert bars[-1] == "4"
    assert bars == sorted(bars)
    assert re.search(r"\x1b\[[012]?K[^4]*$", shown), "the bar is not taken away"
    lines = out.splitlines()
    assert [line[:6] for line in lines if line.endswith(":4")] == ["FAILED"]
    assert not any("good" in line for line in lines[: lines.index("slowest:")])
    assert "4 entries in " in out
    assert "\x1b" not in out


def test_what_is_no_terminal_has_a_line_for_each_entry_and_no_bar(
    stockade: Stockade, shared: Stockaded, workspace: Path, directory: Path
) -> None:
    calls = directory / "calls.jsonl"
    calls.write_text("".join(json.dumps(each) + "\n" for each in ENTRIES))
    done = stockade("run", str(calls), "--profile", "ci")
    assert (done.returncode, done.stderr) == (1, "")
    assert [line[:2] for line in done.stdout.splitlines()[:3]] == ["ok"] * 3
    assert "\x1b" not in done.stdout
    status, shown, out = at_a_terminal(shared, workspace, str(calls), "--json")
    assert (status, shown) == (1, "")
    assert [json.loads(line).get("outcome") for line in out.splitlines()] == [*["passed"] * 3, "failed", None]
