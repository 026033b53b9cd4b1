"""Fixtures that every room's tests share."""

import signal
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import pytest
from hypothesis import settings

from stockade_daemon.removing import remove_tree

# A failure prints what makes it again; nothing is remembered between runs, and the machine's load decides nothing. The
# suite tries the same examples every time, so that what it says is about the change; `make examples` looks for more.
settings.register_profile("search", database=None, deadline=None, print_blob=True)
settings.register_profile("stockade", settings.get_profile("search"), derandomize=True)
settings.load_profile("stockade")

# Files with single tests (or fixtures) that take longest: they begin first, so that at the end no process waits for one
# that has just begun such a test.
LONG: Final = (
    "conformance/test_probes.py",
    "conformance/test_cases.py",
    "kills/test_kills.py",
    "test_readme.py",
    "races/test_races.py",
    "scripts/test_generated_scripts.py",
    "end_to_end/test_large_files.py",
    "end_to_end/test_subscriptions.py",
    "end_to_end/test_daemon_model.py",
    "end_to_end/test_doctor.py",
)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """The long ones first, each file still as a whole and everything else in its order."""
    turns = {Path(__file__).parent / name: turn for turn, name in enumerate(LONG)}
    items.sort(key=lambda item: turns.get(item.path, len(turns)))


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
