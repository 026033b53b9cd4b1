"""The programs of docs/examples, run as their reader would: real files, a real daemon, answers on standard input."""

import ast
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from stockade_client import CallResult
from stockade_client.sync import connect

EXAMPLES = Path(__file__).parents[2] / "docs" / "examples"
COMMAND_S = 60.0  # a hang detector
AGENT_LINES = 30


def run(name: str, *arguments: str, stdin: str = "") -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, str(EXAMPLES / name), *arguments],
        input=stdin,
        capture_output=True,
        text=True,
        timeout=COMMAND_S,
        check=False,
    )


@pytest.fixture
def greeting(workspace: Path) -> Path:
    (workspace / "greeting.txt").write_text("hello\n")
    return workspace / "greeting.txt"


@pytest.mark.parametrize("name", ["agent.py", "approver.py", "script.py"])
def test_a_program_that_is_started_wrongly_says_how_to(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("STOCKADE_ADDRESS", raising=False)
    for arguments in ([], ["one", "two", "three"]):
        done = run(name, *arguments)
        assert done.returncode == 2, done
        assert done.stderr.startswith("usage: ")
        assert name in done.stderr
        assert done.stderr.count("\n") == 1


def test_the_agent_changes_a_file_after_a_yes(workspace: Path, greeting: Path) -> None:
    done = run("agent.py", str(workspace), stdin="y\n")
    assert done.returncode == 0, done.stderr
    assert "-hello\n+good day\n" in done.stdout
    assert done.stdout.endswith("model: The edit: done.\n")
    assert greeting.read_text() == "good day\n"


def test_the_agent_is_told_of_a_no(workspace: Path, greeting: Path) -> None:
    done = run("agent.py", str(workspace), stdin="n\n")
    assert "model: The edit: APPROVAL_REJECTED: " in done.stdout, done.stderr
    assert greeting.read_text() == "hello\n"


def test_the_agent_is_as_short_as_it_says() -> None:
    """Lines of code: neither blank, nor comment, nor docstring."""
    text = (EXAMPLES / "agent.py").read_text()
    docstring = ast.parse(text).body[0]
    lines = text.splitlines()[docstring.end_lineno :]
    assert len([line for line in lines if line.strip() and not line.strip().startswith("#")]) <= AGENT_LINES


def test_the_script_counts_asks_and_writes(workspace: Path) -> None:
    done = run("script.py", str(workspace), "a.txt", stdin="y\n")
    assert done.returncode == 0, done.stderr
    assert (workspace / "words.txt").read_text() == "a.txt has 3 words\n"
    _, _, recorded = done.stdout.partition("[y/N] ")
    types = [line.split()[1] for line in recorded.splitlines()]
    assert types == ["tool/call", "tool/result", "tool/call", "approval/decided", "tool/result"]


def test_the_script_says_why_nothing_was_written(workspace: Path) -> None:
    refused = run("script.py", str(workspace), "a.txt", stdin="n\n")
    assert (refused.returncode, refused.stderr.startswith("APPROVAL_REJECTED: ")) == (1, True)
    absent = run("script.py", str(workspace), "none.txt")
    assert (absent.returncode, "none.txt" in absent.stderr) == (1, True)
    assert not (workspace / "words.txt").exists()


def test_the_approver_answers_by_its_rules_until_it_is_stopped(address: str, workspace: Path) -> None:
    with subprocess.Popen(
        [sys.executable, str(EXAMPLES / "approver.py")],
        env={**os.environ, "STOCKADE_ADDRESS": address},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    ) as bot:
        assert bot.stdout is not None
        assert bot.stdout.readline() == "watching\n"
        with connect(address) as daemon, daemon.session(workspace, "dev") as session:
            small = session.call("write", path="notes.md", content="one\n")
            large = session.call("write", path="more.md", content="line\n" * 30)
            other = session.call("write", path="code.py", content="one\n")
        bot.send_signal(signal.SIGINT)
        said, complaints = bot.communicate(timeout=COMMAND_S)
    assert bot.returncode == 0, complaints
    assert small.ok, small.error
    assert "make it in smaller steps" in message(large)
    assert "only Markdown files" in message(other)
    assert said.splitlines()[-1] == "stopped"
    assert [line.split(": ")[1].split(",")[0] for line in said.splitlines()[:3]] == ["yes", "no", "no"]
    assert sorted(path.name for path in workspace.iterdir()) == ["a.txt", "b.txt", "notes.md"]


def message(result: CallResult) -> str:
    return "" if result.error is None else result.error.message
