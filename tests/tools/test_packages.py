"""Tools of an installed distribution: taken by name, found without importing them, imported in workers alone."""

from collections.abc import Callable
from pathlib import Path

import pytest

from tests.tools.shop import open_shop

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


async def test_an_entry_point_that_is_named_is_a_tool(place: Path, install: Install) -> None:
    install("greet = greet_tools.tools")
    async with open_shop(place, {}, packages=["greet"]) as shop:
        (tool,) = [each for each in (await shop.listed()).tools if each.name == "greet"]
        said = await shop.session.call("greet")
    assert tool.origin == "greet-tools 1.0 (greet_tools.tools):9"
    assert said.value == "hello"


async def test_an_entry_point_that_is_not_named_is_none(place: Path, install: Install) -> None:
    install("greet = greet_tools.tools")
    async with open_shop(place, {}) as shop:
        assert "greet" not in await shop.names()


@pytest.mark.parametrize(
    ("points", "words"),
    [
        ("other = greet_tools.tools", "has an entry point 'greet' in stockade.tools; there are: other"),
        ("greet = greet_tools.none", "its module is not among its files"),
        ("greet = json", "its module is not among its files"),
        ("greet = greet_tools.words", "it declares no tool"),
    ],
)
async def test_an_entry_point_that_cannot_be_used_is_refused(
    place: Path, install: Install, points: str, words: str
) -> None:
    install(points)
    async with open_shop(place, {}, packages=["greet"]) as shop:
        (refused,) = (await shop.listed()).refused
    assert words in refused.reason
