"""What the toolbox makes of files that are there only now and then, and of workers that are not to be had yet."""

import asyncio
import tempfile
from collections.abc import AsyncIterator, Mapping
from dataclasses import replace
from pathlib import Path

import pytest
import pytest_asyncio

from stockade_daemon import profiles
from stockade_daemon.pipeline import describe, toolbox
from stockade_daemon.pipeline.describe import Describing
from stockade_daemon.pipeline.toolbox import Toolbox
from stockade_daemon.registry import Registry, sources
from stockade_daemon.registry.generations import Generations
from stockade_daemon.registry.sources import Candidate
from stockade_daemon.sandbox.pool import Pool
from stockade_daemon.values import Json, Profile
from tests.tools.conftest import Install

HANG_S = 60.0  # a hang detector
SAY = 'description = "Says a word."\n[program]\nargv = ["echo", "{}"]\n'


class News:
    """What is announced, one after the other."""

    def __init__(self) -> None:
        self._queue: asyncio.Queue[tuple[str, Mapping[str, Json]]] = asyncio.Queue()

    def announce(self, type: str, body: Mapping[str, Json]) -> None:
        self._queue.put_nowait((type, body))

    async def next(self) -> tuple[str, Mapping[str, Json]]:
        async with asyncio.timeout(HANG_S):
            return await self._queue.get()


@pytest_asyncio.fixture
async def pool(place: Path) -> AsyncIterator[Pool]:
    async with Pool.start(Path(tempfile.mkdtemp(dir=place))) as pool:
        yield pool


def strict() -> Profile:
    return profiles.load("strict", directories=[profiles.shipped()])


async def test_a_file_that_is_removed_and_then_written_anew_keeps_its_tools_meanwhile(
    place: Path, pool: Pool, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = place / "say.toml"
    path.write_text(SAY.format("one"))
    listed, news = sources.candidates, News()

    def candidates(directory: Path) -> list[Candidate]:
        """What lies there; after it has been seen missing once, it is there again."""
        found = listed(directory)
        if not found:
            path.write_text(SAY.format("two"))
        return found

    tools = Generations(Registry.load())
    describing = Describing(pool, strict())
    box = Toolbox(tools, describing, directories=[place], packages=[], announce=news.announce)
    async with box.kept(wait_s=HANG_S):
        assert (await news.next())[1]["added"] == ["say"]
        monkeypatch.setattr(sources, "candidates", candidates)
        path.unlink()
        assert (await news.next())[1] == {"generation": 3, "added": [], "changed": ["say"], "removed": []}
        monkeypatch.setattr(sources, "candidates", listed)
        path.unlink()
        assert (await news.next())[1]["removed"] == ["say"]


async def test_a_package_is_taken_once_there_are_workers(
    place: Path, pool: Pool, install: Install, monkeypatch: pytest.MonkeyPatch
) -> None:
    install("greet = greet_tools.tools")
    monkeypatch.syspath_prepend(str(place / "site"))
    monkeypatch.setattr(toolbox, "_AGAIN_S", 0.1)
    news, missing = News(), place / "toolchain"
    # No worker can be made before what its profile mounts exists.
    describing = Describing(pool, replace(strict(), mounts=(str(missing),)))
    box = Toolbox(Generations(Registry.load()), describing, directories=[], packages=["greet"], announce=news.announce)
    async with box.kept(wait_s=HANG_S):
        kind, body = await news.next()
        assert kind == "catalog/refused"
        assert f"mounts {missing}, which does not exist" in str(body["reason"])
        missing.mkdir()
        kind, body = await news.next()
    assert (kind, body["added"]) == ("catalog/changed", ["greet"])


async def test_files_that_never_end_keep_each_other_from_being_listed_and_no_other_file(
    place: Path, pool: Pool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Those that end are answered for while the slow ones are still under way."""
    monkeypatch.setattr(describe, "IMPORT_S", 2.0)  # one after the other
    for number in range(4):
        (place / f"endless{number}.py").write_text("import time\ntime.sleep(3600)\n")
    (place / "say.toml").write_text(SAY.format("one"))
    (place / "twice.py").write_text(
        'from stockade_toolkit import tool\n\n@tool\ndef twice(number: int) -> int:\n    """Doubles it."""\n'
        "    return 2 * number\n"
    )
    news = News()
    told: list[tuple[str, Mapping[str, Json]]] = []
    box = Toolbox(
        Generations(Registry.load()), Describing(pool, strict()), directories=[place], packages=[],
        announce=news.announce,
    )  # fmt: skip
    async with box.kept(wait_s=HANG_S):
        while sum(type == "catalog/refused" for type, _ in told) < 4:
            told.append(await news.next())
    added = [index for index, (_, body) in enumerate(told) if "twice" in str(body.get("added"))]
    refused = [index for index, (type, _) in enumerate(told) if type == "catalog/refused"]
    assert added < refused
