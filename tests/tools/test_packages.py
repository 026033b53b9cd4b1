"""Tools of an installed distribution: taken by name, found without importing them, imported in workers alone."""

from pathlib import Path

import pytest

from tests.tools.conftest import Install
from tests.tools.shop import open_shop


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
