"""Standard input, output and error of a command: there from the start, and lost without a traceback.

A program can be started with some of them closed, and a file that it opens later would then get their number and the
output with it. And whoever takes the output can run out of room, or go away. Standard library only, because this comes
before everything else.
"""

import os
import signal
import sys
from typing import Final

from stockade_client.errors import StockadeError
from stockade_client.visible import visible

_NAMES: Final = ("stdin", "stdout", "stderr")


class NotWritten(StockadeError):
    """Output could not be written; the text says why."""

    def __init__(self, error: OSError) -> None:
        super().__init__(
            f"the output cannot be written: {error.strerror or error}; make room, or write it somewhere else"
        )


def open_missing() -> None:
    """Opens those of descriptors 0 to 2 that are closed on /dev/null, and makes Python's own objects for them."""
    for descriptor, name in enumerate(_NAMES):
        try:
            os.fstat(descriptor)
        except OSError:
            # The lowest free number is given, open(2), and those below are open by now.
            os.set_inheritable(os.open(os.devnull, os.O_RDWR), True)
        if getattr(sys, name) is None:
            # For as long as the process lives, like the one that Python would have made.
            setattr(sys, name, open(descriptor, "w" if descriptor else "r", closefd=False))  # noqa: SIM115


def complain(message: str) -> None:
    """A line on stderr. What the daemon passes on may hold a tool's text, so it is made safe to look at."""
    try:
        print(f"stockade: {visible(message)}", file=sys.stderr, flush=True)
    except OSError:
        _give_up(2)  # nobody can be told; the exit status still says it


def fail(error: OSError, status: int) -> int:
    """Tells of an error of the system that nobody expected, and gives the exit status for it."""
    if isinstance(error, BrokenPipeError):
        return broken_pipe()
    if error.filename is not None:
        complain(f"{error.filename}: {error.strerror}")
    else:
        # Whatever opens a file names it in its errors; a write has no name to give.
        _give_up(1)
        complain(str(NotWritten(error)))
    return status


def broken_pipe() -> int:
    """Whoever read our output has gone, as in `stockade … | head`: end as a program killed by SIGPIPE does."""
    _give_up(1)
    return 128 + signal.SIGPIPE


def _give_up(descriptor: int) -> None:
    """Python flushes its objects once more at exit, and would complain, and change the exit status."""
    nowhere = os.open(os.devnull, os.O_WRONLY | os.O_CLOEXEC)
    os.dup2(nowhere, descriptor)
    os.close(nowhere)
