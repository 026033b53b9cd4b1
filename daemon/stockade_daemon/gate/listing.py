"""The names of one directory, in the order of their bytes."""

import errno
import os
import stat
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from stockade_daemon.errors import GateRefusal
from stockade_daemon.gate.names import shown
from stockade_daemon.gate.paths import Resolved
from stockade_daemon.gate.refusals import Moved, os_errors, refuse_os_error

MOST_NAMES: Final = 250_000  # of a directory: they have to be in memory together to be in order

_DIRECTORY: Final = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_KINDS: Final = {
    stat.S_IFREG: "file",
    stat.S_IFDIR: "directory",
    stat.S_IFLNK: "link",
    stat.S_IFIFO: "FIFO",
    stat.S_IFSOCK: "socket",
    stat.S_IFCHR: "device",
    stat.S_IFBLK: "device",
}


@dataclass(frozen=True, slots=True)
class Entry:
    """A name and what it stands for; nothing is followed."""

    name: bytes
    kind: str  # file, directory, link, FIFO, socket, device
    size: int | None  # bytes, of a file
    target: bytes | None  # what a link says


@dataclass(frozen=True, slots=True)
class Listed:
    """A window of a directory."""

    real: bytes  # relative to the workspace, links followed
    total: int  # names that are not hidden
    entries: tuple[Entry, ...]


def window(place: Resolved, first: int, most: int, *, hides: Callable[[bytes], bool]) -> Listed:
    """`most` names from number `first` on, counted from 1.

    Raises GateRefusal FS_NOT_DIRECTORY, FS_PERMISSION_DENIED, FS_TOO_LARGE, FS_IO_ERROR; Moved.
    """
    if place.status is not None and not stat.S_ISDIR(place.status.st_mode):
        raise GateRefusal(
            "FS_NOT_DIRECTORY", f"{shown(place.asked)} is not a directory. Name a directory, or read it with `read`."
        )
    try:
        directory = os.open(place.name, _DIRECTORY, dir_fd=place.parent)
    except OSError as error:
        if error.errno in (errno.ELOOP, errno.ENOENT, errno.ENOTDIR):
            raise Moved from error  # it was a directory a moment ago
        raise refuse_os_error(error, "list", place.asked) from error
    try:
        with os_errors("list", place.asked):
            names = _names(directory, place, hides)
            found = tuple(entry for name in names[first - 1 : first - 1 + most] if (entry := _entry(directory, name)))
    finally:
        os.close(directory)
    return Listed(place.real, len(names), found)


def _names(directory: int, place: Resolved, hides: Callable[[bytes], bool]) -> list[bytes]:
    above = b"" if place.real == b"." else place.real + b"/"
    names: list[bytes] = []
    with os.scandir(directory) as entries:
        for entry in entries:
            name = os.fsencode(entry.name)
            if hides(above + name):
                continue
            if len(names) == MOST_NAMES:
                raise GateRefusal(
                    "FS_TOO_LARGE",
                    f"{shown(place.asked)} has more than {MOST_NAMES} names. Look at a part of it with a command in "
                    "`shell`.",
                )
            names.append(name)
    return sorted(names)


def _entry(directory: int, name: bytes) -> Entry | None:
    """None where it is gone by now."""
    try:
        status = os.stat(name, dir_fd=directory, follow_symlinks=False)
        kind = _KINDS.get(stat.S_IFMT(status.st_mode), "unknown")
        target = os.readlink(name, dir_fd=directory) if kind == "link" else None
    except FileNotFoundError:
        return None
    except OSError as error:
        if error.errno == errno.EINVAL:
            return None  # a link a moment ago
        raise
    return Entry(name, kind, status.st_size if kind == "file" else None, target)
