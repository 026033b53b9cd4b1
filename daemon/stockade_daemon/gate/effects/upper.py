"""What an overlay's upper directory holds (overlayfs, "Upper and Lower"): whiteouts, opaque directories, redirects.

Read when nobody is left that could write to it. Bodies cannot forge a mark: `trusted.` ones need a privilege, and of
`user.` ones the overlay escapes what they write.
"""

import os
import stat
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Final

from stockade_daemon.errors import GateRefusal
from stockade_daemon.gate.effects.tree import Tree, named, open_to_us
from stockade_daemon.gate.names import shown

# Bytes. A command can nest deeper than a path can name (PATH_MAX is 4096).
LONGEST_PATH: Final = 3000
_MOST: Final = 2_000_000  # names
_LOOKED_INTO: Final = 0o500  # what its owner needs to list a directory and to look at what is in it
# Of a status, what it has by name only.
_BESIDE: Final = tuple(
    f"st_{each}"
    for each in ("atime", "mtime", "ctime", "atime_ns", "mtime_ns", "ctime_ns", "blksize", "blocks", "rdev")
)
_FILE_HANDLE: Final = 21  # bytes of `struct ovl_fb` before the handle: version, magic, length, flags, type, uuid


@dataclass(frozen=True, slots=True)
class Found:
    """One name of the upper directory."""

    path: bytes
    status: os.stat_result
    whiteout: bool = False  # the name is gone
    opaque: bool = False  # a directory that covers what the lower one has
    redirect: bytes | None = None  # a directory that is the lower one of this path, or name beside it
    copied: bool = False  # it began as a copy of something in the lower layer
    marked: bool = False  # it has attributes of the overlay's
    escaped: bool = False  # among them what the command set, or found, under a name of the overlay's
    origin: tuple[int, bytes] | None = None  # file handle of that, where the overlay kept it (name_to_handle_at(2))

    @property
    def directory(self) -> bool:
        return stat.S_ISDIR(self.status.st_mode)


def read(upper: Tree, marks: str, shut: Mapping[str, int], but: bytes = b"") -> Iterator[Found]:
    """Everything in it, directories before what is in them, the root first. `marks`: prefix of the overlay's own
    extended attributes; `shut`: what `shut_in` said of an earlier look; `but`: a name in the root that is left out.

    Directories that were made unreadable are made readable, and found with the mode that they had.
    Raises GateRefusal FS_NAME_TOO_LONG where it is nested too deep, FS_TOO_LARGE; OSError.
    """
    place = b"/proc/self/fd/%d" % upper.root  # by its own name "." nobody reaches what lets nobody in
    yield _found(upper, b"", marks, _looked_into(b"", os.fstat(upper.root), place, shut))
    todo = [b""]
    count = 0
    while todo:
        above = todo.pop()
        deeper = []
        for name in upper.names(above):
            path = above + b"/" + name if above else name
            if path == but:
                continue
            if len(path) > LONGEST_PATH:
                raise GateRefusal(
                    "FS_NAME_TOO_LONG",
                    f"{shown(path[:200])}… is nested deeper than {LONGEST_PATH} bytes of a path, so nothing of what "
                    "the command changed can be committed. Have it use shorter names.",
                )
            count += 1
            if count > _MOST:
                raise GateRefusal(
                    "FS_TOO_LARGE",
                    f"The command changed more than {_MOST} names, so nothing of it can be committed. "
                    "Do it in several steps, or in a directory outside the workspace.",
                )
            directory, _ = upper.at(path)
            status = os.stat(name, dir_fd=directory, follow_symlinks=False)
            if stat.S_ISDIR(status.st_mode):
                status = _looked_into(path, status, named(directory, name), shut)
                deeper.append(path)
            yield _found(upper, path, marks, status)
        todo.extend(reversed(deeper))


def shut_in(found: Iterable[Found]) -> dict[str, int]:
    """Directories that nobody could look into, and their permission bits, by path, in hex: who looks again finds them
    open."""
    return {
        each.path.hex(): stat.S_IMODE(each.status.st_mode)
        for each in found
        if each.directory and each.status.st_mode & _LOOKED_INTO != _LOOKED_INTO
    }


def _looked_into(path: bytes, status: os.stat_result, place: bytes, shut: Mapping[str, int]) -> os.stat_result:
    """Opens a directory; its status with the mode that it had before anybody did."""
    mode = shut.get(path.hex())
    if mode is not None:
        return _with_mode(status, mode)
    if status.st_mode & _LOOKED_INTO != _LOOKED_INTO:
        os.chmod(place, 0o700)
    return status


def _with_mode(status: os.stat_result, mode: int) -> os.stat_result:
    """The same with other permission bits; what a sequence of ten does not hold, times in nanoseconds, goes along."""
    more = {name: getattr(status, name) for name in _BESIDE}
    return os.stat_result((stat.S_IFMT(status.st_mode) | mode, *status[1:]), more)


def found_at(upper: Tree, path: bytes, marks: str) -> Found:
    """What is at a path, which has to be there. Raises OSError."""
    directory, name = upper.at(path)
    return _found(upper, path, marks, os.stat(name, dir_fd=directory, follow_symlinks=False))


def _found(upper: Tree, path: bytes, marks: str, status: os.stat_result) -> Found:
    if stat.S_ISCHR(status.st_mode) and status.st_rdev == 0:
        return Found(path, status, whiteout=True)
    directory, name = upper.at(path)
    place = named(directory, name)
    try:
        given = {each for each in os.listxattr(place, follow_symlinks=False) if each.startswith(marks)}
    except OSError:
        given = set()
    if not given:
        return Found(path, status)
    with open_to_us(directory, name):
        values = {each[len(marks) :]: os.getxattr(place, each, follow_symlinks=False) for each in given}
    return Found(
        path,
        status,
        opaque=values.get("opaque") in (b"y", b"Y"),
        redirect=values.get("redirect") if stat.S_ISDIR(status.st_mode) else None,
        copied="origin" in values,
        marked=True,
        escaped=any(each.startswith("overlay.") for each in values),
        origin=_handle(values.get("origin", b"")),
    )


def _handle(value: bytes) -> tuple[int, bytes] | None:
    """Type and bytes of the file handle in an origin mark; None where the lower layer has no handles."""
    return (value[4], value[_FILE_HANDLE:]) if len(value) > _FILE_HANDLE and value[1] == 0xFB else None
