"""The socket of one user, and of several: whose directory, and which modes."""

import os
import re
import stat
from pathlib import Path

import pytest

from stockade_daemon.errors import ConfigurationError, RequestError
from stockade_daemon.gate.copies import Copies
from stockade_daemon.gate.workspace import Workspace
from stockade_daemon.ledger.ledger import Ledger
from stockade_daemon.ledger.records import SessionRecord
from stockade_daemon.pipeline.rules import Rules
from stockade_daemon.pipeline.sessions import Sessions
from stockade_daemon.principals import Identity, broker
from stockade_daemon.rpc.own_socket import socket_of_our_own
from stockade_daemon.sandbox.pool import Pool


def _mode(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


def test_a_directory_that_is_made_is_open_as_far_as_it_has_to_be(tmp_path: Path) -> None:
    for shared, mode in ((False, 0o700), (True, 0o711)):
        socket = tmp_path / str(mode) / "d.sock"
        with socket_of_our_own(socket, shared=shared):
            assert _mode(socket.parent) == mode


@pytest.mark.parametrize(
    ("shared", "mode", "remedy"),
    [(False, 0o711, "0700"), (True, 0o700, "0711"), (True, 0o733, "0711"), (True, 0o1777, "0711")],
)
def test_a_directory_that_is_open_otherwise_is_refused(tmp_path: Path, shared: bool, mode: int, remedy: str) -> None:
    directory = tmp_path / "d"
    directory.mkdir()
    directory.chmod(mode)
    with (
        pytest.raises(
            ConfigurationError, match=re.escape(f"mode {mode:04o}; use another directory, or: chmod {remedy}")
        ),
        socket_of_our_own(directory / "d.sock", shared=shared),
    ):
        pass


@pytest.mark.parametrize("shared", [False, True])
def test_a_directory_that_is_a_symbolic_link_is_refused(tmp_path: Path, shared: bool) -> None:
    real = tmp_path / "real"
    real.mkdir()
    real.chmod(0o711 if shared else 0o700)
    link = tmp_path / "link"
    link.symlink_to("real")
    with (
        pytest.raises(ConfigurationError, match=f"is a symbolic link, .*; name the directory itself .*: {real}$"),
        socket_of_our_own(link / "d.sock", shared=shared),
    ):
        pass
    assert os.listdir(real) == []


def test_whatever_else_has_the_name_of_a_socket_is_left_alone(tmp_path: Path) -> None:
    for place in (tmp_path / "a" / "d.sock", broker(tmp_path / "b" / "d.sock")):
        place.parent.mkdir(mode=0o700)
        place.symlink_to("/etc/passwd")
        with (
            pytest.raises(ConfigurationError, match="is no socket of ours; move it away or choose another --socket"),
            socket_of_our_own(place.parent / "d.sock"),
        ):
            pass
        assert place.is_symlink()


def test_a_directory_of_a_group_will_do(tmp_path: Path) -> None:
    directory = tmp_path / "d"
    directory.mkdir()
    directory.chmod(0o710)
    with socket_of_our_own(directory / "d.sock", shared=True):
        pass


def test_a_broker_that_a_killed_daemon_left_is_removed(tmp_path: Path) -> None:
    """A client would ask it for a token that no daemon knows."""
    socket = tmp_path / "d" / "d.sock"
    socket.parent.mkdir(mode=0o700)
    broker(socket).touch()
    with socket_of_our_own(socket):
        assert not broker(socket).exists()


def test_a_private_daemon_has_its_one_client_answer_whatever_else_is_configured() -> None:
    identity = Identity(shared=True)
    assert not identity.of_uid(os.geteuid(), os.geteuid()).answers_own
    assert Identity(alone=True).of_uid(os.geteuid(), os.geteuid()).answers_own
    assert not Identity(alone=True, said=False).of_uid(os.geteuid(), os.geteuid()).answers_own


def test_a_workspace_that_moves_while_it_is_opened_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Between the look at its path and the opening, somebody puts a link to somewhere else above it."""
    (tmp_path / "secret" / "inside").mkdir(parents=True)
    (tmp_path / "mine").symlink_to("secret")
    before = len(os.listdir("/proc/self/fd"))
    monkeypatch.setattr(os.path, "realpath", lambda path, strict=False: path)
    with pytest.raises(RequestError, match="became another directory while it was being opened"):
        Workspace.open(str(tmp_path / "mine" / "inside"))
    assert len(os.listdir("/proc/self/fd")) == before


async def test_sessions_of_before_belong_to_the_daemons_own_user(tmp_path: Path) -> None:
    state = tmp_path / "state"
    state.mkdir(mode=0o700)
    record = SessionRecord(
        "old", "/", 1, 2, "dev", "d", "dev", b"", True, "ask", "open", 1_700_000_000_000, principal=""
    )
    rules = Rules(private=False, workspaces=(), profile_directories=(), own=(), owner="uid:7")
    async with Ledger.open(str(state / "ledger")) as ledger, Pool.start(state) as pool:
        await ledger.open_session(record)
        sessions = Sessions(ledger, pool, rules, Copies(state / "copies"))
        assert await sessions.owner("old") == "uid:7"
        sessions.close()


def test_a_directory_that_was_made_goes_with_the_daemon_unless_somebody_uses_it(tmp_path: Path) -> None:
    socket = tmp_path / "made" / "d.sock"
    with socket_of_our_own(socket):
        pass
    assert not socket.parent.exists()
    with socket_of_our_own(socket):
        (socket.parent / "another.sock").touch()
    assert socket.parent.exists()
    (socket.parent / "another.sock").unlink()
    with socket_of_our_own(socket):
        pass
    assert socket.parent.exists()  # it was there before
