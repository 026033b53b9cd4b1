"""A hostile tool file changes nothing in the daemon, and of the listing only what is said of itself."""

import os
import socket
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
import pytest_asyncio

from stockade_daemon.registry import manifests
from tests.tools.hostile import FILES, GOOD
from tests.tools.shop import Shop, open_shop

pytestmark = pytest.mark.asyncio(loop_scope="session")


@pytest_asyncio.fixture(scope="module", loop_scope="session")
async def shop(scratch: Path) -> AsyncIterator[Shop]:
    """One daemon that begins with all of them at once, beside a good one, and has looked at each."""
    place = scratch / "hostile"
    place.mkdir()
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = str(server.getsockname()[1])
        texts = {name: text.replace("STATE", str(place)).replace("PORT", port) for name, (text, _) in FILES.items()}
        async with open_shop(place, {"good.py": GOOD, **texts}) as shop:
            wanted = {name for name, (_, words) in FILES.items() if words is not None}
            while not wanted <= set(await shop.refused()):
                await shop.news("refused")
            yield shop
            server.setblocking(False)
            with pytest.raises(BlockingIOError):
                server.accept()


@pytest.mark.parametrize("name", FILES)
async def test_a_hostile_file_is_refused_with_the_reason_or_harmless(shop: Shop, name: str) -> None:
    _, words = FILES[name]
    reason = (await shop.refused()).get(name)
    if words is None:
        assert reason is None
        assert (await shop.session.call(name.removesuffix(".py"))).value == name.removesuffix(".py")
    else:
        assert reason is not None
        assert reason.startswith(f"{name}:")
        assert words in reason
        assert reason.isprintable()
        assert len(reason) < 1500


async def test_only_what_is_good_is_listed_beside_the_built_in_tools(shop: Shop) -> None:
    taken = {name.removesuffix(".py") for name, (_, words) in FILES.items() if words is None}
    assert await shop.names() == {*manifests.load(), "good", *taken}
    assert (await shop.session.call("good")).value == "good"
    read = await shop.session.call("read", path="a.txt")
    assert read.ok
    assert read.content[0].startswith("one two\ntwo\n")


async def test_nothing_of_them_is_left(shop: Shop) -> None:
    place = shop.directory.parent
    assert sorted(os.listdir(place)) == ["stockade.toml", "tools", "workspace"]
    assert os.listdir(shop.workspace) == ["a.txt"]
