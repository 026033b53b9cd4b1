"""What a protected name leads to by links is protected, whatever the links are and whenever they were made."""

import os
import subprocess
import time
from collections.abc import Callable
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any, TypeAlias

import pytest

from stockade_daemon.errors import GateRefusal
from stockade_daemon.gate import directories
from stockade_daemon.gate.gate import Gate
from stockade_daemon.gate.intents import WriteIntent
from stockade_daemon.gate.workspace import Workspace
from stockade_daemon.values import Json
from tests.gate.conftest import Actor

Refused: TypeAlias = Callable[..., AbstractContextManager[Any]]


async def write(gate: Gate, path: str) -> None:
    await Actor(gate, []).write(path, b"x")


def link(root: Path, name: str, target: str) -> None:
    (root / name).parent.mkdir(parents=True, exist_ok=True)
    (root / name).symlink_to(target.replace("ROOT", str(root)))


def repository(place: Path, *options: str) -> None:
    subprocess.run(["git", "init", "--quiet", "--template=", *options, str(place)], check=True, timeout=60)


GIT = {
    "a hook": ({".git/hooks/pre-commit": "../../scripts/pre-commit"}, "scripts/pre-commit"),
    "all hooks": ({".git/hooks": "../hooks.d"}, "hooks.d/pre-commit"),
    "a hook among linked hooks": (
        {".git/hooks": "../hooks.d", "hooks.d/pre-commit": "../scripts/pre-commit"},
        "scripts/pre-commit",
    ),
    "a chain": ({".git/hooks": "../one", "one": "two", "two": "ROOT/three"}, "three/a/b"),
    "an absolute link": ({".git/config": "ROOT/settings"}, "settings"),
    "the repository": ({".git": "elsewhere"}, "elsewhere/hooks/pre-commit"),
    "a file that says where it is": ({"sub/.git": "../said"}, "said"),
    "a repository in a directory": ({"a/b/.git/hooks/x": "../../../../y"}, "y"),
    "a submodule": ({".git/modules/a/b/hooks": "../../../../h"}, "h/post-checkout"),
    "a worktree": ({".git/worktrees/one/config.worktree": "../../../w"}, "w"),
    "another case": ({".GIT/Hooks": "../hooks.d"}, "hooks.d/pre-commit"),
    "a directory that is not there yet": ({".git/hooks/x": "../../none/../scripts/x"}, "scripts/x"),
    "the workspace": ({".git/hooks/up": "../.."}, "a.txt"),
}


@pytest.mark.parametrize("case", GIT)
async def test_what_git_obeys_through_links_is_not_written(
    workspace: Workspace, root: Path, refused: Refused, case: str, either_way: str
) -> None:
    links, path = GIT[case]
    gate = Gate(workspace)
    await write(gate, path)  # as long as there is no link
    for name, target in links.items():
        link(root, name, target)
    with refused("FS_PROTECTED", "protected name", "by the link"):
        await gate.decide(WriteIntent(path, b"y"))
    if path != "a.txt":
        await write(gate, "other/" + path)


NAMED = {
    "a file": (["lnk.env"], {"lnk.env": "tgt"}, "tgt"),
    "a directory": (["keys"], {"keys": "d/real"}, "d/real/x/y"),
    "below a directory": (["keys/**"], {"keys/a": "../d/b"}, "d/b"),
    "in the middle": (["config/secret"], {"config": "conf.d"}, "conf.d/secret"),
    "in the middle, with a star": (["*/secret.*"], {"config": "d/e"}, "d/e/secret.txt"),
    "at any depth": (["**/.env"], {"a/b/.env": "../../tgt"}, "tgt"),
    "below any depth": (["a/**/x"], {"a/b/c": "../../other"}, "other/d/x"),
    "within a linked directory": (["a/*/x"], {"a/b": "../d", "d/x": "../f"}, "f"),
    "a loop": (["a/**/x"], {"a/up": "..", "a/b/again": "../../a"}, "b/x"),
}  # fmt: skip


@pytest.mark.parametrize("there", [True, False])
@pytest.mark.parametrize("case", NAMED)
async def test_what_a_profile_protects_is_so_through_links(
    workspace: Workspace, root: Path, refused: Refused, case: str, there: bool, either_way: str
) -> None:
    patterns, links, path = NAMED[case]
    if there:
        await write(Gate(workspace), path)
    for name, target in links.items():
        link(root, name, target)
    with refused("FS_PROTECTED", "is where a protected name leads"):
        await Gate(workspace, protected=tuple(patterns)).decide(WriteIntent(path, b"y"))


@pytest.mark.parametrize(
    ("patterns", "links", "path"),
    [
        (["config/secret"], {"config": "conf.d"}, "conf.d/other"),
        (["**/.env"], {"a/env": "../tgt"}, "tgt"),
        (["**/.env"], {"a/.env": "../tgt"}, "tgt2"),
        (["a/*/x"], {"a/b": "../d"}, "d/y/x"),
        (["lnk"], {"lnk": "lnk"}, "other"),
        (["lnk"], {"lnk": "/etc/hosts"}, "etc/hosts"),
        (["**/x"], {"a/up": "../.."}, "b"),
        (["keys"], {"there": "keys"}, "b"),
    ],
)
async def test_what_no_protected_name_leads_to_is_written(
    workspace: Workspace, root: Path, patterns: list[str], links: dict[str, str], path: str, either_way: str
) -> None:
    for name, target in links.items():
        link(root, name, target)
    await write(Gate(workspace, protected=tuple(patterns)), path)


