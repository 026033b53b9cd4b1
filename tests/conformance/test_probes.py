"""The gate of the isolation probes. `make probes` asks all of them, through every door; here one profile, one way."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from stockade_daemon import profiles
from tests.conformance import gate, probes
from tests.conformance.run_probes import DOORS, PROFILES

ENOUGH_S = 600  # a hang detector: it takes half a minute


def test_every_probe_of_strict_holds_or_is_listed_with_its_reason(tmp_path: Path) -> None:
    doors = ["exec"]
    report = tmp_path / "report.json"
    asked_for = [word for door in doors for word in ("--door", door)]
    done = subprocess.run(
        [sys.executable, "-m", "tests.conformance.run_probes",
         "--profile", "strict", *asked_for, "--warm", "--quiet", "--json", str(report)],
        cwd=gate.ROOT,
        capture_output=True,
        text=True,
        timeout=ENOUGH_S,
        check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr
    control, *through = json.loads(report.read_text())["runs"]
    assert gate.control_fault({each["id"]: each["verdict"] for each in control["results"]}) == ""
    assert [each["door"] for each in through] == doors
    for run in through:
        said = {each["id"]: each["verdict"] for each in run["results"]}
        asked = probes.chosen(probes.load(), profile="strict", door=run["door"])
        assert set(said) == {probe.id for probe in asked}
        assert list(said.values()).count("HELD") > 100
        if run["door"] == "exec":
            assert {said[probe.id] for probe in asked if probe.must_work} == {"HELD"}


def test_a_control_run_that_mostly_holds_proves_nothing() -> None:
    assert gate.control_fault({"a": "HELD", "b": "HELD", "c": "BROKEN", "works-d": "BROKEN"})
    assert gate.control_fault({"a": "HELD", "b": "BROKEN", "c": "BROKEN"}) == ""


@pytest.mark.parametrize("row", gate.listed(), ids=lambda row: row.probe)
def test_a_listed_probe_exists_and_its_row_names_what_there_is(row: gate.Listed) -> None:
    assert row.probe in {probe.id for probe in probes.load()}
    assert row.profiles <= {*PROFILES, "any"}
    assert row.doors <= {*DOORS, "any"}
    assert row.identities <= {"root", "user", "any"}


def test_a_row_covers_only_what_it_names() -> None:
    row = gate.Listed("p", frozenset({"dev"}), frozenset({"any"}), frozenset({"user"}), "why")
    assert row.covers("p", profile="dev", door="exec", identity="user")
    assert not row.covers("p", profile="dev", door="exec", identity="root")
    assert not row.covers("p", profile="strict", door="exec", identity="user")
    assert not row.covers("q", profile="dev", door="exec", identity="user")


def test_every_shipped_profile_is_asked() -> None:
    assert set(PROFILES) == {path.stem for path in profiles.shipped().glob("*.toml")}
