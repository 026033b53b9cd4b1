"""What a process inherits without asking: session, terminal, signal dispositions, mask, umask."""

import os
import signal

from stockade_worker import kernel

# NPTL keeps these, so its own sigaction refuses them; a program can still inherit them ignored.
_OF_THE_C_LIBRARY = (32, 33)
_RT_SIGACTION = 134 if os.uname().machine == "aarch64" else 13
_SIGACTION_BYTES = 32  # struct sigaction of the kernel, all zero: the default action
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
                continue  # those that the C library keeps for itself
    for kept in _OF_THE_C_LIBRARY:
        kernel.call(_RT_SIGACTION, kept, bytes(_SIGACTION_BYTES), None, 8, what=f"rt_sigaction {kept}")
    signal.pthread_sigmask(signal.SIG_SETMASK, ())
    os.umask(0o022)
