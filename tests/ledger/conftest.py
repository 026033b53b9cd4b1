"""A ledger on a real file, and a session in it."""

from collections.abc import AsyncIterator, Callable
from pathlib import Path

import pytest
import pytest_asyncio

from stockade_daemon.ledger import Ledger, SessionRecord


@pytest.fixture
def path(tmp_path: Path) -> str:
    directory = tmp_path / "state"
    directory.mkdir(mode=0o700)
    return str(directory / "ledger.db")


@pytest.fixture
def record() -> Callable[[str], SessionRecord]:
    def make(session_id: str) -> SessionRecord:
        return SessionRecord(
            session_id=session_id,
            workspace="/srv/project/bl\udce4tter",  # a path that is not UTF-8
            device=64769,
            inode=2**64 - 1,
            profile_name="dev",
            profile_digest="d" * 64,
            profile_source="dev",
            profile_text=b'description = "\xff"\n',
            profile_by_name=True,
            approval_policy="ask",
            state="open",
            opened_ms=1_700_000_000_000,
        )

    return make


@pytest_asyncio.fixture
async def ledger(path: str, record: Callable[[str], SessionRecord]) -> AsyncIterator[Ledger]:
    """With the session "s" open, whose first event is session/opened."""
    async with Ledger.open(path) as ledger:
        await ledger.open_session(record("s"))
        yield ledger
