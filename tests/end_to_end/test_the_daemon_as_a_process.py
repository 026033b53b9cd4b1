"""Starting, stopping and killing `stockaded`, and requests that it cannot take."""

import json
import os
import signal
import socket
import stat
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from stockade_client import connect
from stockade_client.calls import Call
from stockade_client.results import CallResult
from stockade_client.session import Session
from tests.end_to_end.conftest import Stockade
from tests.end_to_end.stockaded import COMMAND_S, Stockaded, running


def test_socket_and_state_are_for_the_daemons_user_alone(stockaded: Stockaded) -> None:
    stockaded.start()
    modes = {path: stat.S_IMODE(path.stat().st_mode) for path in (stockaded.socket, stockaded.state)}
    assert modes == {stockaded.socket: 0o600, stockaded.state: 0o700}
    assert stat.S_IMODE(stockaded.socket.parent.stat().st_mode) == 0o700
    assert [p for p in stockaded.state.rglob("*") if p.lstat().st_mode & 0o077] == []


def test_a_live_socket_is_refused_and_goes_on(stockaded: Stockaded, stockade: Stockade) -> None:
    stockaded.start()
    second = subprocess.run(stockaded.command, capture_output=True, text=True, timeout=COMMAND_S, check=False)
    assert second.returncode == 2
    assert "another daemon" in second.stderr
    assert "--socket" in second.stderr
    assert stockade("catalog", daemon=stockaded).returncode == 0


def test_a_stale_socket_is_replaced(stockaded: Stockaded, stockade: Stockade) -> None:
    stockaded.socket.parent.mkdir(mode=0o700)
    with socket.socket(socket.AF_UNIX) as dead:
        dead.bind(str(stockaded.socket))
    stockaded.start()
    assert stockade("catalog", daemon=stockaded).returncode == 0


def test_a_socket_directory_open_to_others_is_refused(stockaded: Stockaded) -> None:
    stockaded.socket.parent.mkdir()
    stockaded.socket.parent.chmod(0o755)
    done = subprocess.run(stockaded.command, capture_output=True, text=True, timeout=COMMAND_S, check=False)
    assert done.returncode == 2
    assert "chmod 0700" in done.stderr


def test_a_misspelt_configuration_key_names_file_line_and_the_right_key(stockaded: Stockaded) -> None:
    stockaded.configuration.write_text("[daemon]\nworkspace = []\n")
    done = subprocess.run(stockaded.command, capture_output=True, text=True, timeout=COMMAND_S, check=False)
    assert done.returncode == 2
    assert f"{stockaded.configuration}:2" in done.stderr
    assert "workspaces" in done.stderr


async def begun(session: Session, command: str) -> Call:
    """A shell call that has printed its first line."""
    call = await session.start("shell", command=f"echo begun; {command}")
    async with call.output() as chunks:
        async for _ in chunks:
            break
    return call


def printed(result: CallResult) -> str:
    assert isinstance(result.value, dict)
    return str(result.value["stdout"])


async def test_sigterm_lets_a_call_finish_and_its_client_gets_the_result(stockaded: Stockaded, workspace: Path) -> None:
    stockaded.start()
    async with (
        connect(stockaded.address) as daemon,
        daemon.session(workspace=workspace, profile="dev", id="s") as session,
    ):
        call = await begun(session, "sleep 1; echo done")
        assert stockaded.process is not None
        stockaded.process.send_signal(signal.SIGTERM)
        result = await call.result()
    assert result.ok
    assert printed(result) == "begun\ndone\n"
    assert stockaded.process.wait(COMMAND_S) == 0


def test_every_call_has_one_log_line(stockaded: Stockaded, stockade: Stockade) -> None:
    stockaded.start()
    done = stockade("call", "read", '{"path": "a.txt"}', "--profile", "strict", "--json", daemon=stockaded)
    call = json.loads(done.stdout)["id"]
    assert stockaded.end() == 0
    lines = [line for line in stockaded.log.read_text().splitlines() if call in line]
    assert len(lines) == 1
    assert " read ok " in lines[0]


async def test_killed_in_mid_call_it_leaves_no_worker_and_tells_what_is_proven(
    stockaded: Stockaded, stockade: Stockade, workspace: Path
) -> None:
    stockaded.start()
    async with (
        connect(stockaded.address) as daemon,
        daemon.session(workspace=workspace, profile="dev", id="s") as session,
    ):
        call = await begun(session, "echo x > a.txt; setsid sleep 47.21 & exec sleep 47.21  # 47.21")
        assert one_that_runs("47.21")
        stockaded.end(signal.SIGKILL)
        deadline = time.monotonic() + 1
        while left := running("47.21"):
            assert time.monotonic() < deadline, left
    assert (workspace / "a.txt").read_text() == "one\ntwo\nthree\n"
    stockaded.start()
    result = recorded(stockade("ledger", call.call_id, "--json", daemon=stockaded).stdout, "tool/result")
    assert result["error"]["code"] == "TOOL_OUTCOME_UNKNOWN"
    assert "effects: none (proven)" in result["error"]["message"]
    assert list((stockaded.state / "scratch").iterdir()) == []
    assert stockaded.end() == 0


