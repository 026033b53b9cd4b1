"""Files that sessions were shown and that somebody else changes: noticed while it happens, and recorded as a hint.

Whether an edit may be made is decided by the bytes at that time, here as without this.
"""

import asyncio
import contextlib
import logging
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Final

from stockade_daemon import watching
from stockade_daemon.ledger.ledger import Ledger
from stockade_daemon.pipeline.sessions import Sessions

_log = logging.getLogger(__name__)
_MOST: Final = 2000  # files that are looked at, of the sessions used last; each costs a resolution and a stat(2) a look
_MOST_DIRECTORIES: Final = 500  # that are watched; files in others are looked at every second all the same
_STEP_S: Final = 0.2  # between two looks: what a build does to a hundred files is one


@asynccontextmanager
async def noticed(ledger: Ledger, sessions: Sessions) -> AsyncIterator[None]:
    """Records `fs/changed` events in the sessions at hand while the block runs."""
    async with asyncio.TaskGroup() as tasks:
        watching_them = tasks.create_task(_follow(ledger, sessions))
        try:
            yield
        finally:
            watching_them.cancel()


async def _follow(ledger: Ledger, sessions: Sessions) -> None:
    while True:
        # Nothing is watched for a daemon that nobody uses: an idle one does nothing at all.
        await sessions.used.wait()
        sessions.used.clear()
        directories = _directories(sessions)
        async with contextlib.aclosing(watching.changes([Path(each) for each in directories])) as news:
            async for _ in news:
                try:
                    await _look(ledger, sessions)
                except Exception:
                    # One look that failed must not end the daemon, nor the looks after it.
                    _log.exception("looking for changes from outside met a fault of the daemon")
                if sessions.used.is_set() and _directories(sessions) != directories:
                    break
                sessions.used.clear()
                await asyncio.sleep(_STEP_S)


def _directories(sessions: Sessions) -> list[str]:
    """To be watched: those of the files that were seen last, in the sessions that were used last."""
    found: dict[str, None] = {}
    left = _MOST
    for live in sessions.at_hand():
        seen = live.gate.seen_directories(left)
        found.update(dict.fromkeys(seen))
        left -= len(seen)
        if left <= 0:
            break
    return sorted(list(found)[:_MOST_DIRECTORIES])


async def _look(ledger: Ledger, sessions: Sessions) -> None:
    left = _MOST
    for live in sessions.at_hand():
        if left <= 0:
            break
        for changed in await live.gate.changed_outside(left):
            if sessions.is_live(live.session.session_id):
                ledger.note(live.session.session_id, "fs/changed", "", changed.body())
        left -= len(live.gate.seen_directories(left))
