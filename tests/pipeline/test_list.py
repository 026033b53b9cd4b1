"""`list`: what is in a directory, in a stable order and without what is hidden."""

import base64
import os
import socket
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio

from stockade_client import Daemon
from stockade_client.results import CallResult
from stockade_client.session import Session
from stockade_daemon.errors import GateRefusal
from stockade_daemon.gate import listing
from stockade_daemon.gate.gate import Gate
from stockade_daemon.gate.workspace import Workspace


@pytest_asyncio.fixture
async def session(daemon: Daemon, workspace: Path) -> AsyncIterator[Session]:
    profile = workspace.parent / f"{workspace.name}-list.toml"
    profile.write_text('extends = "strict"\n[filesystem]\nhidden = ["secret", "*.key"]\n')
    async with daemon.session(workspace=workspace, profile=profile) as session:
        yield session


def code(result: CallResult) -> str:
    return result.error.code if result.error else "ok"


def value(result: CallResult) -> dict[str, Any]:
    assert isinstance(result.value, dict), result
    return dict(result.value)


async def test_every_kind_is_told_and_nothing_is_followed(session: Session, workspace: Path) -> None:
    (workspace / "d").mkdir()
    (workspace / ".dot").write_bytes(b"")
    (workspace / "l").symlink_to("/etc/passwd")
    os.mkfifo(workspace / "p")
    with socket.socket(socket.AF_UNIX) as end:
        end.bind(str(workspace / "s"))
        result = await session.call("list", path=".")
    assert value(result)["entries"] == [
        {"name": ".dot", "kind": "file", "size": 0},
        {"name": "a.txt", "kind": "file", "size": 14},
        {"name": "d", "kind": "directory"},
        {"name": "l", "kind": "link", "target": "/etc/passwd"},
        {"name": "p", "kind": "FIFO"},
        {"name": "s", "kind": "socket"},
    ]
    assert result.content == (".dot  0\na.txt  14\nd/\nl -> /etc/passwd\np  (FIFO)\ns  (socket)\n[.: 6 names]",)


async def test_names_are_bytes_in_the_value_and_harmless_in_the_text(session: Session, workspace: Path) -> None:
    names = [b"caf\xe9.txt", b"a\nrm -rf .txt", b"\xc3\xa9", b" ", b"-n", b"\xe2\x80\xae.txt"]
    for name in names:
        (workspace / os.fsdecode(name)).write_bytes(b"")
    result = await session.call("list", path=".")
    found = [
        base64.b64decode(each["name_b64"]) if "name_b64" in each else each["name"].encode()
        for each in value(result)["entries"]
    ]
    assert found == sorted([*names, b"a.txt"])
    assert len(result.content[0].splitlines()) == len(found) + 1
    assert "\\u202e" in result.content[0]


async def test_hidden_names_are_absent_by_whichever_name(session: Session, workspace: Path) -> None:
    (workspace / "secret").mkdir()
    (workspace / "my.key").write_bytes(b"k")
    os.link(workspace / "my.key", workspace / "innocent")
    result = await session.call("list", path=".")
    assert [each["name"] for each in value(result)["entries"]] == ["a.txt"]
    assert value(result)["total"] == 1
    assert code(await session.call("list", path="secret")) == "FS_NOT_FOUND"


async def test_what_a_cap_left_out_is_said_with_how_to_go_on(session: Session, workspace: Path) -> None:
    names = [f"{number:04}{'x' * 200}" for number in range(600)]
    (workspace / "d").mkdir()
    for name in names:
        (workspace / "d" / name).write_bytes(b"")
    found: list[str] = []
    for truncated in (True, True, False):
        result = await session.call("list", path="d", offset=len(found) + 1)
        assert len(result.content[0]) < 60_000
        found += [each["name"] for each in value(result)["entries"]]
        assert value(result)["truncated"] is truncated
        assert (f"continue with offset={len(found) + 1}]" in result.content[0]) is truncated
    assert found == names
    assert [each["name"] for each in value(await session.call("list", path="d", offset=5, limit=2))["entries"]] == (
        names[4:6]
    )
    assert code(await session.call("list", path="d", offset=601)) == "INVALID_ARGS"


async def test_an_empty_directory_is_said_to_be_empty(session: Session, workspace: Path) -> None:
    (workspace / "d").mkdir()
    assert (await session.call("list", path="d")).content == ("[d is empty]",)


async def test_what_is_no_directory_or_not_there_is_refused(session: Session, workspace: Path) -> None:
    (workspace / "src").mkdir()
    assert code(await session.call("list", path="a.txt")) == "FS_NOT_DIRECTORY"
    assert code(await session.call("list", path="..")) == "FS_OUTSIDE_WORKSPACE"
    assert code(await session.call("list", path="/etc")) == "FS_OUTSIDE_WORKSPACE"
    missing = await session.call("list", path="scr")
    assert code(missing) == "FS_NOT_FOUND"
    assert missing.error is not None
    assert "src" in missing.error.message


async def test_a_listing_is_no_observation(session: Session, workspace: Path) -> None:
    await session.call("list", path=".")
    async with session.events() as events:
        assert "fs/observed" not in [event.type async for event in events]


async def test_a_directory_of_more_names_than_are_kept_is_refused(
    workspace: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(listing, "MOST_NAMES", 3)
    for name in "bcd":
        (workspace / name).write_bytes(b"")
    with Workspace.open(str(workspace)) as place:
        with pytest.raises(GateRefusal) as refused:
            await Gate(place).entries(".", first=1, most=1)
        assert refused.value.code == "FS_TOO_LARGE"
        (workspace / "b").unlink()
        assert (await Gate(place).entries(".", first=1, most=1)).total == 3
