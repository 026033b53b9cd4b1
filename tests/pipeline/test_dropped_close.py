"""A session leaves nothing that it held, whatever becomes of the request that opens or closes it."""

import asyncio
import os
from pathlib import Path

import pytest

from stockade_daemon.gate.copies import Copies
from stockade_daemon.gate.workspace import Workspace
from stockade_daemon.pipeline.opening import Opening
from stockade_daemon.sandbox.pool import Pool
from tests.pipeline.engines import an_engine


def on_a_copy(place: Path) -> Opening:
    return Opening("c", str(place / "workspace"), "dev", None, "ask", view="copy")


async def test_a_close_that_is_dropped_half_way_leaves_no_copy(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    begun, go = asyncio.Event(), asyncio.Event()
    close_room = Pool.close_room

    async def slowly(self: Pool, session_id: str, *, for_good: bool = False) -> None:
        begun.set()
        await go.wait()
        await close_room(self, session_id, for_good=for_good)

    async with asyncio.timeout(60), an_engine(tmp_path, lambda services: None) as tried:
        copies = tmp_path / "state" / "copies"
        copies.mkdir(mode=0o700)
        await tried.engine.sessions.open(on_a_copy(tmp_path))
        workspace = (await tried.engine.sessions.live("c")).workspace
        assert os.listdir(copies) == ["of-c"]
        with monkeypatch.context() as held:
            held.setattr(Pool, "close_room", slowly)
            closing = asyncio.create_task(tried.engine.close_session("c"))
            await begun.wait()
            closing.cancel()
            with pytest.raises(asyncio.CancelledError):
                await closing
            go.set()
            assert (await tried.engine.close_session("c")).state == "closed"
        assert os.listdir(copies) == []
        with pytest.raises(OSError, match="Bad file descriptor"):
            os.fstat(workspace.descriptor)


async def test_a_close_that_is_repeated_removes_what_could_not_be_removed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def refused(self: Copies, session_id: str) -> None:
        raise OSError(5, "Input/output error")

    async with an_engine(tmp_path, lambda services: None) as tried:
        copies = tmp_path / "state" / "copies"
        copies.mkdir(mode=0o700)
        await tried.engine.sessions.open(on_a_copy(tmp_path))
        with monkeypatch.context() as failing:
            failing.setattr(Copies, "remove", refused)
            assert (await tried.engine.close_session("c")).state == "closed"
        assert os.listdir(copies) == ["of-c"]
        assert (await tried.engine.close_session("c")).state == "closed"
        assert os.listdir(copies) == []


async def test_an_open_that_is_dropped_while_the_copy_is_made_leaves_no_copy(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    begun, make = asyncio.Event(), Copies.make

    async def told(self: Copies, session_id: str, workspace: Workspace) -> None:
        begun.set()
        await make(self, session_id, workspace)

    async with asyncio.timeout(60), an_engine(tmp_path, lambda services: None) as tried:
        copies = tmp_path / "state" / "copies"
        copies.mkdir(mode=0o700)
        with monkeypatch.context() as telling:
            telling.setattr(Copies, "make", told)
            opening = asyncio.create_task(tried.engine.sessions.open(on_a_copy(tmp_path)))
            await begun.wait()
            opening.cancel()
            with pytest.raises(asyncio.CancelledError):
                await opening
        assert os.listdir(copies) == []
        assert (await tried.engine.sessions.open(on_a_copy(tmp_path))).state == "open"
        await tried.engine.close_session("c")
