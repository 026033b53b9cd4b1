"""What was typed and cannot be meant: a message that says what to do, exit status 2, and no traceback."""

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from stockade_client import Daemon, InvalidRequest
from stockade_client.profiles import FILE_BYTES

Stockade = Callable[..., "subprocess.CompletedProcess[bytes]"]
READ = '{"path": "a.txt"}'


def test_a_misspelt_option_before_the_program_is_a_usage_error(stockade: Stockade) -> None:
    done = stockade("exec", "--profile", "strict", "--bogus", "--", "pwd")
    assert done.returncode == 2
    assert b"No such option '--bogus'" in done.stderr.replace(b": --bogus", b" '--bogus'")
    assert b"--timeout" in stockade("exec", "--profile", "strict", "--timeuot", "1", "--", "pwd").stderr


@pytest.mark.parametrize("dashes", [("--",), ()])
def test_options_of_the_program_are_passed_on(stockade: Stockade, dashes: tuple[str, ...]) -> None:
    done = stockade("exec", "--profile", "strict", *dashes, "ls", "-la", "a.txt")
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith(b"-rw")


def test_a_profile_that_is_no_regular_file_is_refused_at_once(stockade: Stockade, workspace: Path) -> None:
    os.mkfifo(workspace / "fifo.toml")
    for place in ("./fifo.toml", "/dev/zero", "/dev/null", "./"):
        done = stockade("exec", "--profile", place, "--", "true")
        assert done.returncode == 2
        assert b"not a regular file" in done.stderr


def test_a_profile_file_has_a_size_that_is_read_whole(stockade: Stockade, workspace: Path) -> None:
    text = b'[approval]\ncommands = "allow"\n'
    (workspace / "largest.toml").write_bytes(text.ljust(FILE_BYTES, b"#"))
    assert stockade("exec", "--profile", "largest.toml", "--", "true").returncode == 0
    (workspace / "larger.toml").write_bytes(text.ljust(FILE_BYTES + 1, b"#"))
    done = stockade("exec", "--profile", "larger.toml", "--", "true")
    assert done.returncode == 2
    assert b"more than 64 KiB" in done.stderr


@pytest.mark.parametrize(
    ("arguments", "option"),
    [
        (("exec", "--profile", "dev", "--workspace", "", "--", "true"), b"--workspace"),
        (("exec", "--profile", "", "--", "true"), b"--profile"),
        (("call", "read", READ, "--profile", "dev", "--session", ""), b"--session"),
        (("call", "read", READ, "--profile", "dev", "--workspace", ""), b"--workspace"),
        (("call", "", READ, "--profile", "dev"), b"TOOL"),
        (("ledger", ""), b"SESSION|CALL"),
        (("demo", "--prepare", ""), b"--prepare"),
        (("exec", "--profile", "dev", "--workspace", "/tmp/\udcff", "--", "true"), b"--workspace"),
        (("exec", "--profile", "d\udcff", "--", "true"), b"--profile"),
        (("call", "read", READ, "--profile", "dev", "--session", "\udcff"), b"--session"),
        (("call", "\udcff", READ, "--profile", "dev"), b"TOOL"),
        (("ledger", "\udcff"), b"SESSION|CALL"),
    ],
)
def test_a_name_that_is_empty_or_not_utf_8_is_a_usage_error(
    stockade: Stockade, arguments: tuple[str, ...], option: bytes
) -> None:
    done = stockade(*arguments)
    assert done.returncode == 2, done.stderr
    assert option in done.stderr
    assert b"it is empty" in done.stderr or b"is not UTF-8" in done.stderr
    assert b"Traceback" not in done.stderr


def test_arguments_that_are_not_utf_8_are_refused_without_a_traceback(stockade: Stockade) -> None:
    for command in (("exec", "--profile", "dev", "--", "echo"), ("call", "--profile", "dev", "read")):
        done = stockade(*command, "\udcff")
        assert done.returncode in (1, 2)
        assert b"INVALID_ARGS" in done.stderr
        assert b"Traceback" not in done.stderr


@pytest.mark.parametrize("place", ["", "/tmp/\udcff"])
async def test_the_library_refuses_them_too(daemon: Daemon, workspace: Path, place: str) -> None:
    with pytest.raises(InvalidRequest, match="the workspace"):
        async with daemon.session(place, "dev"):
            pass
    with pytest.raises(InvalidRequest, match="a session's id"):
        async with daemon.session(workspace, "dev", id=place.removeprefix("/tmp/")):
            pass


def test_a_current_directory_that_was_deleted_is_told(environment: dict[str, str], workspace: Path) -> None:
    script = 'mkdir "$1/gone" && cd "$1/gone" && rmdir "$1/gone" && shift && exec "$@"'

    def there(*arguments: str) -> "subprocess.CompletedProcess[bytes]":
        command = [sys.executable, "-m", "stockade_client", "exec", "--profile", "dev", *arguments]
        return subprocess.run(
            ["sh", "-c", script, "sh", str(workspace), *command],
            env=environment,
            capture_output=True,
            timeout=60,
            check=False,
        )

    done = there("--", "pwd")
    assert done.returncode == 2
    assert b"current directory, which is gone" in done.stderr
    assert b"Traceback" not in done.stderr
    elsewhere = there("--workspace", str(workspace), "--", "pwd")
    assert elsewhere.stdout == f"{workspace}\n".encode()