async def test_a_repository_without_a_working_tree_leads_too(
    workspace: Workspace, root: Path, refused: Refused
) -> None:
    repository(root / "bare", "--bare")
    link(root, "bare/hooks", "../hooks.d")
    (root / "bare/config").rename(root / "settings")
    link(root, "bare/config", "../settings")
    for path in ("hooks.d/update", "settings"):
        with refused("FS_PROTECTED", "bare/"):
            await write(Gate(workspace), path)


async def test_a_repository_around_the_workspace_leads_too(tmp_path: Path, refused: Refused) -> None:
    repository(tmp_path)
    (tmp_path / "work").mkdir()
    (tmp_path / ".git/hooks").mkdir()
    (tmp_path / ".git/hooks/pre-commit").symlink_to("../../work/scripts/pre-commit")
    (tmp_path / ".git/config.worktree").symlink_to("../work/settings")
    with Workspace.open(str(tmp_path / "work")) as workspace:
        for path in ("scripts/pre-commit", "settings"):
            with refused("FS_PROTECTED"):
                await write(Gate(workspace), path)
        await write(Gate(workspace), "scripts/other")


async def test_links_that_leave_the_workspace_may_come_back(
    workspace: Workspace, root: Path, outside: Path, refused: Refused
) -> None:
    (outside / "hooks").mkdir()
    (outside / "hooks/pre-commit").symlink_to(root / "scripts/pre-commit")
    (outside / "config").symlink_to(root / "settings")
    link(root, ".git/hooks", str(outside / "hooks"))
    link(root, ".git/config", str(outside / "config"))
    for path in ("scripts/pre-commit", "settings"):
        with refused("FS_PROTECTED"):
            await write(Gate(workspace), path)


async def test_another_name_of_what_a_protected_name_leads_to_is_protected(
    workspace: Workspace, root: Path, refused: Refused
) -> None:
    (root / "script").write_text("")
    os.link(root / "script", root / "twin")
    link(root, ".git/hooks/x", "../../script")
    with refused("FS_PROTECTED", "another name of script"):
        await write(Gate(workspace), "twin")


async def test_the_name_of_a_hidden_link_is_not_told(workspace: Workspace, root: Path) -> None:
    link(root, "private/lnk", "../tgt")
    with pytest.raises(GateRefusal) as caught:
        await write(Gate(workspace, protected=("**/lnk",), hidden=("private",)), "tgt")
    assert caught.value.code == "FS_PROTECTED"
    assert "private" not in str(caught.value)


async def test_a_link_that_was_made_after_the_decision_is_seen_at_the_commit(
    workspace: Workspace, root: Path, refused: Refused, either_way: str
) -> None:
    gate = Gate(workspace)

    async def begun(body: dict[str, Json]) -> None:
        raise AssertionError("begun")

    planned = await gate.decide(WriteIntent("scripts/x", b"x"))
    link(root, ".git/hooks/x", "../../scripts/x")
    with refused("FS_PROTECTED", "scripts/x", ".git/hooks/x"):
        await gate.commit(planned, begun=begun)
    assert not (root / "scripts").exists()


def _moved_in(root: Path) -> None:
    (root / "far/link").rename(root / ".git/hooks/moved")


def _replaced(root: Path) -> None:
    (root / "far/link").replace(root / ".git/hooks/file")


def _became_a_link(root: Path) -> None:
    (root / ".git/hooks").rename(root / "away")
    link(root, ".git/hooks", "../tgt")


@pytest.mark.parametrize(
    "change", [lambda root: link(root, ".git/hooks/new", "../../tgt"), _moved_in, _replaced, _became_a_link]
)
async def test_links_in_directories_that_are_known_are_seen(
    workspace: Workspace, root: Path, refused: Refused, monkeypatch: pytest.MonkeyPatch, change: Callable[[Path], None]
) -> None:
    # Two changes within a tick of the clock, at most 10 ms, could have one ctime.
    monkeypatch.setattr(directories, "settled_ns", 20_000_000)
    link(root, "far/link", "../../tgt")
    (root / ".git/hooks").mkdir(parents=True)
    (root / ".git/hooks/file").touch()
    _until_settled()
    gate = Gate(workspace)
    await gate.decide(WriteIntent("tgt", b"x"))
    assert {_key(root / name) for name in (".", "far", ".git", ".git/hooks")} <= directories._known.keys()
    change(root)
    with refused("FS_PROTECTED"):
        await gate.decide(WriteIntent("tgt", b"x"))


async def test_a_directory_that_has_just_changed_is_not_kept(workspace: Workspace, root: Path) -> None:
    await Gate(workspace).decide(WriteIntent("tgt", b"x"))
    assert _key(root) not in directories._known


def _key(path: Path) -> tuple[int, int]:
    status = path.stat()
    return status.st_dev, status.st_ino


def _until_settled() -> None:
    """Until what was made before has been left alone for long enough."""
    end = time.time_ns() + directories.settled_ns + 1
    while time.time_ns() <= end:
        os.sched_yield()