def recorded(lines: str, type: str) -> dict[str, Any]:
    """The body of the one event of this type."""
    (body,) = [event["body"] for event in map(json.loads, lines.splitlines()) if event["type"] == type]
    return dict(body)


async def test_a_template_that_is_killed_costs_its_call_and_no_other(stockaded: Stockaded, workspace: Path) -> None:
    stockaded.start()
    async with (
        connect(stockaded.address) as daemon,
        daemon.session(workspace=workspace, profile="dev", id="s") as session,
    ):
        call = await begun(session, "exec sleep 47.31")
        os.kill(parent_of(parent_of(one_that_runs("47.31"))), signal.SIGKILL)
        result = await call.result()
        assert result.error is not None
        assert result.error.code == "TOOL_OUTCOME_UNKNOWN"
        assert printed(await session.call("shell", command="echo again")) == "again\n"
    assert stockaded.end() == 0


def one_that_runs(word: str) -> int:
    """A process with `word` on its command line, which is empty for a moment while a program is executed."""
    deadline = time.monotonic() + COMMAND_S
    while not (found := running(word)):
        assert time.monotonic() < deadline
    return found[0]


def parent_of(pid: int) -> int:
    return int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1])


BAD = [
    (("call", "no_such_tool", "{}"), 1, "UNKNOWN_TOOL", "read"),
    (("call", "read", '{"pth": "a.txt"}'), 1, "INVALID_ARGS", "path"),
    (("call", "read", '{"path": 1}'), 1, "INVALID_ARGS", "path"),
    (("call", "read", '{"path": "a.txt"'), 1, "INVALID_ARGS", "line 1"),
    (("call", "read", '{"path": "a.txt", "path": "b.txt"}'), 1, "INVALID_ARGS", "twice"),
    (("call", "read", '{"path": "a.txt"}', "--workspace", "/no/such/place"), None, "/no/such/place", "does not exist"),
    (("call", "read", '{"path": "a.txt"}', "--profile", "strcit"), None, "strcit", "strict"),
]


@pytest.mark.parametrize(("words", "status", "said", "remedy"), BAD, ids=[" ".join(case[0][1:])[:40] for case in BAD])
def test_a_bad_request_gets_a_clear_error_and_the_daemon_goes_on(
    stockade: Stockade, words: tuple[str, ...], status: int | None, said: str, remedy: str
) -> None:
    where = () if "--profile" in words else ("--profile", "strict")
    done = stockade(*words, *where)
    printed = done.stdout + done.stderr
    assert done.returncode == status if status is not None else done.returncode != 0
    assert said in printed
    assert remedy in printed
    assert "Traceback" not in printed
    assert stockade("call", "read", '{"path": "a.txt"}', "--profile", "strict").returncode == 0


def test_a_workspace_that_is_not_allowed_is_refused(stockade: Stockade, shared: Stockaded) -> None:
    for place in ("/", "/usr", str(shared.state)):
        done = stockade("call", "read", '{"path": "a.txt"}', "--profile", "strict", "--workspace", place)
        assert done.returncode not in (0, 1)
        assert "workspace" in done.stderr


def test_a_misspelt_profile_key_names_file_line_and_the_right_key(workspace: Path) -> None:
    profile = workspace.parent / "mine.toml"
    profile.write_text('[network]\nmodes = "none"\n')
    environment = {name: value for name, value in os.environ.items() if name != "STOCKADE_ADDRESS"}
    done = subprocess.run(
        [sys.executable, "-m", "stockade_client", "call", "read", '{"path": "a.txt"}', "--profile", str(profile)],
        cwd=workspace,
        env={**environment, "XDG_RUNTIME_DIR": str(workspace.parent)},
        capture_output=True,
        text=True,
        timeout=COMMAND_S,
        check=False,
    )
    assert done.returncode == 2
    assert f"{profile}:2" in done.stderr
    assert "'mode'" in done.stderr


async def test_a_call_can_be_cancelled_while_its_worker_cannot_be_made(stockaded: Stockaded, workspace: Path) -> None:
    stockaded.start()
    assert stockaded.process is not None
    mounter = next(pid for pid in running("stockade_worker.mounter") if _parent(pid) == stockaded.process.pid)
    async with (
        connect(stockaded.address) as daemon,
        daemon.session(workspace=workspace, profile="dev") as session,
    ):
        os.kill(mounter, signal.SIGSTOP)
        call = await session.start("shell", command="true")
        await call.cancel()
        result = await call.result()
    assert result.error is not None
    assert result.error.code == "ABORTED_BEFORE_DISPATCH"
    assert stockaded.end() == 0
    assert mounter not in running("stockade_worker.mounter")


def _parent(pid: int) -> int:
    return int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1])
