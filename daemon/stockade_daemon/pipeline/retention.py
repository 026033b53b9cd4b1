"""Retention: closed sessions that are old enough leave the ledger, whole, with the files of their calls.

At the daemon's start and once a day. The files go first: where the daemon ends in between, the session is still there,
and the next time finds it again.
"""

import asyncio
import logging
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Final

from stockade_daemon.errors import InfrastructureFailure
from stockade_daemon.ledger.ledger import Ledger
from stockade_daemon.pipeline.kept_bytes import FILES, file_of

_log = logging.getLogger(__name__)
_DAY_S: Final = 24 * 60 * 60


async def expire(ledger: Ledger, outputs: Path, *, before_ms: int) -> int:
    """Removes the closed sessions in which nothing was recorded since `before_ms`; how many they were.

    Raises InfrastructureFailure (the ledger), OSError (a file of `outputs`).
    """
    removed = 0
    for session_id in await ledger.expired(before_ms):
        calls = await ledger.call_ids(session_id)
        await asyncio.to_thread(_remove, [file_of(outputs, session_id, each, part) for each in calls for part in FILES])
        removed += await ledger.remove_session(session_id, before_ms)
    return removed


@asynccontextmanager
async def keeping(ledger: Ledger, outputs: Path, *, keep_days: int, every_s: float = _DAY_S) -> AsyncIterator[None]:
    """Expires now, and daily while the block runs. `keep_days` 0: never."""
    if not keep_days:
        yield
        return
    await _expire(ledger, outputs, keep_days)
    async with asyncio.TaskGroup() as tasks:
        daily = tasks.create_task(_again(ledger, outputs, keep_days, every_s))
        try:
            yield
        finally:
            daily.cancel()


async def _again(ledger: Ledger, outputs: Path, keep_days: int, every_s: float) -> None:
    while True:
        await asyncio.sleep(every_s)
        await _expire(ledger, outputs, keep_days)


async def _expire(ledger: Ledger, outputs: Path, keep_days: int) -> None:
    before_ms = time.time_ns() // 1_000_000 - keep_days * _DAY_S * 1000
    try:
        removed = await expire(ledger, outputs, before_ms=before_ms)
    except (InfrastructureFailure, OSError) as error:
        # What could not be removed now is found again tomorrow; calls go on.
        _log.error("old sessions could not be removed: %s", error)
    else:
        _log.info("%d closed sessions of more than %d days ago were removed", removed, keep_days)


def _remove(paths: list[Path]) -> None:
    for path in paths:
        path.unlink(missing_ok=True)
