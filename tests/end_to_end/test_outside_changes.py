"""Files that a session was shown and that others change meanwhile: told as events, and decided by the bytes alone."""

import asyncio
import hashlib
import os
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest_asyncio

from stockade_client import connect
from stockade_client.session import Session
from tests.end_to_end.profile_admin import HANG_S
from tests.end_to_end.stockaded import Stockaded

PROFILE = 'extends = "dev"\nwiden = ["approval.writes"]\napproval.writes = "allow"\n'


@pytest_asyncio.fixture
async def session(stockaded: Stockaded, workspace: Path) -> AsyncIterator[Session]:
    directory = stockaded.directory / "profiles"
    directory.mkdir(mode=0o755)
    (directory / "mine.toml").write_text(PROFILE)
    stockaded.configuration.write_text(f'{stockaded.configuration.read_text()}[profiles]\npaths = ["{directory}"]\n')
    stockaded.start()
    async with connect(stockaded.address) as daemon, daemon.session(workspace, "mine") as session:
        yield session


async def test_a_change_from_outside_is_told_once_with_its_digest(session: Session, workspace: Path) -> None:
    assert (await session.call("read", path="a.txt")).ok
    assert not (await session.call("read", path="later.txt")).ok
    before = _digest(workspace / "a.txt")
    (workspace / "a.txt").write_text("somebody else's\n")
    (told,) = await _changes(session, 1)
    assert told == {"path": "a.txt", "seen": before, "digest": _digest(workspace / "a.txt")}
    # A file that the session was told is not there, and one that vanishes.
    (workspace / "later.txt").write_text("here\n")
    assert (await _changes(session, 2))[1] == {
        "path": "later.txt",
        "seen": None,
        "digest": _digest(workspace / "later.txt"),
    }
    (workspace / "a.txt").unlink()
    assert (await _changes(session, 3))[2] == {"path": "a.txt", "seen": before, "digest": None}


async def test_what_the_session_writes_itself_is_no_change_from_outside(session: Session, workspace: Path) -> None:
    assert (await session.call("read", path="a.txt")).ok
    for number in range(10):
        old, new = ("two" if number == 0 else f"<{number - 1}>"), f"<{number}>"
        assert (await session.call("edit", path="a.txt", old_string=old, new_string=new)).ok
    # The next change is somebody else's, and the first that is told: by then every one of ours has been looked at.
    seen = _digest(workspace / "a.txt")
    (workspace / "new").write_text("theirs\n")
    os.replace(workspace / "new", workspace / "a.txt")
    (told,) = await _changes(session, 1)
    assert told == {"path": "a.txt", "seen": seen, "digest": _digest(workspace / "a.txt")}


async def test_a_change_that_is_undone_hinders_no_edit(session: Session, workspace: Path) -> None:
    assert (await session.call("read", path="a.txt")).ok
    text = (workspace / "a.txt").read_text()
    (workspace / "a.txt").write_text("for a moment\n")
    assert len(await _changes(session, 1)) == 1
    refused = await session.call("edit", path="a.txt", old_string="two", new_string="2")
    assert refused.error is not None
    assert refused.error.code == "FS_STALE_VERSION"
    (workspace / "a.txt").write_text(text)
    assert (await session.call("edit", path="a.txt", old_string="two", new_string="2")).ok


async def test_a_name_that_is_not_utf_8_beside_a_seen_file_hinders_nothing(session: Session, workspace: Path) -> None:
    assert (await session.call("read", path="a.txt")).ok
    for number in range(3):
        (workspace / os.fsdecode(b"bl\xe4tt" + str(number).encode())).write_text("x\n")
        (workspace.parent / os.fsdecode(b"bl\xe4tt" + str(number).encode())).write_text("x\n")
        (workspace / "a.txt").write_text(f"somebody else's {number}\n")
        told = await _changes(session, number + 1)
        assert told[-1]["digest"] == _digest(workspace / "a.txt")
    assert (await session.call("read", path="a.txt")).ok


async def _changes(session: Session, count: int) -> list[dict[str, Any]]:
    """The bodies of the first `count` events that tell of a change."""
    found: list[dict[str, Any]] = []
    async with asyncio.timeout(HANG_S), session.events(follow=True) as events:
        async for event in events:
            if event.type == "fs/changed":
                found.append(dict(event.body))
            if len(found) == count:
                return found
    raise AssertionError("the events ended")


def _digest(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()
