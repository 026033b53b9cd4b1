"""tools/result: observers see the frozen outcome of every call, once. Nothing flows back, not even a failure."""

import logging
from collections.abc import Callable, Iterable
from typing import TypeAlias

from stockade_daemon.policy.subjects import Settled
from stockade_daemon.policy.waterfall import is_ending

_log = logging.getLogger(__name__)

Observer: TypeAlias = Callable[[Settled], None]


def observe(observers: Iterable[Observer], settled: Settled) -> None:
    """Tells each observer, whatever the others do."""
    for each in observers:
        try:
            each(settled)
        except BaseException:  # an observer that exits must not end the daemon with all its sessions
            if is_ending():
                raise
            _log.exception("an observer of %s/%s failed", settled.session.session_id, settled.call.call_id)
