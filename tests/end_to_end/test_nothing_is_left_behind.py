"""What is left of a daemon that was killed in the middle of a call."""

import os
import subprocess
import sys
from pathlib import Path

from tests.end_to_end.stockaded import COMMAND_S

ROOT = Path(__file__).parents[2]


def test_after_a_kill_in_mid_call_and_the_next_start_nothing_is_left(directory: Path) -> None:
    program = [sys.executable, "-m", "tests.end_to_end.kill_in_mid_call"]
    following = " ".join([*program, "next", str(directory)])
    done = subprocess.run(
        [sys.executable, "tests/leaks.py", "--after-next-start", following, "--", *program, "kill", str(directory)],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=COMMAND_S,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert "TOOL_OUTCOME_UNKNOWN" in done.stdout
    assert os.listdir(directory / "state" / "scratch") == []
    assert not (directory / "run" / "daemon.sock").exists()
