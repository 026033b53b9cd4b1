"""Which descriptors a worker has: 0-2, its two channels, and for a moment its mounts. Everything else is closed."""

import fcntl
import os

from stockade_worker import kernel

CONTROL = 3
REQUESTS = 4
MOUNTS = 5


def arrange(given: tuple[int, ...]) -> tuple[int, int, tuple[int, ...]]:
    """Moves control, requests, stdout, stderr and any mounts to fixed numbers and closes the rest.

    0 is /dev/null. Returns the numbers of control, requests and mounts.
    """
    # First out of the way, so that no move lands on a number that is still wanted.
    high = [fcntl.fcntl(each, fcntl.F_DUPFD_CLOEXEC, 64) for each in given]
    null = os.open("/dev/null", os.O_RDONLY | os.O_CLOEXEC)
    os.dup2(null, 0)
    os.dup2(high[2], 1)
    os.dup2(high[3], 2)
    os.dup2(high[0], CONTROL, inheritable=False)
    os.dup2(high[1], REQUESTS, inheritable=False)
    mounts = tuple(range(MOUNTS, MOUNTS + len(high) - 4))
    for number, mount in zip(mounts, high[4:], strict=True):
        os.dup2(mount, number, inheritable=False)
    kernel.close_range(MOUNTS + len(mounts), 2**31 - 1)
    return CONTROL, REQUESTS, mounts
