"""Keeps a thread that answers the event loop on the loop's own processor.

The two take turns: the loop hands over and sleeps, the thread writes and wakes it. Left alone, the scheduler puts them
on two processors, and each turn then waits for an idle one to wake, which on a virtual machine takes five times as
long as the commit between (measured: 350 us an append, 55 us on one processor). Nothing is lost by it: Python runs
one of them at a time anyway.
"""

import contextlib
import ctypes
import os
import threading
from typing import Any


class Neighbour:
    def __init__(self, thread: threading.Thread) -> None:
        """`thread` has been started."""
        self._thread = thread
        self._processor = -1
        # sched_getcpu(3); a C library without it leaves the thread to the scheduler.
        self._current: Any = getattr(ctypes.CDLL(None), "sched_getcpu", None)

    def come(self) -> None:
        """Called by the loop's thread, which the scheduler may have moved since the last time."""
        if self._current is None:
            return
        processor = int(self._current())
        if processor == self._processor or processor < 0:
            return
        self._processor = processor
        if self._thread.native_id is not None:
            with contextlib.suppress(OSError):  # it has ended, or a processor set was changed at this moment
                os.sched_setaffinity(self._thread.native_id, {processor})
