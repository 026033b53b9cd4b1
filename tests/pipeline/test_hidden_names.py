"""Hidden names from end to end: through tools, through commands, and in what is reported."""

import asyncio
from pathlib import Path

import pytest

from stockade_client import Daemon
from stockade_client.errors import NotPossible

HIDING = 'extends = "dev"\nfilesystem.hidden = [".env", "**/*.key"]\nfilesystem.protected = ["a.txt"]\n'


@pytest.fixture
def profile(workspace: Path) -> Path:
    (workspace / ".env").write_text("TOKEN\n")
    (workspace / "d").mkdir()
    (workspace / "d/one.key").write_text("TOKEN\n")
    path = workspace.parent / f"{workspace.name}-hiding.toml"
    path.write_text(HIDING)
    return path


async def test_no_tool_sees_a_hidden_name(daemon: Daemon, workspace: Path, profile: Path) -> None:
    async with daemon.session(workspace=workspace, profile=profile) as session:
        for path in (".env", "d/one.key"):
            for call in (
                session.call("read", path=path),
                session.call("edit", path=path, old_string="TOKEN", new_string="x"),
            ):
                result = await call
                assert result.error is not None
                assert result.error.code == "FS_NOT_FOUND"
        for tool, arguments in (("grep", {"pattern": "TOKEN"}), ("glob", {"pattern": "**/{.env,*.key}"})):
            found = await session.call(tool, **arguments)
            assert isinstance(found.value, dict)
            assert found.value["total"] == 0
            for path in (".env", "d/one.key"):
                named = await session.call(tool, pattern="TOKEN", path=path)
                assert named.error is not None
                assert named.error.code == "FS_NOT_FOUND"
        result = await session.call("shell", command="ls -aR; grep -r TOKEN .; echo new > .env; cat .env")
        events = [event async for event in session.events()]
    assert isinstance(result.value, dict)
    assert "TOKEN" not in str(result.value["stdout"])
    assert result.value["effects"] == [{"path": ".env", "change": "created", "kind": "file", "size": 4}]
    assert not [event for event in events if event.type == "fs/observed" and event.body.get("digest")]


async def test_a_protected_name_is_read_and_not_edited(daemon: Daemon, workspace: Path, profile: Path) -> None:
    async with daemon.session(workspace=workspace, profile=profile) as session:
        assert (await session.call("read", path="a.txt")).ok
        result = await session.call("edit", path="a.txt", old_string="one", new_string="1")
    assert result.error is not None
    assert result.error.code == "FS_PROTECTED"


async def test_nothing_is_hidden_in_a_workspace_that_is_shown_twice(
    daemon: Daemon, workspace: Path, profile: Path
) -> None:
    for shown in (workspace, workspace.parent, workspace / "d"):
        text = f'{HIDING}[[filesystem.mounts]]\npath = "{shown}"\n'.replace(
            "\n", '\nwiden = ["filesystem.mounts"]\n', 1
        )
        await asyncio.to_thread(profile.write_text, text)
        with pytest.raises(NotPossible, match="where they could be seen all the same"):
            async with daemon.session(workspace=workspace, profile=profile):
                pass
