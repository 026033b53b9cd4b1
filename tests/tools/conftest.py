"""A place of its own for each test's daemon and directory of tools."""

import tempfile
from pathlib import Path

import pytest


@pytest.fixture
def place(scratch: Path) -> Path:
    """A directory with a short path, which nobody but us can write."""
    return Path(tempfile.mkdtemp(dir=scratch))
