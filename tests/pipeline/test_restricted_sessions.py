"""A session that offers some tools: for it the others do not exist."""

import asyncio
from pathlib import Path

import pytest

from stockade_client import Daemon, connect
from stockade_client.errors import AlreadyExists, InvalidRequest
from stockade_client.session import Session
from tests.end_to_end.stockaded import Stockaded


async def message(session: Session, tool: str) -> str:
    result = await session.call(tool, path="a.txt")
    assert result.error is not None
    assert result.error.code == "UNKNOWN_TOOL"
    return result.error.message


async def test_a_tool_that_is_left_out_cannot_be_told_from_one_that_there_is_not(
    daemon: Daemon, workspace: Path
) -> None:
    async with daemon.session(workspace=workspace, profile="dev", tools=["read"]) as session:
        assert (await session.call("read", path="a.txt")).ok
        left_out, missing = await message(session, "edit"), await message(session, "tide")
        assert left_out.replace("edit", "tide") == missing
        assert "shell" not in left_out
        call = await session.start("edit", path="a.txt")
        other = await session.start("tide", path="a.txt")
        for each in (call, other):
            await each.result()
            async with session.events(call_id=each.call_id) as events:
                assert [event.type async for event in events] == ["tool/call", "tool/result"]


async def test_the_sessions_catalog_shows_its_tools_and_the_daemons_all(daemon: Daemon, workspace: Path) -> None:
    async with daemon.session(workspace=workspace, profile="dev", tools=["shell", "read"]) as session:
        assert [tool.name for tool in await session.tools()] == ["read", "shell"]
        assert session.info.tools == ("read", "shell")
    assert "edit" in [tool.name for tool in await daemon.tools()]
    async with daemon.session(workspace=workspace, profile="dev") as session:
        assert await session.tools() == await daemon.tools()


async def test_names_that_no_tool_has_and_names_twice_are_refused(daemon: Daemon, workspace: Path) -> None:
    for tools, words in ((["raed"], "did you mean 'read'"), (["read", "read"], "one twice")):
        with pytest.raises(InvalidRequest, match=words):
            async with daemon.session(workspace=workspace, profile="dev", tools=tools):
                pass


async def test_the_list_belongs_to_the_session(daemon: Daemon, workspace: Path) -> None:
    async with daemon.session(workspace=workspace, profile="dev", id="some", tools=["read", "shell"]):
        async with daemon.session(workspace=workspace, profile="dev", id="some", tools=["shell", "read"]) as same:
            assert (await same.call("read", path="a.txt")).ok
        for tools in ([], ["read"]):
            with pytest.raises(AlreadyExists, match="the tools read, shell"):
                async with daemon.session(workspace=workspace, profile="dev", id="some", tools=tools):
                    pass
        async with daemon.session(id="some") as resumed:
            assert [tool.name for tool in await resumed.tools()] == ["read", "shell"]
            await resumed.close()


def test_it_survives_a_restart_of_the_daemon(scratch: Path, workspace: Path) -> None:
    place = scratch / "some"
    place.mkdir()
    stockaded = Stockaded(place, workspaces=workspace)

    async def once() -> str:
        async with (
            connect(stockaded.address) as daemon,
            daemon.session(workspace=workspace, profile="dev", id="kept", tools=["read"]) as session,
        ):
            return await message(session, "shell")

    stockaded.start()
    try:
        first = asyncio.run(once())
        stockaded.end()
        stockaded.start()
        assert asyncio.run(once()) == first
    finally:
        stockaded.end()
