"""What a command did, as the overlay's upper directory tells it."""

import os
from pathlib import Path

import pytest

from stockade_daemon.removing import remove_tree
from stockade_daemon.sandbox.effects import difference
from stockade_daemon.sandbox.pool import Pool
from stockade_daemon.values import Access
from tests.sandbox.conftest import run

CASES = [
    ("true", set()),
    ("cat a.txt; ls -R; git status", set()),
    ("echo more >> a.txt", {("a.txt", "changed", "file")}),
    ("rm a.txt", {("a.txt", "deleted", "file")}),
    ("rm -r d", {("d", "deleted", "directory")}),
    ("rm -r d; mkdir d; echo n > d/n", {("d", "replaced", "directory"), ("d/n", "created", "file")}),
    ("rm -r d; echo file > d", {("d", "replaced", "file")}),
    ("rm a.txt; ln -s /etc/passwd a.txt", {("a.txt", "replaced", "symlink")}),
    ("mkdir -p e; echo n > e/n", {("e", "created", "directory"), ("e/n", "created", "file")}),
    ("mkfifo p", {("p", "created", "fifo")}),
    ("chmod 700 d", {("d", "metadata", "directory")}),
    ("mv a.txt b.txt", {("a.txt", "deleted", "file"), ("b.txt", "created", "file")}),
    ("echo n > d/n; rm d/n", set()),
]  # fmt: skip


@pytest.mark.parametrize(("command", "expected"), CASES, ids=[case[0] for case in CASES])
async def test_every_kind_of_change_is_listed_and_none_is_made(
    pool: Pool, room: str, workspace: Path, command: str, expected: set[tuple[str, str, str]]
) -> None:
    async with pool.worker(room, Access.OVERLAY) as worker:
        await run(worker, command)
        assert worker.scratch is not None
        found = difference(str(worker.scratch.upper), str(workspace))
    assert {(each.path, each.change, each.kind) for each in found.effects} == expected
    assert found.total == len(expected)
    assert {str(path.relative_to(workspace)) for path in listed(workspace)} == {"a.txt", "d", "d/x"}
    assert (workspace / "a.txt").read_text() == "one\n"


def listed(directory: Path) -> list[Path]:
    return list(directory.rglob("*"))


async def test_a_renamed_directory_is_moved_whole_where_root_made_the_overlay(
    pool: Pool, room: str, workspace: Path
) -> None:
    async with pool.worker(room, Access.OVERLAY) as worker:
        await run(worker, "mv d moved && cat moved/x")
        assert worker.scratch is not None
        found = difference(str(worker.scratch.upper), str(workspace))
    changes = {each.path: each.change for each in found.effects}
    # In a user namespace the kernel refuses to rename a lower directory (EXDEV), so mv copies.
    moved = "renamed" if os.getuid() == 0 else "created"
    assert changes["moved"] == moved
    assert changes["d"] == "deleted"


async def test_the_workspace_belongs_to_the_worker_inside(pool: Pool, room: str, workspace: Path) -> None:
    """Id-mapped as root, one and the same uid else: private files open, and git trusts its own repository."""
    (workspace / "a.txt").chmod(0o600)
    async with pool.worker(room, Access.OVERLAY) as worker:
        await run(worker, "git init -q . && git status --short && cat a.txt && stat -c %u:%g a.txt && touch -c a.txt")
        assert os.read(worker.stdout, 4096).decode() == "?? a.txt\n?? d/\none\n1000:1000\n"
        assert os.read(worker.stderr, 4096) == b""


async def test_a_read_only_view_shows_the_workspace_and_takes_no_change(pool: Pool, room: str, workspace: Path) -> None:
    async with pool.worker(room, Access.READ) as worker:
        await run(worker, "cat a.txt; echo more >> a.txt; rm a.txt; touch d/n; chmod 777 a.txt; ls d")
        assert os.read(worker.stdout, 4096) == b"one\nx\n"
        assert os.read(worker.stderr, 4096).count(b"Read-only file system") == 4


async def test_a_worker_without_access_does_not_see_the_workspace(pool: Pool, room: str, workspace: Path) -> None:
    async with pool.worker(room, Access.NONE) as worker:
        await run(worker, f"ls '{workspace}' | wc -l; pwd")
        assert os.read(worker.stdout, 4096).split()[0] == b"0"


async def test_layers_above_and_below_are_not_visible_by_name(pool: Pool, room: str) -> None:
    async with pool.worker(room, Access.OVERLAY) as worker:
        await run(worker, "grep overlay /proc/self/mountinfo")
        line = os.read(worker.stdout, 4096).decode()
    assert "/state/" not in line
    assert "upperdir=/proc/self/fd/" in line


async def test_a_tree_deeper_than_a_path_can_name_is_listed_and_removed(pool: Pool, room: str, workspace: Path) -> None:
    async with pool.worker(room, Access.OVERLAY) as worker:
        deeper = "os.mkdir('directory'); os.chdir('directory')"
        await run(worker, f"python3 -c \"import os\nfor _ in range(1000): {deeper}\nos.chmod('.', 0)\"")
        assert worker.scratch is not None
        found = difference(str(worker.scratch.upper), str(workspace))
    assert 100 < found.total < 1000


def test_removing_follows_no_link_and_minds_no_mode(tmp_path: Path) -> None:
    kept = tmp_path / "kept"
    kept.mkdir()
    (kept / "file").write_text("kept")
    tree = tmp_path / "tree"
    (tree / "a" / "b" / "c").mkdir(parents=True)
    (tree / "a" / "b" / "link").symlink_to(kept)
    (tree / "a" / "file").write_text("x")
    (tree / "a" / "b").chmod(0)
    (tree / "a").chmod(0)
    remove_tree(tree)
    assert not tree.exists()
    assert (kept / "file").read_text() == "kept"
    remove_tree(tree)  # what is gone is gone


async def test_a_link_in_the_workspace_tells_nothing_of_what_it_leads_to(
    pool: Pool, room: str, workspace: Path
) -> None:
    (workspace / "link").symlink_to("/etc")
    async with pool.worker(room, Access.OVERLAY) as worker:
        await run(
            worker, "mkdir real; touch real/passwd real/nosuch; rm link; mv real link; rm link/passwd link/nosuch"
        )
        assert worker.scratch is not None
        found = difference(str(worker.scratch.upper), str(workspace))
    assert {(each.path, each.change) for each in found.effects} == {("link", "replaced")}
    # Over a directory of the workspace's a link leads nowhere either.
    assert all(each.size == 0 for each in found.effects)


async def test_a_directory_made_unreadable_is_still_listed(pool: Pool, room: str, workspace: Path) -> None:
    async with pool.worker(room, Access.OVERLAY) as worker:
        await run(worker, "mkdir n && touch n/f && chmod 0 n; touch d/n && chmod 0 d")
        assert worker.scratch is not None
        found = difference(str(worker.scratch.upper), str(workspace))
    assert {each.path for each in found.effects} == {"n", "n/f", "d", "d/n"}
