"""What a process inherits without asking: session, terminal, signal dispositions, mask, umask."""

import os
import signal

_FIXED = {signal.SIGKILL, signal.SIGSTOP}


def own_session() -> None:
    """A session without a controlling terminal, default dispositions, an empty mask, umask 022."""
    os.setsid()
    for number in signal.valid_signals():
        # Python ignores SIGPIPE and SIGXFSZ at its start, and a program inherits what is ignored.
        if number not in _FIXED:
            try:
                signal.signal(number, signal.SIG_DFL)
            except (OSError, ValueError):
                continue  # 32 and 33 belong to the C library
    signal.pthread_sigmask(signal.SIG_SETMASK, ())
    os.umask(0o022)
