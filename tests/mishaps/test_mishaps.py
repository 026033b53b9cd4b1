"""Some mishaps in every run of the suite; `make mishaps` has each at each point."""

import random
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


@pytest.mark.parametrize("methods", [("replace", "create", "in place"), ("ledger",)], ids=["workspace", "ledger"])
def test_whatever_happens_to_a_disk_the_old_bytes_stand_or_the_new_ones_do(methods: tuple[str, ...]) -> None:
    command = [sys.executable, "-m", "tests.mishaps", "--every", "17", "--from", str(random.randrange(17)), *methods]
    print(*command)
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
    print(done.stdout)
    if done.returncode == 77:
        pytest.skip(done.stderr.strip())
    assert (done.returncode, done.stderr) == (0, "")
