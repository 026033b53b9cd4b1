"""The time that calls under way are given by a daemon that was told to stop."""

import asyncio
import logging
from collections.abc import Iterable
from contextlib import suppress

from stockade_daemon.pipeline.context import CallUnderWay

_log = logging.getLogger(__name__)


async def given_time(calls: Iterable[CallUnderWay], grace_s: float) -> None:
    """Returns when all have their results, or after so many seconds."""
    found = list(calls)
    stopped = sum(call.stop.cause is not None for call in found)  # jobs among them, which have no end of their own
    waiting = [call.settled.wait() for call in found]
    if waiting:
        _log.info(
            "stopping: %d calls under way have %g s to finish, %d are ended at once",
            len(found) - stopped,
            grace_s,
            stopped,
        )
        with suppress(TimeoutError):
            async with asyncio.timeout(grace_s):
                await asyncio.gather(*waiting)
