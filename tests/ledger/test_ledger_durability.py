"""What an answer survives. A kill is tried; a power cut is not, so what is shown is that the disk was asked to sync
before there was an answer: the kernel is made to refuse, and then there is none.
"""

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from stockade_daemon.ledger import Ledger, SessionRecord
from stockade_daemon.ledger.file import opened
from stockade_daemon.values import Durability

Make = Callable[[str], SessionRecord]

HANG_S = 60  # a hang detector


def without_sync(path: str, durability: str, when: str) -> str:
    done = subprocess.run(
        [sys.executable, "-m", "tests.ledger.no_sync", path, durability, when],
        cwd=Path(__file__).parents[2],
        capture_output=True,
        text=True,
        timeout=HANG_S,
        check=True,
    )
    return done.stdout.strip()


def test_power_answers_only_what_the_disk_has_synced(path: str) -> None:
    assert without_sync(path, "power", "append") == "refused FS_IO_ERROR"


def test_process_answers_without_waiting_for_the_disk(path: str) -> None:
    assert without_sync(path, "process", "append") == "answered 2"


def test_process_syncs_when_it_is_asked_to_and_says_where_the_disk_refuses(path: str) -> None:
    assert without_sync(path, "process", "sync") == "answered 2\nrefused FS_IO_ERROR"


def test_power_syncs_the_names_of_its_files_or_does_not_begin(path: str) -> None:
    said = without_sync(path, "power", "open")
    assert said.startswith(f"{Path(path).parent}: cannot be synced (Input/output error)")
    assert said.endswith('or set [ledger] durability = "process"')


def test_a_long_output_is_synced_when_it_is_asked_for(tmp_path: Path) -> None:
    assert without_sync(str(tmp_path / "output"), "power", "output") == "not synced Input/output error"


@pytest.mark.parametrize(("durability", "synchronous"), [("process", 1), ("power", 2)])
def test_sqlite_says_which_it_is(path: str, durability: Durability, synchronous: int) -> None:
    """1 is NORMAL, 2 is FULL: sqlite.org/pragma.html#pragma_synchronous."""
    with opened(path, durability) as connection:
        assert connection.execute("PRAGMA synchronous").fetchone() == (synchronous,)
        assert connection.execute("PRAGMA journal_mode").fetchone() == ("wal",)


async def test_a_ledger_can_change_from_one_to_the_other(path: str, record: Make) -> None:
    wanted: tuple[Durability, ...] = ("process", "power", "process")
    for number, durability in enumerate(wanted):
        async with Ledger.open(path, durability=durability) as ledger:
            await ledger.open_session(record(f"s{number}"))
            assert [each.session_id for each in await ledger.sessions()] == [f"s{each}" for each in range(number + 1)]
