"""What survives a commit: every byte outside the change, and everything about a file that is not its bytes."""

import errno
import fcntl
import os
import random
import stat
from collections.abc import Callable
from contextlib import AbstractContextManager
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from stockade_daemon.gate import content
from stockade_daemon.gate.intents import EditIntent, WriteIntent
from stockade_daemon.gate.spans import Span

if TYPE_CHECKING:
    from tests.gate.conftest import Actor

Refused = Callable[..., AbstractContextManager[None]]

pytestmark = pytest.mark.usefixtures("either_temporary")


@pytest.mark.parametrize(
    ("before", "after"),
    [
        (b"one\r\ntwo\r\n", b"ONE\r\ntwo\r\n"),
        (b"one\ntwo", b"ONE\ntwo"),
        (b"\xef\xbb\xbfone\r\ntwo\n\xff\xfe\x00", b"\xef\xbb\xbfONE\r\ntwo\n\xff\xfe\x00"),
        (b"\n\none\n\n", b"\n\nONE\n\n"),
    ],
)
async def test_only_the_span_changes(actor: "Actor", root: Path, before: bytes, after: bytes) -> None:
    (root / "a").write_bytes(before)
    await actor.read("a")
    await actor.edit("a", b"one", b"ONE")
    assert (root / "a").read_bytes() == after


@pytest.mark.parametrize("mode", [0o4755, 0o2750, 0o6755])
async def test_set_id_bits_do_not_pass_to_changed_bytes(actor: "Actor", root: Path, mode: int) -> None:
    """They were given to other bytes; a plain write drops them too (write(2))."""
    (root / "a").write_bytes(b"1\n")
    (root / "a").chmod(mode)
    await actor.read("a")
    done = await actor.edit("a", b"1", b"2")
    assert stat.S_IMODE((root / "a").stat().st_mode) == mode & 0o777
    assert "set-id" in done.note


@pytest.mark.parametrize("mode", [0o600, 0o644, 0o755, 0o2640, 0o640])
async def test_the_mode_is_kept(actor: "Actor", root: Path, mode: int) -> None:
    (root / "a").write_bytes(b"1\n")
    (root / "a").chmod(mode)
    await actor.read("a")
    await actor.edit("a", b"1", b"2")
    assert stat.S_IMODE((root / "a").stat().st_mode) == mode


@pytest.mark.parametrize(
    ("mask", "file", "directory"),
    [(0o022, 0o644, 0o755), (0o002, 0o664, 0o775), (0o077, 0o600, 0o700), (0, 0o664, 0o775)],
)
async def test_new_files_and_directories_have_the_modes_that_the_umask_leaves(
    actor: "Actor", root: Path, mask: int, file: int, directory: int
) -> None:
    previous = os.umask(mask)
    try:
        await actor.write("d/a", b"1\n")
    finally:
        os.umask(previous)
    assert stat.S_IMODE((root / "d/a").stat().st_mode) == file
    assert stat.S_IMODE((root / "d").stat().st_mode) == directory


@pytest.mark.skipif(os.geteuid() != 0, reason="only root gives files away")
async def test_root_makes_files_for_the_directorys_owner_and_keeps_owners(actor: "Actor", root: Path) -> None:
    os.chown(root, 1234, 2345)
    await actor.write("d/a", b"1\n")
    for name in ("d", "d/a"):
        status = (root / name).stat()
        assert (status.st_uid, status.st_gid) == (1234, 2345)
    os.chown(root / "d/a", 42, 43)
    await actor.edit("d/a", b"1", b"2")
    status = (root / "d/a").stat()
    assert (status.st_uid, status.st_gid) == (42, 43)


@pytest.mark.skipif(os.geteuid() != 0, reason="only root makes files of two owners")
async def test_a_file_whose_owner_a_new_one_could_not_have_is_written_in_place(actor: "Actor", root: Path) -> None:
    (root / "a").write_bytes(b"1\n")
    (root / "a").chmod(0o666)
    os.chown(root, 1000, 1000)
    os.setegid(1000)
    os.seteuid(1000)
    try:
        await actor.read("a")
        done = await actor.edit("a", b"1", b"2")
    finally:
        os.seteuid(0)
        os.setegid(0)
    assert "keeps the file's owner" in done.note
    assert (root / "a").read_bytes() == b"2\n"
    assert (root / "a").stat().st_uid == 0
    assert os.listdir(root) == ["a"]


