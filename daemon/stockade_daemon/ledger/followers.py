"""Who waits for new events of which session. Lives in the event loop; remembers no event, so a slow follower
costs nothing: it is told once that there is something, and reads it from the store when it comes round.
"""

import asyncio
from collections.abc import Iterable, Iterator
from contextlib import contextmanager


class Followers:
    def __init__(self) -> None:
        self.closed = False  # the ledger is closing: nothing will come any more
        self._bells: dict[str, set[asyncio.Event]] = {}

    @contextmanager
    def waiting(self, session_id: str) -> Iterator[asyncio.Event]:
        """An event that is set whenever the session may have new events. Clear it, then read, then wait."""
        bell = asyncio.Event()
        bells = self._bells.setdefault(session_id, set())
        bells.add(bell)
        try:
            yield bell
        finally:
            bells.discard(bell)
            if not bells and self._bells.get(session_id) is bells:
                del self._bells[session_id]

    def ring(self, session_ids: Iterable[str]) -> None:
        for session_id in session_ids:
            for bell in self._bells.get(session_id, ()):
                bell.set()

    def close(self) -> None:
        self.closed = True
        self.ring(list(self._bells))


async def rung(bell: asyncio.Event, within_s: float | None) -> bool:
    """Waits for the bell; False where it was not rung within that many seconds."""
    try:
        async with asyncio.timeout(within_s):
            await bell.wait()
    except TimeoutError:
        return False
    return True
