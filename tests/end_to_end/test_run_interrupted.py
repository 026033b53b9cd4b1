"""`stockade run` that is interrupted while it begins: its report is of this run, and a line says what happened."""

import signal
from pathlib import Path

import junitparser
import pytest

from tests.end_to_end.conftest import Stockade
from tests.end_to_end.stockaded import COMMAND_S, Stockaded
from tests.end_to_end.test_run_command import started


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
@pytest.mark.parametrize("options", [[], ["--junit", "out.xml"]])
def test_a_run_that_is_interrupted_while_its_private_daemon_starts_reports_that_nothing_was_run(
    shared: Stockaded, workspace: Path, directory: Path, number: signal.Signals, options: list[str]
) -> None:
    calls, report = directory / "calls.jsonl", directory / "out.xml"
    calls.write_text('{"name": "one", "tool": "glob", "args": {"pattern": "*"}}\n{"name": "two", "tool": "glob"}\n')
    report.write_text("of an earlier run")
    place = ["--private", "--workspace", str(workspace)]
    with started(shared, directory, str(calls), *place, *options) as process:
        children = Path(f"/proc/{process.pid}/task/{process.pid}/children")
        while process.poll() is None and not children.read_text():
            pass  # until the private daemon is being started
        process.send_signal(number)
        out, err = process.communicate(timeout=COMMAND_S)
    assert (process.returncode, out) == (128 + number, "")
    if not options:
        assert err == "stockade: interrupted: 0 of 2 entries came to an end\n"
        assert report.read_text() == "of an earlier run"
        return
    assert "interrupted: 0 of 2 entries came to an end; the report 'out.xml' has the others as skipped" in err
    read = junitparser.JUnitXml.fromfile(str(report))
    assert (read.tests, read.failures, read.errors, read.skipped) == (2, 0, 0, 2)


def test_a_run_of_which_nothing_could_be_run_leaves_no_report_of_an_earlier_one(
    stockade: Stockade, workspace: Path, directory: Path
) -> None:
    report = directory / "out.xml"
    for line, malformed in (
        ('{"tool": "raed"}', True),
        ('{"tool": "glob", "arg": {}}', True),
        ('{"tool": "glob"}', False),
    ):
        (directory / "calls.jsonl").write_text(line + "\n")
        report.write_text("of an earlier run")
        place = workspace if malformed else directory / "none"
        arguments = ["--junit", str(report), "--profile", "ci", "--workspace", str(place)]
        done = stockade("run", str(directory / "calls.jsonl"), *arguments)
        assert done.returncode == 2, done.stderr
        read = junitparser.JUnitXml.fromfile(str(report))
        assert (read.errors, read.skipped) == ((1, 0) if malformed else (0, 1))
