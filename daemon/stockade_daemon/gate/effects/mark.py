"""When a command began, as the file system's clock has it: what changed since is told by its ctime (inode(7)).

ctime can refuse here and nothing else: that it is old proves nothing to anybody who asks for a right.
"""

import asyncio
import os
import time
from dataclasses import dataclass
from typing import Final

_TICK_S: Final = 0.005  # the kernel's clock for files ticks at least every 10 ms, mostly every 4
_TICKS: Final = 10
_SLACK_NS: Final = 20_000_000  # how far clocks may drift apart without having been set

_committed_ns = 0  # when the gate changed a file last, whichever it was


@dataclass(frozen=True, slots=True)
class Mark:
    """A moment. Nanoseconds; `coarse_ns` as the kernel stamps files, `boot_ns` of a clock that nobody sets."""

    coarse_ns: int
    boot_ns: int
    boot_id: str

    def clock_was_set_back(self) -> bool:
        """Whether this host's clock has been set back since, so that ctimes tell nothing. True after a reboot."""
        if _boot_id() != self.boot_id:
            return True
        passed = time.clock_gettime_ns(time.CLOCK_BOOTTIME) - self.boot_ns
        return time.time_ns() < self.coarse_ns + passed - _SLACK_NS

    def precedes(self, status: os.stat_result) -> bool:
        """Whether something was changed at or after this moment."""
        return status.st_ctime_ns >= self.coarse_ns


async def mark() -> Mark:
    """This moment, later than any change that the gate has made: a file's stamp is that of the last tick, so one that
    was committed just now would look as though it had been changed since."""
    for _ in range(_TICKS):
        if _coarse() > _committed_ns:
            break
        await asyncio.sleep(_TICK_S)
    return Mark(_coarse(), time.clock_gettime_ns(time.CLOCK_BOOTTIME), _boot_id())


def committed() -> None:
    """Notes that the gate has changed a file now."""
    global _committed_ns
    _committed_ns = time.time_ns()


def _coarse() -> int:
    return time.clock_gettime_ns(getattr(time, "CLOCK_REALTIME_COARSE", 5))


def _boot_id() -> str:
    with open("/proc/sys/kernel/random/boot_id", encoding="ascii") as file:
        return file.read().strip()