async def test_extended_attributes_are_kept(actor: "Actor", root: Path) -> None:
    (root / "a").write_bytes(b"1\n")
    _set_attribute(root / "a", "user.tag", b"keep")
    await actor.read("a")
    done = await actor.edit("a", b"1", b"2")
    assert os.getxattr(root / "a", "user.tag") == b"keep"
    assert done.note == ""


async def test_an_access_list_is_kept_and_a_default_one_not_added(actor: "Actor", root: Path) -> None:
    # Two entries more than a mode: user 12 may read, so there is a mask (acl(5); layout of linux/posix_acl_xattr.h).
    entries = [
        (0x01, 6, 0xFFFFFFFF),
        (0x02, 4, 12),
        (0x04, 4, 0xFFFFFFFF),
        (0x10, 4, 0xFFFFFFFF),
        (0x20, 0, 0xFFFFFFFF),
    ]
    acl = b"\x02\0\0\0" + b"".join(
        tag.to_bytes(2, "little") + bits.to_bytes(2, "little") + who.to_bytes(4, "little") for tag, bits, who in entries
    )
    for name in ("with", "without"):
        (root / name).write_bytes(b"1\n")
    _set_attribute(root / "with", "system.posix_acl_access", acl)
    os.setxattr(root, "system.posix_acl_default", acl)
    for name in ("with", "without"):
        await actor.read(name)
        await actor.edit(name, b"1", b"2")
    assert os.getxattr(root / "with", "system.posix_acl_access") == acl
    assert "system.posix_acl_access" not in os.listxattr(root / "without")


async def test_a_file_with_several_names_is_written_in_place(actor: "Actor", root: Path) -> None:
    (root / "a").write_bytes(b"v1\nlonger than before\n")
    (root / "a").chmod(0o4755)
    os.link(root / "a", root / "b")
    await actor.read("a")
    done = await actor.edit("a", b"v1\nlonger than before", b"v2")
    assert (root / "a").read_bytes() == (root / "b").read_bytes() == b"v2\n"
    assert (root / "a").stat().st_ino == (root / "b").stat().st_ino
    assert stat.S_IMODE((root / "a").stat().st_mode) == 0o755
    assert "in place: the file has 2 hard links" in done.note
    assert "set-id" in done.note
    assert sorted(os.listdir(root)) == ["a", "b"]


async def test_the_same_bytes_again_leave_the_file_alone(actor: "Actor", root: Path) -> None:
    (root / "a").write_bytes(b"1\n")
    before = (root / "a").stat()
    await actor.read("a")
    done = await actor.write("a", b"1\n")
    after = (root / "a").stat()
    assert (before.st_ino, before.st_mtime_ns) == (after.st_ino, after.st_mtime_ns)
    assert done.note == "the bytes stay as they are"


async def test_nothing_is_left_beside_the_file(actor: "Actor", root: Path) -> None:
    await actor.write("a", b"1\n")
    await actor.edit("a", b"1", b"2")
    await actor.write("a", b"3\n")
    assert os.listdir(root) == ["a"]


async def test_a_read_only_file_is_refused(actor: "Actor", root: Path, refused: Refused) -> None:
    (root / "a").write_bytes(b"1\n")
    (root / "a").chmod(0o444)
    await actor.read("a")
    with refused("FS_PERMISSION_DENIED", "0444"):
        await actor.edit("a", b"1", b"2")
    (root / "a").chmod(0o644)
    planned = await actor.plan_edit("a", b"1", b"2")
    (root / "a").chmod(0o444)
    with refused("FS_PERMISSION_DENIED"):
        await actor.commit(planned)
    assert (root / "a").read_bytes() == b"1\n"


