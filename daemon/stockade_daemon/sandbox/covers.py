"""Covers: one more layer over the workspace, in which hidden names are marked as deleted.

An overlay shows nothing of a name that a layer above marks with a whiteout (overlayfs, "whiteouts and opaque
directories"), whatever becomes of it below, and its own writable layer can at most put something new in its place. So
no byte of what is covered is reachable from a view, by no name and no descriptor. A directory that leads to a whiteout
is repeated with its attributes, because an overlay takes those from the uppermost layer.
"""

import errno
import os
import stat
from collections.abc import Callable, Iterable
from contextlib import suppress
from pathlib import Path

# Owner and group as the workspace's file system has them, to what they are for workers.
Ids = Callable[[int, int], tuple[int, int]]


def build(
    place: Path, workspace: str, names: Iterable[bytes], *, identity: tuple[int, int], ids: Ids
) -> tuple[bytes, ...]:
    """Fills the empty directory `place` for the names, which are relative to the workspace; returns those it covers.

    A name whose directory is no directory any more is not covered. Raises OSError where a whiteout cannot be made, on
    a file system without device nodes, and where the workspace is no longer the directory of that device and inode.
    """
    top = os.stat(workspace)
    if (top.st_dev, top.st_ino) != identity:
        raise OSError(errno.ESTALE, "the workspace was moved or replaced; open the session again", workspace)
    covered = []
    root = os.fsencode(place)
    made = {root: top}
    for name in names:
        *above, last = name.split(b"/")
        held = os.open(workspace, os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
        there = root
        try:
            for part in above:
                deeper = os.open(part, os.O_PATH | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=held)
                os.close(held)
                held = deeper
                there = os.path.join(there, part)
                if there not in made:
                    os.mkdir(there, 0o700)
                    made[there] = os.fstat(held)
        except (FileNotFoundError, NotADirectoryError):
            continue
        finally:
            os.close(held)
        os.mknod(os.path.join(there, last), stat.S_IFCHR, os.makedev(0, 0))
        covered.append(name)
    # Inner ones first, and when nothing is made any more: that would change their times, and a mode may forbid it.
    for directory, found in reversed(made.items()):
        _like(directory, found, ids)
    return tuple(covered)


def _like(directory: bytes, found: os.stat_result, ids: Ids) -> None:
    # An ordinary user cannot give files away: what is not his looks like his, and he gains nothing by it.
    with suppress(PermissionError):
        os.chown(directory, *ids(found.st_uid, found.st_gid))
    os.chmod(directory, stat.S_IMODE(found.st_mode))
    os.utime(directory, ns=(found.st_atime_ns, found.st_mtime_ns))
