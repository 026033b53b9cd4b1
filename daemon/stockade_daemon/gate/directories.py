"""What a walk for links needs of a directory: the directories and links in it, and names that a repository has.

Reading one costs ten times what asking for its status does, so what was read is kept for as long as it is proven by
the status: every name that is made, removed or replaced changes a directory's ctime (inode(7)), which nobody can set.
Two changes within a tick of the clock can have the same ctime, so a directory that had changed just before it was read
is not kept; nor is one on a file system whose ctime another machine's clock makes, or a program.
"""

import os
import time
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from stockade_daemon.gate import syscalls
from stockade_daemon.gate.patterns import opened
from stockade_daemon.gate.workspace import Workspace

# Nanoseconds that a directory must have been left alone before it was read. The coarsest local clock ticks once in two
# seconds. Tests set it lower, and wait that long.
settled_ns = 4_000_000_000

_KEPT: Final = 1 << 16  # directories, of all sessions

# statfs(2): ext2 to ext4, xfs, btrfs, tmpfs, overlayfs, f2fs, zfs.
_LOCAL: Final = frozenset({0xEF53, 0x58465342, 0x9123683E, 0x01021994, 0x794C7630, 0xF2F52010, 0x2FC12FC1})


@dataclass(frozen=True, slots=True)
class Directory:
    """The names in a directory, by what they are."""

    below: tuple[bytes, ...] = ()  # directories
    links: tuple[bytes, ...] = ()
    marked: frozenset[bytes] = frozenset()  # those that were asked for, whatever they are, as they were asked for


_EMPTY: Final = Directory()
_known: dict[tuple[int, int], tuple[tuple[int, int], Directory]] = {}


def look(workspace: Workspace, path: bytes, marks: Mapping[bytes, bytes]) -> Directory:
    """The directory at a path of the workspace that leads through no link; `marks`: the names to ask for, by their
    spelling in lower case; all callers have the same.

    Empty where there is none by now, and where this user may not list it. Raises OSError for all else.
    """
    try:
        status = os.stat(path or b".", dir_fd=workspace.descriptor, follow_symlinks=False)
        known = _known.get((status.st_dev, status.st_ino))
        if known is not None and known[0] == (status.st_ctime_ns, status.st_mtime_ns):
            return known[1]
        descriptor = opened(workspace, path)
    except (FileNotFoundError, NotADirectoryError, PermissionError):
        return _EMPTY
    try:
        now = time.time_ns()
        status = os.fstat(descriptor)
        found = _read(descriptor, marks)
        if status.st_ctime_ns < now - settled_ns and syscalls.file_system(descriptor) in _LOCAL:
            if len(_known) >= _KEPT:
                _known.clear()
            _known[status.st_dev, status.st_ino] = (status.st_ctime_ns, status.st_mtime_ns), found
    finally:
        os.close(descriptor)
    return found


def _read(descriptor: int, marks: Mapping[bytes, bytes]) -> Directory:
    below, links, marked = [], [], []
    with os.scandir(descriptor) as entries:
        for entry in entries:
            name = os.fsencode(entry.name)
            low = name.lower()
            if low in marks:
                marked.append(marks[low])
            if entry.is_symlink():
                links.append(name)
            elif entry.is_dir(follow_symlinks=False):
                below.append(name)
    return Directory(tuple(below), tuple(links), frozenset(marked)) if below or links or marked else _EMPTY
