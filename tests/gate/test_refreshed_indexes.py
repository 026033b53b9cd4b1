"""Only an index of git that says the same of every file is no change."""

import os
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from stockade_daemon.gate.effects.git_index import is_refreshed, same_but_for_stat
from stockade_daemon.gate.effects.tree import Tree
from stockade_daemon.gate.effects.upper import found_at

Changes = Callable[[Path], None]


def git(at: Path, *arguments: str) -> None:
    nobody = ("-c", "user.name=A", "-c", "user.email=a@example.org")
    subprocess.run(["git", *nobody, *arguments], cwd=at, check=True, capture_output=True)


def refreshed(repository: Path) -> None:
    os.utime(repository / "a", (1, 1))
    git(repository, "update-index", "--refresh")


def staged(repository: Path) -> None:
    (repository / "a").write_text("two\n")
    git(repository, "add", "a")


def executable(repository: Path) -> None:
    git(repository, "update-index", "--chmod=+x", "a")


def assumed(repository: Path) -> None:
    git(repository, "update-index", "--assume-unchanged", "a")


def skipped(repository: Path) -> None:
    git(repository, "update-index", "--skip-worktree", "a")


def removed(repository: Path) -> None:
    git(repository, "rm", "--cached", "-q", "a")


def another_version(repository: Path) -> None:
    git(repository, "update-index", "--index-version", "4")


def cut(repository: Path) -> None:
    index = repository / ".git" / "index"
    index.write_bytes(index.read_bytes()[:-30])


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    place = tmp_path / "repository"
    place.mkdir()
    (place / "a").write_text("one\n")
    (place / "b").write_text("one\n")
    git(place, "init", "-q")
    git(place, "add", ".")
    git(place, "commit", "-qm", "first")
    return place


@pytest.mark.parametrize("change", [refreshed, staged, executable, assumed, skipped, removed, another_version, cut])
def test_a_refreshed_index_says_the_same_and_no_other_one_does(repository: Path, change: Changes) -> None:
    before = (repository / ".git" / "index").read_bytes()
    change(repository)
    after = (repository / ".git" / "index").read_bytes()
    assert before != after
    assert same_but_for_stat(before, after) is (change is refreshed)


@pytest.mark.parametrize(("name", "told"), [(".git", True), ("deep/.git", True), ("notes.git", False), ("x", False)])
def test_only_the_index_of_a_repository_is_looked_at(repository: Path, tmp_path: Path, name: str, told: bool) -> None:
    """Whatever else has such bytes is committed as it is."""
    for side in ("lower", "upper"):
        (tmp_path / side / name).mkdir(parents=True)
        (tmp_path / side / name / "index").write_bytes((repository / ".git" / "index").read_bytes())
        refreshed(repository)
    path = os.fsencode(f"{name}/index")
    descriptors = [os.open(tmp_path / side, os.O_PATH | os.O_DIRECTORY) for side in ("lower", "upper")]
    try:
        with Tree(descriptors[0]) as lower, Tree(descriptors[1]) as upper:
            assert is_refreshed(lower, path, upper, found_at(upper, path, "user.")) is told
    finally:
        for descriptor in descriptors:
            os.close(descriptor)
