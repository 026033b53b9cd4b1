"""Names that are not shown as they are: the file that was named is the one that is read and changed."""

import base64
import os
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio

from stockade_client import Daemon
from stockade_client.results import CallResult
from stockade_client.session import Session
from stockade_daemon.gate.names import shown
from tests.pipeline.conftest import ALLOWING

# Tabulator, newline, delete, a space without width, a letter's direction turned round, an escape of a terminal.
ODD = ("a\tb", "a\nb", "a\x7fb", "a\u200bb", "a\u202eb", "\x1b[31mb")


@pytest_asyncio.fixture
async def session(daemon: Daemon, workspace: Path) -> AsyncIterator[Session]:
    profile = workspace.parent / f"{workspace.name}-names.toml"
    profile.write_text(ALLOWING)
    async with daemon.session(workspace=workspace, profile=profile) as session:
        yield session


def value(result: CallResult) -> dict[str, Any]:
    assert result.error is None, result.error
    assert isinstance(result.value, dict)
    return result.value


@pytest.mark.parametrize("name", ODD, ids=ascii)
@pytest.mark.parametrize("tool", ["edit", "multi_edit", "write"])
async def test_a_file_is_changed_and_not_the_one_that_is_called_as_it_is_shown(
    session: Session, workspace: Path, tool: str, name: str
) -> None:
    twin = shown(name.encode())
    changes: dict[str, dict[str, Any]] = {
        "edit": {"old_string": "same", "new_string": "changed"},
        "multi_edit": {"edits": [{"old_string": "same", "new_string": "changed"}]},
        "write": {"content": "changed\n"},
    }
    for each in (name, twin):
        (workspace / each).write_text("same\n")
        assert value(await session.call("read", path=each))["path"] == each
    result = await session.call(tool, path=name, **changes[tool])
    assert value(result)["path"] == name
    assert name not in "".join(str(each) for each in result.content)
    assert ((workspace / name).read_text(), (workspace / twin).read_text()) == ("changed\n", "same\n")


async def test_the_path_of_a_value_leads_to_the_same_file_again(session: Session, workspace: Path) -> None:
    made = value(await session.call("write", path="new\tfile", content="one\n"))
    value(await session.call("edit", path=made["path"], old_string="one", new_string="two"))
    again = value(await session.call("read", path=made["path"]))
    value(await session.call("write", path=again["path"], content="three\n"))
    assert (workspace / "new\tfile").read_text() == "three\n"
    assert [name for name in os.listdir(workspace) if name.startswith("new")] == ["new\tfile"]


async def test_of_a_name_that_is_no_text_the_bytes_are_told(session: Session, workspace: Path) -> None:
    name = os.fsdecode(b"\xff.txt")
    (workspace / name).write_text("one\n")
    (workspace / "link").symlink_to(name)
    seen = value(await session.call("read", path="link"))
    assert (seen["path"], base64.b64decode(seen["path_b64"])) == ("\\xff.txt", b"\xff.txt")
    done = value(await session.call("edit", path="link", old_string="one", new_string="two"))
    assert base64.b64decode(done["path_b64"]) == b"\xff.txt"
    assert (workspace / name).read_text() == "two\n"


async def test_an_edit_of_a_link_is_judged_by_its_name_too(daemon: Daemon, workspace: Path) -> None:
    profile = workspace.parent / f"{workspace.name}-link.toml"
    profile.write_text(f'{ALLOWING}\n[filesystem]\nprotected = ["link"]\n')
    (workspace / "link").symlink_to("a.txt")
    async with daemon.session(workspace=workspace, profile=profile) as session:
        await session.call("read", path="link")
        result = await session.call("edit", path="link", old_string="one", new_string="1")
    assert result.error is not None
    assert result.error.code == "FS_PROTECTED"
