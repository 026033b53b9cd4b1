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
    """The claims of all asks. `changed` is called with an ask's id when another claim is the one to show."""

    def __init__(self, changed: Callable[[str], None]) -> None:
        self._changed = changed
        self._leases: dict[str, dict[str, _Lease]] = {}  # by ask and by claim, oldest first

    def shown(self, ask_id: str) -> Claim | None:
        """The oldest one; None: nobody looks at it."""
        for lease in self._leases.get(ask_id, {}).values():
            return lease.claim
        return None

    def claim(self, ask_id: str, claim_id: str, name: str, by: str, seconds: float) -> None:
        """Begins a claim, or goes on with it. Raises RequestError INVALID_ARGUMENT for a name that cannot be shown."""
        if len(name) > _LONGEST_NAME or not name.isprintable():
            raise RequestError(
                "INVALID_ARGUMENT", f"name must be one line of at most {_LONGEST_NAME} characters that can be seen"
            )
        leases = self._leases.setdefault(ask_id, {})
        timer = asyncio.get_running_loop().call_later(min(seconds, LONGEST_S), self.end, ask_id, claim_id)
        lease = leases.get(claim_id)
        if lease is not None:
            lease.timer.cancel()
            lease.timer = timer
        elif len(leases) >= _MOST:
            timer.cancel()
        else:
            leases[claim_id] = _Lease(Claim(name, by, time.time_ns() // 1_000_000), timer)
            if len(leases) == 1:
                self._changed(ask_id)

    def end(self, ask_id: str, claim_id: str) -> None:
        """Ends a claim; one that there is not is nothing."""
        leases = self._leases.get(ask_id, {})
        lease = leases.get(claim_id)
        if lease is None:
            return
        shown = self.shown(ask_id)
        lease.timer.cancel()
        del leases[claim_id]
        if not leases:
            del self._leases[ask_id]
        if shown is lease.claim:
            self._changed(ask_id)

    def forget(self, ask_id: str) -> None:
        """The ask has ended."""
        for lease in self._leases.pop(ask_id, {}).values():
            lease.timer.cancel()
