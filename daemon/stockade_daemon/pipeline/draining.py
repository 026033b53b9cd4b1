"""The time that calls under way are given by a daemon that was told to stop."""

import asyncio
import logging
from collections.abc import Iterable
from contextlib import suppress

from stockade_daemon.pipeline.context import CallUnderWay

_log = logging.getLogger(__name__)


async def given_time(calls: Iterable[CallUnderWay], grace_s: float) -> None:
    """Returns when all have their results, or after so many seconds."""
    waiting = [call.settled.wait() for call in calls]
    if waiting:
        _log.info("stopping: %d calls under way have %g s to finish", len(waiting), grace_s)
        with suppress(TimeoutError):
            async with asyncio.timeout(grace_s):
                await asyncio.gather(*waiting)
