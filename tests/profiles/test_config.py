"""The daemon's own settings."""

import os
import stat
from pathlib import Path

import pytest

from stockade_daemon import config
from stockade_daemon.errors import ConfigurationError

ROOT = os.geteuid() == 0


def write(directory: Path, text: str) -> Path:
    path = directory / "stockade.toml"
    path.write_text(text)
    return path


def test_every_key_is_read(tmp_path: Path) -> None:
    path = write(
        tmp_path,
        "[daemon]\nsocket = '/a/b.sock'\nstate = '/c'\nworkspaces = ['/w', '/v']\n[profiles]\npaths = ['/p']\n"
        "[tools]\npaths = ['/t']\npackages = ['one']\n"
        "[plugins]\nenabled = ['mine']\n"
        "[ledger]\ndurability = 'power'\nkeep_days = 30\n",
    )
    assert config.load(path, environ={}) == config.Config(
        socket=Path("/a/b.sock"),
        state=Path("/c"),
        workspaces=(Path("/w"), Path("/v")),
        profile_directories=(Path("/p"),),
        tool_directories=(Path("/t"),),
        tool_packages=("one",),
        durability="power",
        keep_days=30,
        plugins=("mine",),
    )


def test_a_flag_wins_over_the_file(tmp_path: Path) -> None:
    path = write(tmp_path, "[daemon]\nsocket = '/a/b.sock'\nstate = '/c'\n")
    found = config.load(path, socket=Path("x.sock"), state=Path("/flag"), environ={})
    assert found.socket == Path.cwd() / "x.sock"
    assert found.state == Path("/flag")


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        (
            "[daemon]\nsockets = '/a'",
            "stockade.toml:2:1: unknown key 'sockets' in [daemon]; the nearest valid key is 'so",
        ),
        (
            "[deamon]\nsocket = '/a'",
            "stockade.toml:1:1: unknown key 'deamon' at the top of the file; the nearest valid k",
        ),
        (
            "[ledger]\ndurability = 'disk'",
            'stockade.toml:2:1: `ledger.durability` is "disk"; it must be "process" or "power"',
        ),
        ("[ledger]\nkeep_days = -1", "from 0 to 36500"),
        ("[daemon]\nsocket = 'a.sock'", "write the absolute path, beginning with /"),
        ("[daemon]\nworkspaces = ['/w', 3]", "element 2 must be a path in quotes, not a whole number"),
        ("[daemon]\nsocket = '/" + "x" * 107 + "'", "stockade.toml:2:1: the socket path"),
    ],
)
def test_a_mistake_is_answered_with_its_line_and_what_is_right(tmp_path: Path, text: str, complaint: str) -> None:
    with pytest.raises(ConfigurationError) as refused:
        config.load(write(tmp_path, text), state=tmp_path, environ={})
    assert complaint in str(refused.value)


def test_a_socket_path_may_have_107_bytes_and_no_more(tmp_path: Path) -> None:
    longest = Path("/" + "x" * 106)
    assert config.load(socket=longest, state=tmp_path, environ={}).socket == longest
    with pytest.raises(ConfigurationError, match="has 108 bytes, and the kernel takes 107; choose a shorter one"):
        config.load(socket=Path("/" + "x" * 107), state=tmp_path, environ={})


def test_an_absent_configuration_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError, match="the configuration cannot be read: No such file or directory"):
        config.load(tmp_path / "absent.toml", environ={})


@pytest.mark.skipif(not ROOT, reason="only root has these places")
def test_roots_places_are_fixed_whatever_the_environment_says() -> None:
    environ = {"HOME": "/home/x", "XDG_RUNTIME_DIR": "/root", "XDG_STATE_HOME": "/x"}
    assert config.default_socket(environ) == Path("/run/stockade/daemon.sock")
    assert config.default_state(environ) == Path("/var/lib/stockade")


@pytest.mark.skipif(ROOT, reason="root's places are fixed")
def test_directories_of_the_environment_are_used_where_they_are_ours(tmp_path: Path) -> None:
    environ = {"HOME": str(tmp_path), "XDG_RUNTIME_DIR": str(tmp_path)}
    assert config.default_socket(environ) == tmp_path / "stockade" / "daemon.sock"
    assert config.default_state(environ) == tmp_path / ".local/state/stockade"
    assert config.default_state({**environ, "XDG_STATE_HOME": "/s"}) == Path("/s/stockade")


@pytest.mark.skipif(ROOT, reason="root's places are fixed")
def test_directories_of_somebody_else_are_not_believed() -> None:
    environ = {"HOME": "/", "XDG_RUNTIME_DIR": "/"}
    assert config.default_socket(environ).parent == Path(f"/tmp/stockade-{os.getuid()}")
    try:
        state = config.default_state(environ)
    except ConfigurationError:  # an account without a home directory
        return
    assert not state.is_relative_to("/.local")


@pytest.mark.skipif(ROOT, reason="root's places are fixed")
def test_a_socket_directory_in_tmp_that_others_may_enter_is_refused() -> None:
    directory = Path(f"/tmp/stockade-{os.getuid()}")
    if directory.exists():
        pytest.skip(f"{directory} is in use")
    directory.mkdir(mode=0o755)
    try:
        assert stat.S_IMODE(directory.stat().st_mode) != 0o700
        with pytest.raises(ConfigurationError, match="choose another place with --socket"):
            config.default_socket({})
    finally:
        directory.rmdir()
