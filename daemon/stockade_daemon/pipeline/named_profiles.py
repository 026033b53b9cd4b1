"""Profiles that are chosen by name, in step with their files.

Whoever needs one asks, and the files are looked at then: no call depends on when the kernel tells of a change. The
watch is for those who do not ask: it has open sessions and the log hear of an edit within a second.
"""

import asyncio
import logging
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Final

from stockade_daemon import watching
from stockade_daemon.errors import RequestError
from stockade_daemon.profiles.last_good import REST_S, LastGood, Standing

_log = logging.getLogger(__name__)
_LOOKS: Final = 20  # for a file to come to rest; one that is written without end is taken as it is


class NamedProfiles:
    """What names stand for. It belongs to the event loop; file work goes to threads."""

    def __init__(self, directories: Sequence[Path]) -> None:
        """`directories`: looked through for every name."""
        self._last_good = LastGood(directories)
        self._logged: dict[str, int] = {}  # the number of what was logged last of a name

    async def names(self) -> list[str]:
        """The names that there are or were, sorted."""
        return await asyncio.to_thread(self._last_good.names)

    async def current(self, name: str) -> Standing:
        """What the name stands for now: an edit that was complete before this was called is in it, or its fault is.

        A file that changed less than a moment ago is waited for.
        """
        standing = await asyncio.to_thread(self._last_good.look, name)
        for _ in range(_LOOKS):
            if standing is not None:
                break
            await asyncio.sleep(REST_S)
            standing = await asyncio.to_thread(self._last_good.look, name)
        if standing is None:
            standing = await asyncio.to_thread(self._last_good.take, name)
        self._log(standing)
        return standing

    @asynccontextmanager
    async def kept(self, watched: Sequence[Path], tell: Callable[[Standing], Awaitable[None]]) -> AsyncIterator[None]:
        """Looks at every profile, and then follows the files of `watched` while the block runs.

        `tell` is awaited with what each name stands for whenever something may have changed; it must take the same
        again. A profile that was never looked at would have no last good version.
        """
        await self._look()
        async with asyncio.TaskGroup() as tasks:
            following = tasks.create_task(self._follow(watched, tell))
            try:
                yield
            finally:
                following.cancel()

    async def _follow(self, watched: Sequence[Path], tell: Callable[[Standing], Awaitable[None]]) -> None:
        async for _ in watching.changes(watched):
            try:
                for standing in await self._look():
                    await tell(standing)
            except Exception:
                # One look that failed must not end the daemon, nor the looks after it.
                _log.exception("looking at the profiles met a fault of the daemon")

    async def _look(self) -> list[Standing]:
        found = await asyncio.to_thread(self._last_good.look_at_all)
        for _, standing in found:
            if standing is not None:
                self._log(standing)
        return [standing or await self.current(name) for name, standing in found]

    def _log(self, standing: Standing) -> None:
        """A line for each change, and for each profile that cannot be used."""
        before = self._logged.get(standing.name)
        if standing.number <= (before or 0):
            return
        self._logged[standing.name] = standing.number
        if standing.fault is None:
            if before is not None and standing.profile is not None:
                _log.info("profile %s is now %s", standing.name, standing.profile.digest[:12])
        elif isinstance(standing.fault, RequestError):
            _log.warning("profile %s is gone; sessions that are open keep its last good version", standing.name)
        elif standing.profile is None:
            _log.warning("profile %s cannot be used: %s", standing.name, standing.fault)
        else:
            stays = f"its last good version stays ({standing.profile.digest[:12]})"
            _log.warning("an edit of profile %s is refused: %s; %s", standing.name, standing.fault, stays)
