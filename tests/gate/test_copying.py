"""A copy of a workspace is what a session could see of it, and none of its bytes are shared with a writer."""

import asyncio
import errno
import fcntl
import os
import random
import socket
import stat
from pathlib import Path
from typing import Any

import pytest

from stockade_daemon.errors import RequestError
from stockade_daemon.gate import copies as copies_
from stockade_daemon.gate.copies import Copies
from stockade_daemon.gate.copying import Copying
from stockade_daemon.gate.workspace import Workspace
from tests.scripts.snapshot import differences, snapshot

ROOT = os.geteuid() == 0


def copied(source: Path, target: Path, *, spare: int = 0) -> None:
    target.mkdir(mode=0o700)
    from_, to = (os.open(each, os.O_RDONLY | os.O_DIRECTORY) for each in (source, target))
    try:
        Copying(from_, to, spare=spare, stopped=lambda: False).run()
    finally:
        os.close(from_)
        os.close(to)


def shares_bytes(place: Path) -> bool:
    with open(place / "one", "wb") as one, open(place / "other", "wb") as other:
        one.write(b"x" * 4096)
        one.flush()
        try:
            fcntl.ioctl(other, 0x40049409, one.fileno())
        except OSError:
            return False
        return True


def test_a_copy_has_what_the_workspace_has(tmp_path: Path) -> None:
    source = tmp_path / "workspace"
    deep = source / "a" / "b"
    deep.mkdir(parents=True)
    (source / "program").write_bytes(b"#!/bin/sh\n")
    (source / "program").chmod(0o755)
    (deep / "one").write_bytes(b"1" * 5000)
    (source / "two").hardlink_to(deep / "one")
    (source / "link").symlink_to("a/b/one")
    (source / "absolute").symlink_to(source / "program")
    (source / "nowhere").symlink_to("../../nothing")
    os.mkfifo(source / "fifo", 0o640)
    (source / os.fsdecode(b"\xff\n")).write_bytes(b"odd")
    (source / "closed").mkdir()
    (source / "closed" / "in it").write_bytes(b"x")
    (source / "closed").chmod(0o555)
    os.utime(deep / "one", ns=(10**18, 10**18 + 1))
    os.utime(deep, ns=(10**18, 10**18 + 2))
    copy = tmp_path / "copy"
    copied(source, copy)
    assert differences(snapshot(source), snapshot(copy)) == []
    assert os.stat(copy / "a/b/one").st_mtime_ns == 10**18 + 1
    assert os.stat(copy / "a/b").st_mtime_ns == 10**18 + 2
    assert os.path.samefile(copy / "two", copy / "a/b/one")
    assert not os.path.samefile(copy / "two", source / "two")
    (source / "closed").chmod(0o755)
    (copy / "closed").chmod(0o755)


def test_holes_stay_holes_and_the_bytes_are_the_same(tmp_path: Path) -> None:
    source = tmp_path / "workspace"
    source.mkdir()
    seed = random.randrange(2**32)
    print(f"seed {seed}")
    dice = random.Random(seed)
    with open(source / "sparse", "wb") as file:
        for _ in range(5):
            file.seek(dice.randrange(64 * 2**20))
            file.write(dice.randbytes(dice.randrange(1, 100_000)))
        file.truncate(64 * 2**20)
    copied(source, tmp_path / "copy")
    assert (tmp_path / "copy/sparse").read_bytes() == (source / "sparse").read_bytes()
    assert os.stat(tmp_path / "copy/sparse").st_blocks * 512 < 16 * 2**20


def test_sockets_set_id_bits_and_what_a_transaction_has_there_stay_behind(tmp_path: Path) -> None:
    source = tmp_path / "workspace"
    source.mkdir()
    (source / "program").write_bytes(b"")
    (source / "program").chmod(0o4755)
    (source / ".stockade-0123456789ab").mkdir()
    (source / ".stockade-mine").write_bytes(b"a name like any other")
    # A path of a socket has at most 107 bytes.
    with socket.socket(socket.AF_UNIX) as listening:
        here = os.open(source, os.O_PATH)
        listening.bind(f"/proc/self/fd/{here}/socket")
        os.close(here)
        copied(source, tmp_path / "copy")
    assert sorted(os.listdir(tmp_path / "copy")) == [".stockade-mine", "program"]
    assert stat.S_IMODE(os.stat(tmp_path / "copy/program").st_mode) == 0o755


