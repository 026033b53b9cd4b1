"""What commands print, and what they do where it cannot be printed."""

import json
import os
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

Stockade = Callable[..., "subprocess.CompletedProcess[bytes]"]
EDIT = '{"path": "a.txt", "old_string": "two", "new_string": "2"}'
OF_ITS_OWN = b"each `stockade call` without --session is a session of its own; use --session NAME with a running daemon"
ECHO = ("exec", "--profile", "dev", "--", "echo", "hello")


def shell(line: str, *arguments: str, cwd: Path, env: dict[str, str]) -> "subprocess.CompletedProcess[bytes]":
    """Runs `"$@"` with the redirections in `line`."""
    command = [sys.executable, "-m", "stockade_client", *arguments]
    return subprocess.run(
        ["sh", "-c", f'"$@" {line}', "sh", *command], cwd=cwd, env=env, capture_output=True, timeout=60, check=False
    )


@pytest.mark.parametrize("unbuffered", ["", "1"])
@pytest.mark.parametrize(
    ("arguments", "status"),
    [
        (ECHO, 125),
        (("call", "read", '{"path": "a.txt"}', "--profile", "dev"), 3),
        (("call", "read", '{"path": "a.txt"}', "--profile", "dev", "--json"), 3),
        (("catalog",), 3),
        (("sessions",), 3),
        (("--help",), 3),
        (("exec", "--help"), 3),
    ],
)
def test_output_that_cannot_be_written_is_told_in_one_line(
    environment: dict[str, str], workspace: Path, arguments: tuple[str, ...], status: int, unbuffered: str
) -> None:
    done = shell(">/dev/full", *arguments, cwd=workspace, env={**environment, "PYTHONUNBUFFERED": unbuffered})
    assert done.returncode == status, done.stderr
    assert done.stderr.startswith(b"stockade: the output cannot be written: No space left on device; ")
    assert done.stderr.count(b"\n") == 1


def test_a_complaint_that_is_lost_leaves_the_exit_status(environment: dict[str, str], workspace: Path) -> None:
    done = shell("2>/dev/full", "call", "no_such_tool", "--profile", "dev", cwd=workspace, env=environment)
    assert done.returncode == 1


