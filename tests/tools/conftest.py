"""A place of its own for each test's daemon and directory of tools."""

import tempfile
from collections.abc import Callable
from pathlib import Path

import pytest

TOOLS = '''
import sys

from greet_tools.words import WORD
from stockade_toolkit import tool

assert "stockade_daemon" not in sys.modules

@tool
def greet() -> str:
    """Greets."""
    return WORD
'''
Install = Callable[[str], None]


@pytest.fixture
def place(scratch: Path) -> Path:
    """A directory with a short path, which nobody but us can write."""
    return Path(tempfile.mkdtemp(dir=scratch))


@pytest.fixture
def install(place: Path, monkeypatch: pytest.MonkeyPatch) -> Install:
    """Installs a distribution as pip leaves it, with these lines as its entry points, where the daemon will look."""
    site = place / "site"
    monkeypatch.setenv("PYTHONPATH", str(site))

    def make(points: str) -> None:
        files = {
            "greet_tools/__init__.py": "",
            "greet_tools/words.py": "WORD = 'hello'\n",
            "greet_tools/tools.py": TOOLS,
            "greet_tools-1.0.dist-info/METADATA": "Metadata-Version: 2.1\nName: greet-tools\nVersion: 1.0\n",
            "greet_tools-1.0.dist-info/entry_points.txt": f"[stockade.tools]\n{points}\n",
        }
        record = "".join(f"{name},,\n" for name in files)
        for name, text in {**files, "greet_tools-1.0.dist-info/RECORD": record}.items():
            (site / name).parent.mkdir(parents=True, exist_ok=True)
            (site / name).write_text(text)

    return make
