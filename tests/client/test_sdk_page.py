"""docs/sdk.md: its programs run, and it has every public name."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

import stockade_client
from stockade_client import errors, sync

PAGE = (Path(__file__).parents[2] / "docs" / "sdk.md").read_text()
PROGRAMS = dict(re.findall(r"[Ss]ave this as\s+`([^`]+)`:\n\n```python\n(.*?)^```$", PAGE, re.M | re.S))
SAID = {
    "sdk_example.py": [
        "one",
        "two",
        "three",
        "[a.txt: lines 1-3 of 3] FS_NOT_FOUND",
        "True",
        r"b'begun\n'",
        "ABORTED",
        "tool/result",
    ],
    "sync_example.py": ["bee", "[b.txt: lines 1-1 of 1]", "taken back", "2"],
}


def test_the_page_names_everything_that_is_public() -> None:
    names = set(re.findall(r"\w+", " ".join(re.findall(r"`([^`]+)`", PAGE.replace("```", "")))))
    assert set(stockade_client.__all__) - names == set()
    assert set(sync.__all__) - names == set()


def test_the_page_has_every_error_once() -> None:
    kinds = {
        name
        for name, each in vars(errors).items()
        if isinstance(each, type) and issubclass(each, errors.StockadeError) and each is not errors.StockadeError
    }
    rows = re.findall(r"^\| `(\w+)` \|", PAGE, re.M)
    assert sorted(rows) == sorted(kinds)
    assert kinds <= set(stockade_client.__all__)


@pytest.mark.parametrize("name", SAID)
def test_the_programs_of_the_page_do_what_it_says(workspace: Path, name: str) -> None:
    done = subprocess.run(
        [sys.executable, "-c", PROGRAMS[name]],
        cwd=workspace,
        env={each: value for each, value in os.environ.items() if not each.startswith("STOCKADE")},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines() == SAID[name]


def test_every_program_of_the_page_is_run() -> None:
    assert sorted(PROGRAMS) == sorted(SAID)
    assert PAGE.count("```python") == len(SAID)
