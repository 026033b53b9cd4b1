"""Where a daemon is looked for."""

import os
import socket
from pathlib import Path

import pytest

from stockade_client import NoDaemon
from stockade_client.addresses import answers, default_socket, ours, running_daemon, socket_path


def test_the_named_address_is_taken_although_nobody_answers() -> None:
    assert running_daemon({"STOCKADE_ADDRESS": "unix:/nowhere/daemon.sock"}) == "unix:/nowhere/daemon.sock"


@pytest.mark.parametrize("address", ["localhost:443", "/run/daemon.sock", "unix:daemon.sock", "unix:"])
def test_an_address_that_is_no_socket_path_is_refused(address: str) -> None:
    with pytest.raises(NoDaemon, match="unix:/path/daemon"):
        running_daemon({"STOCKADE_ADDRESS": address})


def test_a_path_that_no_socket_can_have_is_refused() -> None:
    with pytest.raises(NoDaemon, match="shorter"):
        socket_path("unix:/" + "x" * 107)


def test_both_spellings_of_an_absolute_path_are_the_same() -> None:
    assert socket_path("unix:/a/b") == socket_path("unix:///a/b") == "/a/b"


def test_each_uid_has_its_own_default_socket(tmp_path: Path) -> None:
    assert default_socket({"XDG_RUNTIME_DIR": "/run/user/0"}, 0) == "/run/stockade/daemon.sock"
    uid = os.geteuid() or 7
    os.chown(tmp_path, uid, -1)
    assert default_socket({"XDG_RUNTIME_DIR": str(tmp_path)}, uid) == f"{tmp_path}/stockade/daemon.sock"
    # A directory that is not there, or somebody else's, is no place to meet.
    assert default_socket({"XDG_RUNTIME_DIR": "/run/nowhere"}, uid) == f"/tmp/stockade-{uid}/daemon.sock"
    assert default_socket({"XDG_RUNTIME_DIR": str(tmp_path)}, uid + 1) == f"/tmp/stockade-{uid + 1}/daemon.sock"
    assert default_socket({}, uid) == f"/tmp/stockade-{uid}/daemon.sock"


def test_only_a_closed_directory_of_our_own_is_trusted(tmp_path: Path) -> None:
    uid = tmp_path.stat().st_uid
    directory = tmp_path / "stockade"
    directory.mkdir(mode=0o700)
    link = tmp_path / "link"
    link.symlink_to(directory)
    assert ours(str(directory), uid)
    assert not ours(str(directory), uid + 1)
    assert not ours(str(link), uid)
    assert not ours(str(tmp_path / "absent"), uid)
    directory.chmod(0o750)
    assert not ours(str(directory), uid)


def test_a_socket_that_nobody_listens_on_is_no_daemon(scratch: Path) -> None:
    path = str(scratch / "probe.sock")
    with socket.socket(socket.AF_UNIX) as listening:
        listening.bind(path)
        assert not answers(path)
        listening.listen()
        assert answers(path)
    assert not answers(path)
