"""What git tracks at a path is read from its index, of every version that git writes; anything else tracks nothing."""

import subprocess
from pathlib import Path

import pytest

from stockade_daemon.gate.tracked import names, tracked
from stockade_daemon.gate.workspace import Workspace

FILES = ["a", "deep/er/one", "deep/er/other", "deep/z", "long/" + "n" * 200, "z " + "m" * 130]


@pytest.fixture
def repository(root: Path) -> Path:
    for name in FILES:
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(name)
    git(root, "init", "-q")
    git(root, "add", "--all")
    return root


def git(at: Path, *arguments: str) -> None:
    subprocess.run(["git", *arguments], cwd=at, check=True)


@pytest.mark.parametrize("version", [2, 3, 4])
def test_all_names_are_read_from_each_version(repository: Path, version: int) -> None:
    if version == 3:  # git writes it where an entry has further flags
        (repository / "later").write_text("later")
        git(repository, "add", "--intent-to-add", "later")
    git(repository, "update-index", "--index-version", str(version))
    index = (repository / ".git/index").read_bytes()
    assert index[7] == version
    expected = sorted([*FILES, *(["later"] if version == 3 else [])])
    assert list(names(index)) == [name.encode() for name in expected]
    # Whatever is no index has some of them, or none.
    for cut in range(0, len(index), 7):
        assert all(isinstance(name, bytes) for name in names(index[:cut]))
    assert list(names(b"no index at all, and longer than its head")) == []


def test_what_is_tracked_at_a_path_is_found_in_each_repository_around_it(
    workspace: Workspace, repository: Path
) -> None:
    assert tracked(workspace, "deep/er") == b"deep/er/one"
    assert tracked(workspace, "a") == b"a"
    assert tracked(workspace, "dee") is None
    assert tracked(workspace, "deep/er/one/more") is None
    inner = repository / "inner"
    (inner / "kept").mkdir(parents=True)
    (inner / "kept" / "x").write_text("x")
    git(inner, "init", "-q")
    git(inner, "add", "--all")
    assert tracked(workspace, "inner/kept") == b"inner/kept/x"
    (inner / ".git/index").unlink()
    (inner / ".git/index").symlink_to("/dev/zero")
    assert tracked(workspace, "inner/kept") is None
