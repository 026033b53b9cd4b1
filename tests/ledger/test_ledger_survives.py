"""Kills, full disks, damaged and foreign files: on real processes and files."""

import os
import random
import sqlite3
import stat
import subprocess
import sys
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import pytest

from stockade_daemon.errors import ConfigurationError
from stockade_daemon.ledger import Ledger, SessionRecord

APPENDER = Path(__file__).with_name("appender.py")

Make = Callable[[str], SessionRecord]


def appender(path: str, *arguments: str) -> "subprocess.Popen[str]":
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
    return subprocess.Popen(
        [sys.executable, str(APPENDER), path, *arguments],
        stdout=subprocess.PIPE,
        text=True,
        env=environment,
    )


async def test_what_was_acknowledged_survives_a_kill(path: str) -> None:
    seed = random.randrange(2**32)
    print(f"seed {seed}")
    chance = random.Random(seed)
    last = 0
    for _ in range(5):
        with appender(path) as process:
            assert process.stdout is not None
            acknowledged = [int(process.stdout.readline()) for _ in range(chance.randint(1, 400))]
            process.kill()
            acknowledged += [int(line) for line in process.stdout if line.endswith("\n")]
        async with Ledger.open(path) as ledger:
            recorded = [event.seq for event in await ledger.read("s", limit=1_000_000)]
            assert (await ledger.append("s", "after the kill")).seq == len(recorded) + 1
        assert recorded == list(range(1, len(recorded) + 1))
        assert sorted(acknowledged) == list(range(acknowledged[0], acknowledged[0] + len(acknowledged)))
        assert last < acknowledged[0]
        assert acknowledged[-1] <= len(recorded)
        last = len(recorded) + 1


def test_a_full_disk_refuses_writes_says_so_and_still_reads(path: str) -> None:
    with appender(path, str(200_000)) as process:
        assert process.stdout is not None
        lines = process.stdout.read().splitlines()
    assert process.returncode == 0
    numbers = [int(line) for line in lines if line.isdigit()]
    failed, first, second, readable = lines[-4:]
    assert failed.startswith("failed FS_IO_ERROR The ledger ")
    assert failed.endswith("then restart the daemon.")
    assert (first, second) == ("refused", "refused")
    assert readable == f"readable {len(numbers) + 1} True"


async def test_the_files_are_private(path: str, ledger: Ledger) -> None:
    await ledger.append("s", "x")
    for name in (path, f"{path}-wal", f"{path}-shm", f"{path}.lock"):
        assert stat.S_IMODE(os.stat(name).st_mode) == 0o600


async def test_closing_leaves_one_file_and_the_lock(path: str, record: Make) -> None:
    async with Ledger.open(path) as ledger:
        await ledger.open_session(record("s"))
        ledger.note("s", "x")
    assert sorted(os.listdir(os.path.dirname(path))) == ["ledger.db", "ledger.db.lock"]
    async with Ledger.open(path) as ledger:
        assert [event.type for event in await ledger.read("s")] == ["session/opened", "x"]


def put(path: str, content: bytes) -> None:
    Path(path).write_bytes(content)


def content_of(path: str) -> bytes:
    return Path(path).read_bytes()


async def refused(path: str) -> str:
    with pytest.raises(ConfigurationError) as caught:
        async with Ledger.open(path):
            pass
    return str(caught.value)


async def test_a_second_daemon_on_the_same_ledger_is_refused(path: str, ledger: Ledger) -> None:
    text = await refused(path)
    assert f"(process {os.getpid()})" in text
    assert text.startswith(f"{path}: another daemon")
    assert (await ledger.append("s", "x")).seq == 2


async def test_a_second_process_on_the_same_ledger_is_refused_until_the_first_ends(path: str) -> None:
    with appender(path) as process:
        assert process.stdout is not None
        process.stdout.readline()
        assert f"(process {process.pid})" in await refused(path)
        process.kill()
    async with Ledger.open(path):
        pass


@pytest.mark.parametrize("content", [b"no database at all" * 100, b"SQLite format 3\0" + b"\xff" * 4080])
async def test_a_file_that_is_no_database_is_refused_and_left_alone(path: str, content: bytes) -> None:
    put(path, content)
    text = await refused(path)
    assert "is no ledger or is damaged" in text
    assert "--state" in text
    assert content_of(path) == content


async def test_a_truncated_ledger_is_refused(path: str, record: Make) -> None:
    async with Ledger.open(path) as ledger:
        await ledger.open_session(record("s"))
    put(path, content_of(path)[: 8 * 4096])
    assert "damaged" in await refused(path)


async def test_the_database_of_another_program_is_refused_and_left_alone(path: str) -> None:
    with closing(sqlite3.connect(path)) as connection:
        connection.execute("CREATE TABLE theirs (a)")
    before = content_of(path)
    assert "another program" in await refused(path)
    assert content_of(path) == before


async def test_a_newer_ledger_is_refused_and_left_alone(path: str, record: Make) -> None:
    async with Ledger.open(path) as ledger:
        await ledger.open_session(record("s"))
    with closing(sqlite3.connect(path, isolation_level=None)) as connection:
        connection.execute("UPDATE meta SET value = '1000' WHERE key = 'schema_version'")
    text = await refused(path)
    assert "newer Stockade (schema 1000" in text
    with closing(sqlite3.connect(path)) as connection:
        assert connection.execute("SELECT value FROM meta").fetchall() == [("1000",)]


async def test_a_link_in_the_ledgers_place_is_not_followed(path: str) -> None:
    target = Path(path).with_name("target")
    target.write_bytes(b"")
    os.symlink(target, path)
    assert "cannot be opened" in await refused(path)
    assert target.read_bytes() == b""


async def test_a_fifo_in_the_ledgers_place_is_refused_without_waiting(path: str) -> None:
    os.mkfifo(path)
    assert "not a regular file" in await refused(path)


async def test_a_missing_directory_is_refused_with_the_command_that_makes_it(tmp_path: Path) -> None:
    assert f"mkdir -m 0700 {tmp_path}/none" in await refused(str(tmp_path / "none" / "ledger.db"))


async def test_a_directory_that_others_can_write_to_is_refused(path: str) -> None:
    os.chmod(os.path.dirname(path), 0o777)
    assert "chmod 0700" in await refused(path)
