"""The commands, as a person or a script runs them."""

import json
import os
import pty
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from stockade_client import Daemon

Stockade = Callable[..., "subprocess.CompletedProcess[bytes]"]
EDIT = '{"path": "a.txt", "old_string": "two", "new_string": "2"}'


def test_help_needs_neither_grpc_nor_rich() -> None:
    code = (
        "import sys; from stockade_client.__main__ import main\n"
        "try: main(['--help'])\n"
        "except SystemExit: pass\n"
        "print(sorted({'grpc', 'rich', 'google'} & set(sys.modules)))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.splitlines()[-1] == "[]"


@pytest.mark.parametrize(
    "name",
    ["exec", "call", "agent", "demo", "approve", "sessions", "ps", "cancel", "stop", "ledger", "catalog", "tool"],
)
def test_every_command_has_its_help(stockade: Stockade, name: str) -> None:
    done = stockade(name, "--help")
    assert done.returncode == 0
    assert b"Usage: " in done.stdout


@pytest.mark.parametrize("module", ["click", "stockade_client.commands.exec", "grpc", "stockade_client.private"])
def test_ctrl_c_while_a_module_is_looked_for_is_130_without_a_word(workspace: Path, module: str) -> None:
    code = (
        "import os, signal, sys\n"
        "class Interrupting:\n"
        "    def find_spec(self, name, path=None, target=None):\n"
        f"        if name == {module!r}:\n"
        "            os.kill(os.getpid(), signal.SIGINT)\n"
        "sys.meta_path.insert(0, Interrupting())\n"
        "from stockade_client.__main__ import main\n"
        "main(['exec', '--profile', 'dev', '--private', '--', 'echo', 'ran'])"
    )
    done = subprocess.run([sys.executable, "-c", code], cwd=workspace, capture_output=True, check=False)
    assert (done.returncode, done.stdout, done.stderr) == (130, b"", b"")


def test_exec_passes_bytes_and_status_through(stockade: Stockade) -> None:
    done = stockade("exec", "--profile", "dev", "--", "sh", "-c", r"printf 'a\377\000b'; echo no >&2; exit 7")
    assert done.stdout == b"a\xff\x00b"
    assert done.stderr == b"no\n"
    assert done.returncode == 7


def test_exec_passes_large_outputs_through_whole(stockade: Stockade) -> None:
    done = stockade("exec", "--profile", "dev", "--", "head", "-c", "1500000", "/dev/zero")
    assert done.returncode == 0
    assert done.stdout == bytes(1_500_000)


@pytest.mark.parametrize(
    ("arguments", "status", "complaint"),
    [
        (("--", "sh", "-c", "kill -TERM $$"), 128 + signal.SIGTERM, b""),
        (("--", "sh", "-c", "kill -SEGV $$"), 128 + signal.SIGSEGV, b""),
        (("--timeout", "0.2", "--", "sleep", "60"), 124, b"TOOL_TIMEOUT: the time was up after 0.2 s (--timeout)"),
        (("--", "no-such-program"), 127, b"no-such-program"),
        (("--timeout", "0", "--", "true"), 2, b"--timeout"),
        (("--workspace", "absent", "--", "true"), 2, b"absent"),
        (("--profile", "dve", "--", "true"), 2, b"dve"),
        ((), 2, b"ARGV"),
    ],
)
def test_exec_has_a_status_for_what_is_not_the_programs(
    stockade: Stockade, arguments: tuple[str, ...], status: int, complaint: bytes
) -> None:
    done = stockade("exec", "--profile", "dev", *arguments)
    assert done.returncode == status, done.stderr
    assert complaint in done.stderr


async def test_exec_without_a_timeout_has_all_the_time_of_its_profile(
    stockade: Stockade, daemon: Daemon, workspace: Path
) -> None:
    (workspace / "long.toml").write_text('extends = "dev"\n[limits]\nwall_s = 599\n')
    for options in ((), ("--timeout", "7")):
        done = stockade("exec", "--profile", "./long.toml", *options, "--", "true")
        assert done.returncode == 0, done.stderr
    assert await times(daemon, workspace) == [599, 7]
    (workspace / "short.toml").write_text('extends = "dev"\n[limits]\nwall_s = 0.3\n')
    done = stockade("exec", "--profile", "./short.toml", "--", "sleep", "60")
    assert done.returncode == 124
    assert b"after 0.3 s (limits.wall_s of profile ./short.toml)" in done.stderr


async def times(daemon: Daemon, workspace: Path) -> list[object]:
    """The `timeout_s` of each call that was made in the workspace, in order."""
    found = []
    sessions = [each for each in await daemon.sessions() if each.workspace == str(workspace)]
    for session in sorted(sessions, key=lambda each: each.opened_ms):
        async with daemon.events(session.session_id) as events:
            found += [
                json.loads(str(event.body["arguments"]))["timeout_s"]
                async for event in events
                if event.type == "tool/call"
            ]
    return found


def test_exec_of_what_the_profile_denies_is_126(stockade: Stockade, workspace: Path) -> None:
    (workspace / "deny.toml").write_text('[approval]\ncommands = "deny"\n')
    done = stockade("exec", "--profile", "./deny.toml", "--", "true")
    assert done.returncode == 126
    assert b"DENIED" in done.stderr


def test_options_after_the_program_are_the_programs(stockade: Stockade) -> None:
    done = stockade("exec", "--profile", "dev", "echo", "--profile", "-y")
    assert done.stdout == b"--profile -y\n"


def test_exec_into_a_pipe_that_closes_ends_quietly(environment: dict[str, str], workspace: Path) -> None:
    command = f"{sys.executable} -m stockade_client exec --profile dev -- yes | head -1"
    done = subprocess.run(
        ["bash", "-c", f"{command}; echo ${{PIPESTATUS[0]}}"],
        cwd=workspace,
        env=environment,
        capture_output=True,
        timeout=60,
        check=True,
    )
    assert done.stdout == b"y\n141\n"
    assert done.stderr == b""


def test_call_prints_what_the_model_would_see(stockade: Stockade) -> None:
    done = stockade("call", "read", '{"path": "a.txt"}', "--profile", "dev")
    assert done.returncode == 0
    assert b"two" in done.stdout


def test_call_with_json_prints_one_object(stockade: Stockade) -> None:
    done = stockade("call", "shell", "-", "--profile", "dev", "--json", stdin=b'{"command": "exit 3"}')
    assert done.returncode == 0
    printed = json.loads(done.stdout)
    assert list(printed) == ["id", "tool", "ok", "value", "content", "error", "layers", "usage"]
    assert printed["ok"] is True
    assert printed["value"]["exit_code"] == 3
    assert printed["error"] is None
    assert list(printed["usage"]) == ["wall_s", "cpu_s", "max_rss_bytes", "read_bytes", "written_bytes", "source"]


@pytest.mark.parametrize(
    ("arguments", "code"),
    [
        (("no_such_tool", "{}"), "UNKNOWN_TOOL"),
        (("read", "{}"), "INVALID_ARGS"),
        (("read", '{"path": 1}'), "INVALID_ARGS"),
        (("read", '{"path":'), "INVALID_ARGS"),
        (("edit", EDIT), "FS_NOT_OBSERVED"),
    ],
)
def test_a_call_that_fails_exits_with_1_and_its_code(stockade: Stockade, arguments: tuple[str, ...], code: str) -> None:
    done = stockade("call", *arguments, "--profile", "dev", "--json")
    assert done.returncode == 1
    error = json.loads(done.stdout)["error"]
    assert list(error) == ["code", "message", "domain", "retry"]
    assert error["code"] == code


def test_a_session_goes_on_from_command_to_command(stockade: Stockade, workspace: Path) -> None:
    name = f"goes-on-{os.getpid()}-{workspace.name}"
    opened = stockade("call", "read", '{"path": "a.txt"}', "--session", name, "--profile", "dev")
    assert opened.returncode == 0, opened.stderr
    refused = stockade("call", "edit", EDIT, "--session", name)
    assert refused.returncode == 1
    assert b"nobody to ask: pass --yes or run at a terminal" in refused.stderr
    assert "two" in (workspace / "a.txt").read_text()
    edited = stockade("call", "edit", EDIT, "--session", name, "--yes")
    assert edited.returncode == 0, edited.stderr
    assert (workspace / "a.txt").read_text() == "one\n2\nthree\n"
    listed = stockade("sessions")
    assert name.encode() in listed.stdout
    events = [json.loads(line) for line in stockade("ledger", name, "--json").stdout.splitlines()]
    assert [event["seq"] for event in events] == list(range(1, len(events) + 1))
    call_id = events[-1]["call_id"]
    of_call = stockade("ledger", call_id).stdout.decode().splitlines()
    assert "tool/call" in of_call[0]
    assert any("fs/committed" in line for line in of_call)


def test_a_closed_session_is_named(stockade: Stockade, workspace: Path) -> None:
    name = f"closed-{os.getpid()}-{workspace.name}"
    assert stockade("call", "read", '{"path": "a.txt"}', "--session", name, "--profile", "dev").returncode == 0
    assert stockade("stop", name).returncode == 0
    for more in ((), ("--profile", "dev")):
        done = stockade("call", "read", '{"path": "a.txt"}', "--session", name, *more)
        assert done.returncode == 2
        assert f"session '{name}' is closed, and no call goes on in it".encode() in done.stderr


def test_a_job_that_would_end_with_the_command_is_not_started(stockade: Stockade, workspace: Path) -> None:
    job = '{"command": "true", "background": true}'
    done = stockade("call", "shell", job, "--profile", "dev")
    assert done.returncode == 2
    assert b"--session NAME with a running daemon" in done.stderr
    name = f"jobs-{os.getpid()}-{workspace.name}"
    done = stockade("call", "shell", job, "--profile", "dev", "--session", name, "--yes")
    assert done.returncode == 0, done.stderr
    assert b"runs in the background" in done.stdout
    assert stockade("stop", name).returncode == 0


def test_a_session_without_a_profile_to_open_it_says_so(stockade: Stockade) -> None:
    done = stockade("call", "read", "{}", "--session", "never-opened")
    assert done.returncode == 2
    assert b"--profile" in done.stderr


def test_a_session_needs_a_running_daemon(stockade: Stockade, environment: dict[str, str], scratch: Path) -> None:
    if os.geteuid() == 0:
        pytest.skip("root's default socket is one for the whole host")
    (scratch / "runtime").mkdir(mode=0o700, exist_ok=True)
    alone = {**environment, "XDG_RUNTIME_DIR": str(scratch / "runtime")}
    del alone["STOCKADE_ADDRESS"]
    done = stockade("call", "read", "{}", "--session", "x", "--profile", "dev", env=alone)
    assert done.returncode == 3
    assert b"stockaded serve" in done.stderr


def test_an_address_where_nobody_answers_is_3(stockade: Stockade, environment: dict[str, str], scratch: Path) -> None:
    nobody = {**environment, "STOCKADE_ADDRESS": f"unix:{scratch}/nobody.sock"}
    done = stockade("call", "read", "{}", "--profile", "dev", env=nobody)
    assert done.returncode == 3
    assert b"stockaded serve" in done.stderr
    assert b"Traceback" not in done.stderr
    assert stockade("exec", "--profile", "dev", "--", "true", env=nobody).returncode == 125


def test_a_ledger_of_nothing_is_a_usage_error(stockade: Stockade) -> None:
    done = stockade("ledger", "no-such-thing")
    assert done.returncode == 2
    assert b"stockade sessions" in done.stderr


def test_the_catalog_lists_the_tools(stockade: Stockade) -> None:
    text = stockade("catalog").stdout
    assert b"old_string" in text
    tools = [json.loads(line) for line in stockade("catalog", "--json").stdout.splitlines()]
    assert {"read", "edit", "shell"} <= {tool["name"] for tool in tools}


@pytest.mark.parametrize(("typed", "status", "content"), [(b"y\n", 0, "2"), (b"n\n", 1, "two"), (b"\n", 1, "two")])
def test_a_person_at_a_terminal_is_shown_the_difference_and_asked(
    stockade: Stockade,
    environment: dict[str, str],
    workspace: Path,
    typed: bytes,
    status: int,
    content: str,
) -> None:
    name = f"asked-{os.getpid()}-{workspace.name}"
    stockade("call", "read", '{"path": "a.txt"}', "--session", name, "--profile", "dev")
    person, terminal = pty.openpty()
    with subprocess.Popen(
        [sys.executable, "-m", "stockade_client", "call", "edit", EDIT, "--session", name],
        cwd=workspace,
        env={**environment, "NO_COLOR": "1", "TERM": "xterm"},
        stdin=terminal,
        stdout=terminal,
        stderr=terminal,
    ) as command:
        os.close(terminal)
        shown = b""
        while b"[y/N]" not in shown:
            shown += os.read(person, 4096)
        os.write(person, typed)
        assert command.wait(60) == status
    os.close(person)
    for part in (b"-two", b"+2", b"a.txt", b"dev"):
        assert part in shown
    assert content in (workspace / "a.txt").read_text()


def test_a_signal_at_the_question_is_no_answer_and_ends_the_command(
    environment: dict[str, str], workspace: Path
) -> None:
    (workspace / "ask.toml").write_text('[approval]\ncommands = "ask"\n')
    person, terminal = pty.openpty()
    with subprocess.Popen(
        [sys.executable, "-m", "stockade_client", "exec", "--profile", "./ask.toml", "--", "echo", "ran"],
        cwd=workspace,
        env=environment,
        stdin=terminal,
        stdout=subprocess.PIPE,
        stderr=terminal,
    ) as command:
        os.close(terminal)
        shown = b""
        while b"[y/N]" not in shown:
            shown += os.read(person, 4096)
        command.send_signal(signal.SIGINT)
        out, _ = command.communicate(timeout=60)
    os.close(person)
    assert command.returncode == 130
    assert out == b""


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
@pytest.mark.parametrize("command", ["exec", "call"])
def test_a_signal_takes_the_call_back_and_leaves_no_traceback(
    stockade: Stockade,
    environment: dict[str, str],
    workspace: Path,
    command: str,
    number: signal.Signals,
) -> None:
    endless = "echo begun; while :; do :; done"
    name = f"signalled-{os.getpid()}-{workspace.name}"
    if command == "exec":
        arguments = ["exec", "--profile", "dev", "--", "sh", "-c", endless]
    else:
        arguments = [
            *("call", "shell", json.dumps({"command": endless})),
            *("--json", "--profile", "dev", "--session", name),
        ]
        stockade("call", "read", '{"path": "a.txt"}', "--session", name, "--profile", "dev")
    with subprocess.Popen(
        [sys.executable, "-m", "stockade_client", *arguments],
        cwd=workspace,
        env=environment,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    ) as running:
        assert running.stdout is not None
        if command == "exec":
            assert running.stdout.readline() == b"begun\n"
        else:
            _wait_for_dispatch(environment, name)
        running.send_signal(number)
        out, errors = running.communicate(timeout=60)
    assert running.returncode == 128 + number
    assert b"Traceback" not in errors
    if command == "call":
        assert json.loads(out)["error"]["code"] == "ABORTED"


def _wait_for_dispatch(environment: dict[str, str], session: str) -> None:
    """Follows the ledger until the second call of the session has its worker."""
    with subprocess.Popen(
        [sys.executable, "-m", "stockade_client", "ledger", session, "--follow", "--json"],
        env=environment,
        stdout=subprocess.PIPE,
    ) as follower:
        assert follower.stdout is not None
        dispatched = 0
        for line in follower.stdout:
            dispatched += json.loads(line)["type"] == "call/dispatched"
            if dispatched == 2:
                break
        follower.send_signal(signal.SIGTERM)
