"""Who looks at which ask: leases, which end by themselves."""

import asyncio
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from stockade_daemon.errors import RequestError
from stockade_daemon.policy.asks import Claim

LONGEST_S: Final = 60.0
_MOST: Final = 32  # of one ask; a hint to people needs no more
_LONGEST_NAME: Final = 80


@dataclass(slots=True)
class _Lease:
    claim: Claim
    timer: asyncio.TimerHandle


class Claims:
    """The claims of all asks. `changed` is called with an ask's id when one begins or ends."""

    def __init__(self, changed: Callable[[str], None]) -> None:
        self._changed = changed
        # By ask, and by whom and which; oldest first.
        self._leases: dict[str, dict[tuple[str, str], _Lease]] = {}

    def shown(self, ask_id: str) -> tuple[Claim, ...]:
        """All of an ask's, oldest first; empty: nobody looks at it."""
        return tuple(lease.claim for lease in self._leases.get(ask_id, {}).values())

    def claim(self, ask_id: str, claim_id: str, name: str, by: str, seconds: float) -> None:
        """Begins a claim, or goes on with it. Raises RequestError INVALID_ARGUMENT for a name that cannot be shown."""
        if len(name) > _LONGEST_NAME or not name.isprintable():
            raise RequestError(
                "INVALID_ARGUMENT", f"name must be one line of at most {_LONGEST_NAME} characters that can be seen"
            )
        leases = self._leases.setdefault(ask_id, {})
        lease = leases.get((by, claim_id))
        if lease is None and len(leases) >= _MOST:
            return
        timer = asyncio.get_running_loop().call_later(min(seconds, LONGEST_S), self.end, ask_id, claim_id, by)
        if lease is not None:
            lease.timer.cancel()
            lease.timer = timer
        else:
            leases[by, claim_id] = _Lease(Claim(claim_id, name, by, time.time_ns() // 1_000_000), timer)
            self._changed(ask_id)

    def end(self, ask_id: str, claim_id: str, by: str) -> None:
        """Ends a claim; one that there is not is nothing."""
        leases = self._leases.get(ask_id, {})
        lease = leases.pop((by, claim_id), None)
        if lease is None:
            return
        lease.timer.cancel()
        if not leases:
            del self._leases[ask_id]
        self._changed(ask_id)

    def forget(self, ask_id: str) -> None:
        """The ask has ended."""
        for lease in self._leases.pop(ask_id, {}).values():
            lease.timer.cancel()
