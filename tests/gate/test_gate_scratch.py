"""At a scratch path the gate has nothing: it reads, lists, writes and compares nothing there."""

import os
from collections.abc import Callable
from contextlib import AbstractContextManager
from pathlib import Path
from typing import TypeAlias

import pytest

from stockade_daemon.gate.gate import Gate
from stockade_daemon.gate.workspace import Workspace
from tests.gate.conftest import Actor

Refused: TypeAlias = Callable[..., AbstractContextManager[None]]
SCRATCH = ("cache", "web/deps")


@pytest.fixture
def gate(workspace: Workspace, root: Path) -> Gate:
    (root / "cache").mkdir()
    (root / "cache" / "file").write_text("of the workspace\n")
    (root / "cached").write_text("beside\n")
    (root / "way").symlink_to("cache")
    (root / "out").symlink_to("/nowhere")
    return Gate(workspace, scratch=SCRATCH)


@pytest.mark.parametrize(
    "path", ["cache", "cache/file", "./cache//file", "way/file", "web/../cache/file", "web/deps/x"]
)
async def test_a_scratch_path_is_refused_however_it_is_spelled(
    gate: Gate, root: Path, refused: Refused, path: str
) -> None:
    (root / "web").mkdir()
    with refused("FS_PERMISSION_DENIED", "is scratch", "command in `shell`"):
        await gate.read(path)
    with refused("FS_PERMISSION_DENIED", "is scratch"):
        await gate.locate(path)
    with refused("FS_PERMISSION_DENIED", "is scratch"):
        await gate.entries(path, first=1, most=1)
    with refused("FS_PROTECTED", "is scratch", "another name"):
        await Actor(gate, []).plan_write(path, b"x")
    assert await gate.fingerprints([f"{root}/{path}", path]) == [None, None]


async def test_what_only_begins_like_a_scratch_path_is_the_workspaces(gate: Gate) -> None:
    await Actor(gate, []).read("cached")
    await Actor(gate, []).write("cached", b"new\n")
    assert [each.name for each in (await gate.entries(".", first=1, most=9)).entries] == [b"cached", b"out", b"way"]
    assert (await gate.fingerprints(["cached"]))[0] is not None


async def test_a_link_that_leads_to_scratch_since_a_write_was_decided_about_is_not_followed(
    gate: Gate, root: Path, refused: Refused
) -> None:
    (root / "web").mkdir()
    planned = await Actor(gate, []).plan_write("web/new", b"x")
    (root / "web").rmdir()
    (root / "web").symlink_to("cache")
    with refused("FS_STALE_VERSION", "leads to cache/new now"):
        await Actor(gate, []).commit(planned)
    assert os.listdir(root / "cache") == ["file"]


async def test_what_was_decided_about_before_a_path_was_scratch_is_made_and_no_more_is(
    workspace: Workspace, root: Path, refused: Refused
) -> None:
    first = Gate(workspace)
    planned = await Actor(first, []).plan_write("cache", b"x")
    later = first.under(protected=(), hidden=(), scratch=("cache",))
    await Actor(first, []).commit(planned)
    assert (root / "cache").read_bytes() == b"x"
    with refused("FS_PROTECTED"):
        await Actor(later, []).plan_write("cache", b"y")
    await Actor(later.under(protected=(), hidden=()), []).read("cache")
