"""What git obeys is not written, whatever it is called and whoever makes it a repository."""

import subprocess
from collections.abc import Callable
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any

import pytest

from stockade_daemon.gate.gate import Gate
from stockade_daemon.gate.intents import WriteIntent
from stockade_daemon.gate.workspace import Workspace
from tests.gate.conftest import Actor

Refused = Callable[..., AbstractContextManager[Any]]


@pytest.mark.parametrize(
    "path",
    [
        ".git",
        "sub/.git",
        ".GIT/hooks/pre-commit",
        ".git/config.worktree",
        ".git/commondir",
        ".git/worktrees/one/config.worktree",
        ".git/worktrees/one/commondir",
        ".git/modules/a/b/config",
        ".git/modules/a/b/hooks/post-checkout",
        "work/sub/.git",
        ".git/rebase-merge/git-rebase-todo",
        ".git/sequencer/todo",
        "bare/config",
        "bare/hooks/post-update",
        "bare/commondir",
        "work/../bare/config",
        "leads/config",
    ],
)
async def test_what_git_obeys_is_not_written(workspace: Workspace, root: Path, refused: Refused, path: str) -> None:
    git("init", "--bare", "--quiet", str(root / "bare"))
    git("init", "--quiet", str(root / "work"))
    (root / "leads").symlink_to("bare")
    gate = Gate(workspace)
    with refused("FS_PROTECTED"):
        await gate.decide(WriteIntent(path, b"x"))


@pytest.mark.parametrize(
    ("there", "last"),
    [
        (["config", "objects/x", "refs/x"], "HEAD"),
        (["config", "HEAD", "refs/x"], "objects/x"),
        (["hooks/pre-commit", "HEAD", "objects/x"], "refs/heads/main"),
        (["HEAD", "objects/x", "refs/x"], "config"),
        (["config", "HEAD"], "commondir"),
        (["commondir"], "HEAD"),
    ],
)
async def test_a_directory_with_settings_does_not_become_a_repository(
    actor: Actor, root: Path, refused: Refused, there: list[str], last: str
) -> None:
    for place in ("", "deep/er/"):
        for name in there:
            await actor.write(f"{place}{name}", b"x")
        with refused("FS_PROTECTED", "git repository"):
            await actor.write(f"{place}{last}", b"x")
        assert not (root / place / last).exists()


@pytest.mark.parametrize(("name", "target"), [("HEAD", "refs/heads/main"), ("objects", "../../outside")])
async def test_links_make_a_repository_too(actor: Actor, root: Path, refused: Refused, name: str, target: str) -> None:
    (root / "it").mkdir()
    for each in ("HEAD", "objects", "refs"):
        if each == name:
            (root / "it" / each).symlink_to(target)
        else:
            (root / "it" / each).mkdir()
    with refused("FS_PROTECTED", "git repository"):
        await actor.write("it/config", b"x")
    (root / "way").symlink_to("plain")
    await actor.write("plain/config", b"x")
    await actor.read("way/config")
    await actor.write("way/config", b"y")


async def test_ordinary_files_with_such_names_are_written(actor: Actor, root: Path) -> None:
    git("init", "--quiet", str(root))
    for path in ("config", "refs/x", "objects/y", "app/config/settings", "web/HEAD", ".git/info/note", ".gitignore"):
        await actor.write(path, b"x")
        assert (root / path).read_bytes() == b"x"


async def test_a_workspace_within_a_repository_is_one_too(tmp_path: Path, refused: Refused) -> None:
    git("init", "--quiet", str(tmp_path / "work"))
    for inside, path in ((".git", "config"), (".git", "hooks/x"), (".git/hooks", "post-checkout")):
        with Workspace.open(str(tmp_path / "work" / inside)) as workspace, refused("FS_PROTECTED"):
            await Gate(workspace).decide(WriteIntent(path, b"x"))


def git(*arguments: str) -> None:
    subprocess.run(["git", *arguments], check=True, timeout=60)
