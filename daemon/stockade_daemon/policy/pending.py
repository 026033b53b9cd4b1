"""An ask that waits, as the daemon that it waits in holds it."""

import asyncio
import time
from collections.abc import Awaitable, Callable, Coroutine, Mapping
from typing import Any, Final, TypeAlias

from stockade_daemon.errors import StockadeError
from stockade_daemon.policy.asks import Ask, End, How
from stockade_daemon.policy.outcomes import Outcome

# Says why what was shown is no longer so; empty: it is.
Standing: TypeAlias = Callable[[], Awaitable[str]]

_HOW: Final[Mapping[str, How]] = {
    "": "allowed",
    "APPROVAL_REJECTED": "rejected",
    "APPROVAL_EXPIRED": "expired",
    "APPROVAL_UNAVAILABLE": "unavailable",
    "APPROVAL_MISMATCH": "changed",
}


class Parked(StockadeError):
    """The daemon ends; the call waits on, and the next daemon goes on with it. It has no result yet."""


async def unchanged() -> str:
    return ""


class Pending:
    """`ended` has what it came to, once that is recorded; `lock` is held by whoever ends it."""

    def __init__(self, ask: Ask, wait_s: float, standing: Standing) -> None:
        self.ask = ask
        self.wait_s = wait_s
        self.standing = standing
        self.shown = False  # approvers have been told
        self.lock = asyncio.Lock()
        self.ended: asyncio.Future[Outcome] = asyncio.get_running_loop().create_future()
        self._ending: set[asyncio.Task[None]] = set()

    def start(self, ending: Coroutine[Any, Any, None]) -> None:
        """Begins to end it, without waiting. What goes wrong is in `ended`."""
        task = asyncio.create_task(ending)
        self._ending.add(task)
        task.add_done_callback(self._over)

    @property
    def parked(self) -> bool:
        """Whether the next daemon goes on with it."""
        return self.ended.done() and isinstance(self.ended.exception(), Parked)

    def end(self) -> End:
        """How it ended, as watchers hear it. Not of one that is parked: it has not ended."""
        now = time.time_ns() // 1_000_000
        if not self.ended.done() or self.ended.exception() is not None:
            return End("withdrawn", "the daemon could not keep it", now)
        outcome = self.ended.result()
        return End(_HOW.get(outcome.code, "withdrawn"), outcome.reason, now, outcome.by)

    def _over(self, task: asyncio.Task[None]) -> None:
        self._ending.discard(task)
        if not task.cancelled():
            task.exception()  # it is in `ended` as well
