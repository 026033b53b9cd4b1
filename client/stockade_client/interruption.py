"""Ctrl-C before a command's body runs, and after it: the end, with the status for it and no word.

Python would raise KeyboardInterrupt, which click takes for a question that was not answered ("Aborted!", status 1), and
which shows a traceback where modules are still being imported. Standard library only: imported before everything else.
"""

import signal
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType
from typing import NoReturn


def end_at_once() -> None:
    """From here on SIGINT exits with its status; one that is ignored, as in the background of a script, stays so."""
    if signal.getsignal(signal.SIGINT) is signal.default_int_handler:
        signal.signal(signal.SIGINT, _end)


@contextmanager
def is_raised() -> Iterator[None]:
    """SIGINT raises KeyboardInterrupt while the block runs: asyncio.run cancels its task only then."""
    before = signal.getsignal(signal.SIGINT)
    if before is not _end:
        yield
        return
    signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)


def _end(number: int, frame: FrameType | None) -> NoReturn:
    sys.exit(128 + number)
