"""Covers: one more layer over the workspace, in which hidden names are marked as deleted, and mount points are made.

An overlay shows nothing of a name that a layer above marks with a whiteout (overlayfs, "whiteouts and opaque
directories"), whatever becomes of it below, and its own writable layer can at most put something new in its place. So
no byte of what is covered is reachable from a view, by no name and no descriptor. A directory that leads to a whiteout
is repeated with its attributes, because an overlay takes those from the uppermost layer.

A mount point is a directory of this layer, so that it is there whatever the workspace has in its place, and nothing of
it is ever a change to the workspace. It is made where its directory is, since a cover adds no other names.
"""

import errno
import os
import stat
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from stockade_daemon import looks
from stockade_daemon.errors import ShutDirectory
from stockade_daemon.looks import Ids, Shown
from stockade_daemon.sandbox.effects import MARKS

_DIRECTORY: Final = os.O_PATH | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC


@dataclass(frozen=True, slots=True)
class Built:
    """A layer."""

    names: tuple[bytes, ...]  # covered
    points: tuple[bytes, ...]  # of mounts
    shown: dict[bytes, Shown]  # what it shows of the directories that it repeats, by path; of the workspace itself: b""


@dataclass(frozen=True, slots=True)
class _Repeated:
    status: os.stat_result
    attributes: dict[str, bytes]


def build(
    place: Path,
    workspace: str,
    names: Iterable[bytes],
    points: Iterable[bytes] = (),
    *,
    identity: tuple[int, int],
    ids: Ids,
) -> Built:
    """Fills the empty directory `place` for the names to be covered and the mount points to be made, which are relative
    to the workspace, none below another; tells which of those it has.

    A name whose directory is no directory any more it has not. Raises OSError where a whiteout cannot be made, on
    a file system without device nodes, and where the workspace is no longer the directory of that device and inode.
    """
    held = os.open(workspace, os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        top = _looked(held)
    finally:
        os.close(held)
    if (top.status.st_dev, top.status.st_ino) != identity:
        raise OSError(errno.ESTALE, "the workspace was moved or replaced; open the session again", workspace)
    root = os.fsencode(place)
    made = {root: top}
    covered, pointed = [], []
    for name in names:
        there = _above(made, root, workspace, name)
        if there is not None:
            os.mknod(there, stat.S_IFCHR, os.makedev(0, 0))
            covered.append(name)
    for name in points:
        there = _above(made, root, workspace, name)
        if there is not None:
            os.mkdir(there, 0o755)
            pointed.append(name)
    # Inner ones first, and when nothing is made any more: that would change their times, and a mode may forbid it.
    shown = {}
    for directory, found in reversed(made.items()):
        _like(directory, found, ids)
        shown[directory[len(root) + 1 :]] = looks.shown(directory, marks=MARKS)
    return Built(tuple(covered), tuple(pointed), shown)


def with_directory(workspace: str, names: Iterable[bytes]) -> tuple[bytes, ...]:
    """Those of the names whose directory is there now, and reached through no link. Raises OSError; ShutDirectory
    where that cannot be told."""
    return tuple(name for name in names if _is_reached(workspace, name))


def _above(made: dict[bytes, _Repeated], root: bytes, workspace: str, name: bytes) -> bytes | None:
    """The place of a name in the layer, the directories above it made and added to `made`; None where one is none."""
    *above, last = name.split(b"/")
    held = os.open(workspace, os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
    there = root
    try:
        for number, part in enumerate(above):
            deeper = _deeper(held, above, number)
            os.close(held)
            held = deeper
            there = os.path.join(there, part)
            if there not in made:
                os.mkdir(there, 0o700)
                made[there] = _looked(held)
    except (FileNotFoundError, NotADirectoryError):
        return None
    finally:
        os.close(held)
    return os.path.join(there, last)


def _is_reached(workspace: str, name: bytes) -> bool:
    *above, _ = name.split(b"/")
    held = os.open(workspace, os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        for number in range(len(above)):
            deeper = _deeper(held, above, number)
            os.close(held)
            held = deeper
    except (FileNotFoundError, NotADirectoryError):
        return False
    finally:
        os.close(held)
    return True


def _deeper(held: int, above: list[bytes], number: int) -> int:
    """The directory of that number on a way, in the one that is open. Raises OSError."""
    try:
        return os.open(above[number], _DIRECTORY, dir_fd=held)
    except PermissionError as error:
        own = os.fstat(held).st_uid == os.geteuid()
        raise ShutDirectory(b"/".join(above[:number]), own=own) from error


def _looked(held: int) -> _Repeated:
    return _Repeated(os.fstat(held), looks.attributes(held))


def _like(directory: bytes, repeated: _Repeated, ids: Ids) -> None:
    found = repeated.status
    looks.give(directory, repeated.attributes, marks=MARKS, ids=ids)
    # An ordinary user cannot give files away: what is not his looks like his, and he gains nothing by it.
    with suppress(PermissionError):
        os.chown(directory, *ids(found.st_uid, found.st_gid))
    os.chmod(directory, stat.S_IMODE(found.st_mode))
    os.utime(directory, ns=(found.st_atime_ns, found.st_mtime_ns))
