"""Fixtures that every room's tests share."""

import shutil
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