def test_a_link_that_takes_a_directorys_place_leads_nowhere(tmp_path: Path) -> None:
    source, outside = tmp_path / "workspace", tmp_path / "outside"
    (source / "a").mkdir(parents=True)
    for number in range(50):
        (source / f"b{number}").touch()
    outside.mkdir()
    (outside / "secret").write_bytes(b"secret")
    (tmp_path / "copy").mkdir()
    from_, to = (os.open(each, os.O_RDONLY | os.O_DIRECTORY) for each in (source, tmp_path / "copy"))

    def swapped() -> bool:  # asked before each name: once it is known as a directory, and before it is opened
        if (tmp_path / "copy" / "a").exists() and not (source / "a").is_symlink():
            os.rename(source / "a", tmp_path / "was")
            (source / "a").symlink_to(outside)
        return False

    try:
        with pytest.raises(RequestError, match="repeat it when the workspace is at rest"):
            Copying(from_, to, spare=0, stopped=swapped).run()
    finally:
        os.close(from_)
        os.close(to)
    assert not list((tmp_path / "copy").rglob("secret"))


def test_a_file_that_takes_anothers_place_has_none_of_its_names(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    source = tmp_path / "workspace"
    source.mkdir()
    (source / "one").write_bytes(b"old")
    (source / "two").hardlink_to(source / "one")
    (source / "three").hardlink_to(source / "one")
    (tmp_path / "other").write_bytes(b"new")
    opening = os.open
    replaced: list[bytes] = []

    def late(path: Any, flags: int, mode: int = 0o777, *, dir_fd: int | None = None) -> int:
        """Between the look at the first file and its opening another one gets its name."""
        if path in (b"one", b"two", b"three") and not replaced:
            replaced.append(path)
            os.replace(tmp_path / "other", path, dst_dir_fd=dir_fd)
        return opening(path, flags, mode, dir_fd=dir_fd)

    monkeypatch.setattr(os, "open", late)
    copied(source, tmp_path / "copy")
    (name,) = replaced
    for each in (b"one", b"two", b"three"):
        wanted = b"new" if each == name else b"old"
        assert (tmp_path / "copy" / os.fsdecode(each)).read_bytes() == wanted, each


def test_directories_deeper_than_a_path_can_name_are_copied(tmp_path: Path) -> None:
    source = tmp_path / "workspace"
    source.mkdir()
    held = os.open(source, os.O_RDONLY | os.O_DIRECTORY)
    for _ in range(60):
        os.mkdir("d" * 100, dir_fd=held)
        deeper = os.open("d" * 100, os.O_RDONLY | os.O_DIRECTORY, dir_fd=held)
        os.close(held)
        held = deeper
    os.close(os.open("bottom", os.O_CREAT | os.O_WRONLY, dir_fd=held))
    os.close(held)
    copied(source, tmp_path / "copy")
    held = os.open(tmp_path / "copy", os.O_RDONLY | os.O_DIRECTORY)
    for _ in range(60):
        deeper = os.open("d" * 100, os.O_RDONLY | os.O_DIRECTORY, dir_fd=held)
        os.close(held)
        held = deeper
    assert os.listdir(held) == ["bottom"]
    os.close(held)


@pytest.mark.skipif(ROOT, reason="root may read every file")
async def test_what_cannot_be_read_is_named_and_nothing_is_left(tmp_path: Path) -> None:
    source = tmp_path / "workspace"
    source.mkdir()
    (source / "mine").write_bytes(b"x")
    (source / "closed").write_bytes(b"x")
    (source / "closed").chmod(0)
    copies = Copies(tmp_path / "copies")
    async with copies.kept():
        with Workspace.open(str(source)) as workspace, pytest.raises(RequestError, match="closed: Permission denied"):
            await copies.make("s", workspace)
        assert not list((tmp_path / "copies").iterdir())


async def test_a_copy_that_would_leave_too_little_room_is_not_made(tmp_path: Path) -> None:
    source = tmp_path / "workspace"
    source.mkdir()
    (source / "big").write_bytes(b"x" * 100_000)
    room = os.statvfs(tmp_path)
    copies = Copies(tmp_path / "copies", spare=room.f_blocks * room.f_frsize)
    async with copies.kept():
        with Workspace.open(str(source)) as workspace:
            if shares_bytes(tmp_path):
                pytest.skip("this file system shares the bytes of copies (FICLONE), which then need no room")
            with pytest.raises(RequestError, match="No space left on device; make room"):
                await copies.make("s", workspace)
        assert not list((tmp_path / "copies").iterdir())


async def test_copies_of_an_earlier_daemon_are_removed_at_the_start_and_its_own_at_the_end(tmp_path: Path) -> None:
    place = tmp_path / "copies"
    (place / "of-old" / "closed").mkdir(parents=True)
    (place / "of-old" / "closed").chmod(0)
    copies = Copies(place)
    source = tmp_path / "workspace"
    source.mkdir()
    async with copies.kept():
        assert not list(place.iterdir())
        assert stat.S_IMODE(place.stat().st_mode) == 0o700
        with Workspace.open(str(source)) as workspace:
            await copies.make("..", workspace)
            assert os.listdir(place) == ["of-.."]
            with copies.open("..", str(source), (workspace.device, workspace.inode)) as copy:
                assert copy.is_copy
                assert copy.path == str(source)
                assert copy.inode != workspace.inode
                assert copy.beneath(os.fsencode(source / "a")) == b"a"
                (tmp_path / "alias").symlink_to(source)
                assert copy.beneath(os.fsencode(tmp_path / "alias" / "a")) == b"a"
    assert not place.exists()


async def test_what_is_left_of_a_copy_that_no_session_has_is_not_in_the_way_of_the_next(tmp_path: Path) -> None:
    source = tmp_path / "workspace"
    source.mkdir()
    (source / "a").write_bytes(b"new")
    copies = Copies(tmp_path / "copies")
    async with copies.kept():
        (tmp_path / "copies" / "of-s" / "old").mkdir(parents=True)
        with Workspace.open(str(source)) as workspace:
            await copies.make("s", workspace)
        assert os.listdir(tmp_path / "copies" / "of-s") == ["a"]


async def test_whoever_wants_a_copy_that_cannot_be_made_is_not_told_where_it_would_be(tmp_path: Path) -> None:
    copies = Copies(tmp_path / "copies")
    async with copies.kept():
        (tmp_path / "copies").rmdir()
        with Workspace.open(str(tmp_path)) as workspace, pytest.raises(RequestError) as refused:
            await copies.make("s", workspace)
        (tmp_path / "copies").mkdir()
    assert refused.value.message == "the workspace cannot be copied: No such file or directory"


async def test_copies_that_cannot_be_removed_now_do_not_keep_a_daemon_from_ending(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def refused(path: Path) -> None:
        raise OSError(errno.EIO, os.strerror(errno.EIO))

    with monkeypatch.context() as failing:
        async with Copies(tmp_path / "copies").kept():
            (tmp_path / "copies" / "of-s").mkdir()
            failing.setattr(copies_, "remove_tree", refused)
    assert "until the next start" in caplog.text
    async with Copies(tmp_path / "copies").kept():
        assert not list((tmp_path / "copies").iterdir())


async def test_a_copy_under_way_ends_with_the_daemon(tmp_path: Path) -> None:
    source = tmp_path / "workspace"
    source.mkdir()
    for number in range(2000):
        (source / str(number)).touch()
    copies = Copies(tmp_path / "copies")
    async with copies.kept():
        workspace = Workspace.open(str(source))
        making = asyncio.ensure_future(copies.make("s", workspace))
        await asyncio.sleep(0)  # lets it begin
    with workspace, pytest.raises(RequestError, match="stopping"):
        await making
    assert not (tmp_path / "copies").exists()
