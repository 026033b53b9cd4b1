"""docs/ci.md: its entries pass, its pipelines can be read, and what they run is what there is."""

import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import junitparser
import pytest
import yaml

from stockade_client.runs import patterns, reading
from stockade_client.runs.telling import _WORDS

PAGE = (Path(__file__).parents[2] / "docs" / "ci.md").read_text()
ENTRIES = "".join(re.findall(r"^```jsonl\n(.*?)^```$", PAGE, re.M | re.S))
PIPELINES = [yaml.safe_load(each) for each in re.findall(r"^```yaml\n(.*?)^```$", PAGE, re.M | re.S)]
TEST = "import unittest\n\n\nclass Test(unittest.TestCase):\n    def test_it(self) -> None:\n        pass\n"


def commands(pipeline: Any) -> Iterator[str]:
    if isinstance(pipeline, dict):
        for key, value in pipeline.items():
            if key == "run" and isinstance(value, str):
                yield value
            elif key in ("script", "before_script"):
                yield from value
            else:
                yield from commands(value)
    elif isinstance(pipeline, list):
        for each in pipeline:
            yield from commands(each)


@pytest.fixture
def checkout(workspace: Path) -> Path:
    """What a job has: a package with tests, and the entries of the page in calls/."""
    (workspace / "a.txt").write_text("one\n")
    (workspace / "test_it.py").write_text(TEST)
    (workspace / "calls").mkdir()
    (workspace / "calls" / "page.jsonl").write_text(ENTRIES)
    return workspace


def test_what_the_pipelines_run_can_be_run_and_the_entries_of_the_page_pass(checkout: Path) -> None:
    ours = [line for each in PIPELINES for line in commands(each) if "/stockade " in line]
    assert len(ours) == 4
    program = f"{sys.executable} -m stockade_client "
    counted = 0
    for line in ours:
        line = line.replace(".stockade/bin/stockade ", program)
        for part in ("1", "2") if "--shard" in line else ("",):
            here = re.sub(r"\$\{\{ matrix.part \}\}|\$CI_NODE_INDEX/\$CI_NODE_TOTAL", f"{part}/2", line)
            if part and "CI_NODE" in line:
                continue  # the same command but for how its part is called
            done = subprocess.run(
                ["bash", "-c", here], cwd=checkout, capture_output=True, text=True, timeout=120, check=False
            )
            if "--shard" in line:
                assert done.returncode == 0, done.stdout + done.stderr
                counted += junitparser.JUnitXml.fromfile(str(checkout / "report.xml")).tests
            else:
                assert "profile" in done.stdout, done.stdout + done.stderr
    assert counted == len(ENTRIES.splitlines()) == 4
    assert [job for each in PIPELINES for job in each] == ["name", True, "jobs", "calls"]  # YAML 1.1 reads `on` as true


def test_the_page_has_every_key_and_every_outcome() -> None:
    cells = {name for row in re.findall(r"^\| ([^|]*) \|", PAGE, re.M) for name in re.findall(r"`([^`]+)`", row)}
    keys = {name for name in cells if re.fullmatch("[a-z_]+", name)}
    assert keys == {*reading._ENTRY, *reading._EXPECT}
    assert {name[2:].partition('"')[0] for name in cells if name.startswith('{"$')} == set(patterns.KEYS)
    outcomes = PAGE.partition("| Outcome |")[2].partition("\n\n")[0]
    assert set(re.findall(r"^\| ([a-z ]+) \|", outcomes, re.M)) == {*_WORDS, "malformed"}
