"""Leases: sessions whose clients have to say now and then that they are there, and that end where they do not.

How long a session's lease is stands in its first event. How much of it is left is known to this daemon alone, by the
loop's monotonic clock; the next daemon begins it anew, since nobody could renew it while there was none.
"""

import asyncio
from collections.abc import Callable

from stockade_daemon.errors import RequestError


class Leases:
    """Those of the open sessions of this daemon."""

    def __init__(self) -> None:
        self._running: dict[str, asyncio.TimerHandle] = {}
        self._over: dict[str, str] = {}  # sessions that are being closed, and why
        self._stopped = False
        self.ended: Callable[[str, str], object] = lambda session_id, why: None  # given the session and why; the engine

    def renew(self, session_id: str, lease_s: float) -> None:
        """Begins the session's lease anew. 0 seconds: it has none.

        Raises RequestError FAILED_PRECONDITION where it has ended, and the session is about to.
        """
        why = self._over.get(session_id)
        if why is not None:
            raise RequestError("FAILED_PRECONDITION", f"session {session_id} is closing: {why}; open another one")
        self._halt(session_id)
        if lease_s and not self._stopped:
            loop = asyncio.get_running_loop()
            self._running[session_id] = loop.call_later(lease_s, self._end, session_id, lease_s)

    def forget(self, session_id: str) -> None:
        """The session is closed."""
        self._halt(session_id)
        self._over.pop(session_id, None)

    def stop(self) -> None:
        """No lease ends any more: what is open is the next daemon's."""
        self._stopped = True
        for session_id in list(self._running):
            self._halt(session_id)

    def _end(self, session_id: str, lease_s: float) -> None:
        del self._running[session_id]
        self._over[session_id] = why = f"its lease of {lease_s:g} s ended, since Open was not repeated"
        self.ended(session_id, why)

    def _halt(self, session_id: str) -> None:
        timer = self._running.pop(session_id, None)
        if timer is not None:
            timer.cancel()
