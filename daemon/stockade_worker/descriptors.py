"""Which descriptors a worker has: 0-2, its two channels, and for a moment the workspace. Everything else is closed."""

import fcntl
import os

from stockade_worker import kernel

CONTROL = 3
REQUESTS = 4
WORKSPACE = 5


def arrange(given: tuple[int, ...], *, has_workspace: bool) -> tuple[int, int, int | None]:
    """Moves control, requests, stdout, stderr (and the workspace) to fixed numbers and closes the rest.

    0 is /dev/null. Returns the numbers of control, requests and workspace.
    """
    # First out of the way, so that no move lands on a number that is still wanted.
    high = [fcntl.fcntl(each, fcntl.F_DUPFD_CLOEXEC, 64) for each in given]
    null = os.open("/dev/null", os.O_RDONLY | os.O_CLOEXEC)
    os.dup2(null, 0)
    os.dup2(high[2], 1)
    os.dup2(high[3], 2)
    os.dup2(high[0], CONTROL, inheritable=False)
    os.dup2(high[1], REQUESTS, inheritable=False)
    last = REQUESTS
    if has_workspace:
        os.dup2(high[4], WORKSPACE, inheritable=False)
        last = WORKSPACE
    kernel.close_range(last + 1, 2**31 - 1)
    return CONTROL, REQUESTS, WORKSPACE if has_workspace else None
