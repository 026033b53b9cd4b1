"""Fixtures that every room's tests share."""

import signal
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import settings

from stockade_daemon.removing import remove_tree

# A failure prints what makes it again; nothing is remembered between runs, and the machine's load decides nothing. The
# suite tries the same examples every time, so that what it says is about the change; `make examples` looks for more.
settings.register_profile("search", database=None, deadline=None, print_blob=True)
settings.register_profile("stockade", settings.get_profile("search"), derandomize=True)
settings.load_profile("stockade")


@pytest.fixture(scope="session")
def scratch() -> Iterator[Path]:
    """A directory with a short path: a Unix socket's has at most 107 bytes, and pytest's own are long."""
    directory = Path(tempfile.mkdtemp(prefix="tests-"))
    try:
        yield directory
    finally:
        # A killed daemon leaves an overlay's work directory, which has no mode bits.
        remove_tree(directory)


@pytest.fixture(scope="session", autouse=True)
def interruptible() -> None:
    """A shell starts what it puts into the background with SIGINT ignored, and every command of the tests would inherit
    that."""
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)
