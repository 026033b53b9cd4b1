"""A tree as it can be compared: everything that a command is answerable for, and nothing that time decides."""

import hashlib
import os
import stat
from typing import NamedTuple

SET_BY_TOUCH = 1_262_304_000  # seconds: a file's mtime before 2010 was set by a script, later ones are of the clock


class Entry(NamedTuple):
    kind: str
    mode: int  # permission bits; 0 for a symbolic link
    content: str  # SHA-256 of a file, target of a link
    names: tuple[bytes, ...]  # the names in the tree that are the same file, where it has more than one
    owner: tuple[int, int]
    attributes: tuple[tuple[str, bytes], ...]  # user.*
    mtime: int | None  # seconds, where a script set it


Snapshot = dict[bytes, Entry]

_KINDS = {
    stat.S_IFREG: "file",
    stat.S_IFDIR: "directory",
    stat.S_IFLNK: "symlink",
    stat.S_IFIFO: "fifo",
    stat.S_IFSOCK: "socket",
    stat.S_IFCHR: "device",
    stat.S_IFBLK: "device",
}


def snapshot(root: str | os.PathLike[str]) -> Snapshot:
    """Every path below `root`, relative, and "." itself. Sparse areas are not told from zeros. Raises OSError.

    What its owner may not read is made readable for the look, and has its mode again afterwards.
    """
    entries: Snapshot = {}
    names: dict[tuple[int, int], list[bytes]] = {}
    _look(os.fsencode(root), b".", entries, names)
    for same in names.values():
        if len(same) > 1:
            for path in same:
                entries[path] = entries[path]._replace(names=tuple(sorted(same)))
    return entries


def _look(top: bytes, path: bytes, entries: Snapshot, names: dict[tuple[int, int], list[bytes]]) -> None:
    where = os.path.join(top, path)
    status = os.lstat(where)
    entries[path] = _entry(where, status)
    if not stat.S_ISDIR(status.st_mode):
        names.setdefault((status.st_dev, status.st_ino), []).append(path)
        return
    with _Readable(where, status, 0o700):
        for name in sorted(os.listdir(where)):
            _look(top, name if path == b"." else os.path.join(path, name), entries, names)


def differences(left: Snapshot, right: Snapshot) -> list[str]:
    """What is not the same in two trees, for people; empty where nothing is."""
    told = []
    for path in sorted(left.keys() | right.keys()):
        one, other = left.get(path), right.get(path)
        if one is None or other is None:
            told.append(f"{path!r}: {'only right' if one is None else 'only left'}: {(one or other)!r}")
        elif one != other:
            fields = [name for name in Entry._fields if getattr(one, name) != getattr(other, name)]
            told.append(f"{path!r}: " + "; ".join(f"{n}: {getattr(one, n)!r}, {getattr(other, n)!r}" for n in fields))
    return told


class _Readable:
    """A path that its owner can read inside of the block."""

    def __init__(self, path: bytes, status: os.stat_result, wanted: int) -> None:
        self._path, self._mode, self._wanted = path, stat.S_IMODE(status.st_mode), wanted

    def __enter__(self) -> None:
        if self._needed():
            os.chmod(self._path, self._mode | self._wanted)

    def __exit__(self, *_: object) -> None:
        if self._needed():
            os.chmod(self._path, self._mode)

    def _needed(self) -> bool:
        return os.geteuid() != 0 and self._mode & self._wanted != self._wanted


def _entry(path: bytes, status: os.stat_result) -> Entry:
    kind = _KINDS[stat.S_IFMT(status.st_mode)]
    content = ""
    attributes: tuple[tuple[str, bytes], ...] = ()
    mtime: int | None = None
    if kind == "symlink":
        content = os.fsdecode(os.readlink(path))
    elif kind in ("file", "directory"):
        with _Readable(path, status, 0o400):
            attributes = tuple(
                (name, os.getxattr(path, name)) for name in sorted(os.listxattr(path)) if name.startswith("user.")
            )
            if kind == "file":
                with open(path, "rb") as file:
                    content = hashlib.file_digest(file, "sha256").hexdigest()
    if kind == "file" and status.st_mtime < SET_BY_TOUCH:
        mtime = int(status.st_mtime)
    return Entry(
        kind,
        0 if kind == "symlink" else stat.S_IMODE(status.st_mode),
        content,
        (),
        (status.st_uid, status.st_gid),
        attributes,
        mtime,
    )