@pytest.mark.parametrize("closed", ["<&-", ">&-", "2>&-", "<&- >&-", "<&- 2>&-", ">&- 2>&-", "<&- >&- 2>&-"])
def test_descriptors_that_are_closed_at_the_start_are_nobody_elses(
    environment: dict[str, str], workspace: Path, closed: str
) -> None:
    done = shell(
        closed, "exec", "--profile", "dev", "--", "sh", "-c", "echo out; echo err >&2", cwd=workspace, env=environment
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout == (b"" if ">&-" in closed.split() else b"out\n")
    assert done.stderr == (b"" if "2>&-" in closed else b"err\n")


def test_a_call_that_reads_from_a_closed_input_reads_nothing(environment: dict[str, str], workspace: Path) -> None:
    done = shell("<&-", "call", "read", "-", "--profile", "dev", cwd=workspace, env=environment)
    assert done.returncode == 1
    assert b"INVALID_ARGS" in done.stderr


def test_a_failure_is_printed_once_and_only_on_stderr(stockade: Stockade) -> None:
    done = stockade("call", "read", '{"path": "absent"}', "--profile", "dev")
    assert done.stdout == b""
    assert done.stderr.count(b"absent does not exist") == 1


def test_what_a_failed_command_had_written_is_on_stdout_without_the_error(stockade: Stockade) -> None:
    arguments = json.dumps({"command": "echo part; sleep 60", "timeout_s": 0.5})
    done = stockade("call", "shell", arguments, "--profile", "dev")
    assert done.returncode == 1
    assert done.stdout.strip() == b"part"
    assert done.stderr.startswith(b"stockade: TOOL_TIMEOUT: ")
    assert done.stderr.count(b"\n") == 1


def test_an_edit_without_a_session_is_told_that_it_had_one_of_its_own(stockade: Stockade, workspace: Path) -> None:
    done = stockade("call", "edit", EDIT, "--profile", "dev")
    assert done.returncode == 1
    assert b"FS_NOT_OBSERVED" in done.stderr
    assert OF_ITS_OWN in done.stderr
    name = f"unseen-{os.getpid()}-{workspace.name}"
    in_a_session = stockade("call", "edit", EDIT, "--profile", "dev", "--session", name)
    assert b"FS_NOT_OBSERVED" in in_a_session.stderr
    assert OF_ITS_OWN not in in_a_session.stderr


def test_an_unknown_tool_of_a_private_daemon_tells_where_tools_of_ones_own_are(stockade: Stockade) -> None:
    said = b"a private daemon answered, which has no tools of your own; set STOCKADE_ADDRESS"
    private = stockade("call", "words", "--profile", "dev", "--private")
    assert private.returncode == 1
    assert private.stderr.startswith(b"stockade: UNKNOWN_TOOL: ")
    assert said in private.stderr.splitlines()[-1]


def test_the_catalog_tells_all_that_a_tool_says_and_what_must_be_given(
    stockade: Stockade, environment: dict[str, str]
) -> None:
    text = stockade("catalog", env={**environment, "COLUMNS": "80"}).stdout.decode()
    tools = {tool["name"]: tool for tool in map(json.loads, stockade("catalog", "--json").stdout.splitlines())}
    words = " ".join(text.split())
    required = {name for tool in tools.values() for name in tool["input_schema"].get("required", [])}
    for tool in tools.values():
        assert tool["description"] in words
        for name, schema in tool["input_schema"]["properties"].items():
            assert schema["description"] in words
            assert (f"*{name} " in text) == (name in required)
    assert "exactly one of: command, argv" in text
    assert max(map(len, text.splitlines())) <= 80


def test_help_tells_what_a_newcomer_trips_over(stockade: Stockade) -> None:
    def words(command: str) -> str:
        return " ".join(stockade(command, "--help").stdout.decode().split())

    call = words("call")
    for fact in ("a session of its own", "--session NAME with a running daemon", "it may be left out", "130", "is ok"):
        assert fact in call
    exec_ = words("exec")
    for fact in ("Standard input is not passed on", "whichever is less", "output_mb", "is then 125"):
        assert fact in exec_


@pytest.mark.parametrize("lines", [10, 8000, 20_000])
def test_a_person_is_told_how_to_read_what_a_model_is_not_shown(stockade: Stockade, lines: int) -> None:
    """8000 lines are short enough for the value and too long for the model, 20,000 are too long for both."""
    text = json.dumps({"command": f"seq {lines}; echo err >&2"})
    done = stockade("call", "shell", text, "--profile", "dev")
    assert done.returncode == 0
    assert b"stockade output" not in done.stdout, "a model has no command line"
    if lines == 10:
        assert done.stderr == b""
        return
    assert b"a command that prints only that part" in done.stdout
    told = re.fullmatch(rb"stockade: stdout is cut here; `stockade (output \S+)` prints all.*\n", done.stderr)
    assert told, done.stderr
    whole = stockade(*told[1].decode().split())
    assert whole.stdout == b"".join(b"%d\n" % number for number in range(1, lines + 1))
    done = stockade("call", "shell", text, "--profile", "dev", "--private")
    assert b"stdout is cut here; `stockade exec` prints all of it" in done.stderr
    assert b"stockade" not in stockade("call", "shell", text, "--profile", "dev", "--json").stderr


def test_half_an_output_does_not_look_like_all_of_it(stockade: Stockade, workspace: Path) -> None:
    profile = workspace / "short.toml"
    profile.write_text('extends = "dev"\nlimits.output_mb = 1\n')
    text = json.dumps({"command": "head -c 1048577 /dev/zero; head -c 1048576 /dev/zero >&2"})
    done = stockade("call", "shell", text, "--profile", str(profile), "--json")
    call_id = json.loads(done.stdout)["id"]
    done = stockade("output", call_id, "--part", "both")
    assert len(done.stdout) == len(done.stderr.partition(b"stockade:")[0]) == 1 << 20
    said = b"stockade: stdout is cut: 1048576 of 1048577 bytes were kept (limits.output_mb of its profile)"
    assert done.stderr.endswith(said + b"\n")
    assert stockade("output", call_id, "--part", "stderr").stderr == b""
    assert stockade("output", call_id, "--limit", "10").stderr == b""
