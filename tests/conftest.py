"""Fixtures that every room's tests share."""

import shutil
import signal
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest


@pytest.fixture(scope="session")
def scratch() -> Iterator[Path]:
    """A directory with a short path: a Unix socket's has at most 107 bytes, and pytest's own are long."""
    directory = Path(tempfile.mkdtemp(prefix="tests-"))
    try:
        yield directory
    finally:
        shutil.rmtree(directory)


@pytest.fixture(scope="session", autouse=True)
def interruptible() -> None:
    """A shell starts what it puts into the background with SIGINT ignored, and every command of the tests would inherit
    that."""
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)