async def test_a_read_only_directory_is_refused_and_nothing_stays(actor: "Actor", root: Path, refused: Refused) -> None:
    (root / "ro").mkdir()
    (root / "ro/a").write_bytes(b"1\n")
    (root / "ro").chmod(0o555)
    await actor.read("ro/a")
    for path in ("ro/x", "ro/d/x"):
        with refused("FS_PERMISSION_DENIED"):
            await actor.write(path, b"x")
    with refused("FS_PERMISSION_DENIED"):
        await actor.edit("ro/a", b"1", b"2")
    assert os.listdir(root / "ro") == ["a"]
    (root / "ro").chmod(0o755)


@pytest.mark.skipif(os.geteuid() == 0, reason="root may read every file")
async def test_an_unreadable_file_is_refused(actor: "Actor", root: Path, refused: Refused) -> None:
    (root / "a").write_bytes(b"1\n")
    (root / "a").chmod(0)
    with refused("FS_PERMISSION_DENIED"):
        await actor.read("a")


async def test_what_is_handed_out_cannot_be_changed(actor: "Actor", root: Path) -> None:
    (root / "a").write_bytes(b"1\n")
    opened = await actor.gate.read("a")
    try:
        assert fcntl.fcntl(opened.descriptor, fcntl.F_GET_SEALS) == (
            fcntl.F_SEAL_WRITE | fcntl.F_SEAL_GROW | fcntl.F_SEAL_SHRINK | fcntl.F_SEAL_SEAL
        )
        again = os.open(f"/proc/self/fd/{opened.descriptor}", os.O_RDWR)
        try:
            for attempt in (lambda: os.pwrite(again, b"x", 0), lambda: os.ftruncate(again, 0)):
                with pytest.raises(OSError) as caught:
                    attempt()
                assert caught.value.errno == errno.EPERM
        finally:
            os.close(again)
        assert os.read(opened.descriptor, 10) == b"1\n"
    finally:
        os.close(opened.descriptor)


async def test_what_is_too_large_is_refused_before_it_is_read(
    actor: "Actor", root: Path, refused: Refused, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, head in (("text", b"x" * (1 << 17)), ("sparse", b"")):
        with (root / name).open("wb") as file:
            file.write(head)
            file.truncate(1 << 40)
    with refused("FS_TOO_LARGE", str(content.MAX_FILE_BYTES)):
        await actor.read("text")
    with refused("FS_NOT_TEXT", "NUL"):
        await actor.read("sparse")
    with refused("FS_TOO_LARGE"):
        await actor.gate.decide(WriteIntent("sparse", b"1"))
    with refused("FS_TOO_LARGE"):
        await actor.gate.decide(WriteIntent("h", bytes(content.MAX_FILE_BYTES + 1)))


async def test_arbitrary_edits_equal_a_plain_reference(
    actor: "Actor", root: Path, digest: Callable[[bytes], str]
) -> None:
    seed = random.randrange(1 << 32)
    print(f"seed {seed}")
    chance = random.Random(seed)
    current = b"start\n"
    await actor.write("a", current)
    for _ in range(150):
        points = sorted(chance.choices(range(len(current) + 1), k=2 * chance.randint(1, 4)))
        spans = tuple(
            Span(start, end, bytes(chance.choices(b"ab\n\r\xff\0", k=chance.randint(0, 6))))
            for start, end in zip(points[::2], points[1::2], strict=True)
        )
        expected, shift = bytearray(current), 0
        for span in spans:
            expected[span.start + shift : span.end + shift] = span.replacement
            shift += len(span.replacement) - (span.end - span.start)
        await actor.commit(await actor.gate.decide(EditIntent("a", b"a", digest(current), spans)))
        current = (root / "a").read_bytes()
        assert current == bytes(expected)
    assert os.listdir(root) == ["a"]


def _set_attribute(path: Path, name: str, value: bytes) -> None:
    try:
        os.setxattr(path, name, value)
    except OSError as error:
        if error.errno != errno.ENOTSUP:
            raise
        pytest.skip(f"the file system of {path} has no {name}")
