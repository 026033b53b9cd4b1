"""Whether a process has ended, asked of its pidfd (pidfd_open(2))."""

import select


def ended(pidfd: int) -> bool:
    """By poll(2): select(2) takes no descriptor above 1023, and a daemon with many workers has such."""
    poll = select.poll()
    poll.register(pidfd, select.POLLIN)
    return bool(poll.poll(0))
