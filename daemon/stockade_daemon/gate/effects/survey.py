"""Looks at the workspace on behalf of a plan: what is there, whether it is still what the command began with, and its
bytes. What is not is FS_CONFLICT, before anything is changed.
"""

import hashlib
import os
import stat
from typing import Final

from stockade_daemon.errors import GateRefusal
from stockade_daemon.gate.effects.mark import Mark
from stockade_daemon.gate.effects.tree import Tree, open_to_us
from stockade_daemon.gate.effects.values import Facts, Kind
from stockade_daemon.gate.names import told

_CHUNK: Final = 1 << 20
_READ: Final = os.O_RDONLY | os.O_NONBLOCK | os.O_NOFOLLOW | os.O_NOCTTY | os.O_CLOEXEC


class Survey:
    """The workspace, as it has to have been since `mark`."""

    def __init__(self, workspace: Tree, mark: Mark) -> None:
        self.workspace = workspace
        self.seen: dict[bytes, tuple[int, int] | None] = {}  # what was looked at: inode and ctime; None: nothing
        self._mark = mark
        self._unclear = mark.clock_was_set_back()

    def unchanged(self, path: bytes) -> os.stat_result | None:
        """What is at a path; None where nothing is. Raises GateRefusal FS_CONFLICT where it has changed; OSError."""
        return self._looked(path, self.workspace.status(path))

    def again(self) -> None:
        """Looks once more at all that was looked at. Raises GateRefusal FS_CONFLICT; OSError."""
        self.workspace.forget()
        for path, before in self.seen.items():
            status = self.workspace.status(path)
            if (None if status is None else (status.st_ino, status.st_ctime_ns)) != before:
                raise conflict(path, "was changed by another program")

    def check(self, path: bytes, status: os.stat_result) -> None:
        """Raises GateRefusal FS_CONFLICT where something has changed since."""
        if self._unclear:
            raise conflict(path, "cannot be told from changed, because the host's clock was set back")
        if self._mark.precedes(status):
            raise conflict(path, "was changed by another program")

    def below(self, path: bytes, status: os.stat_result) -> list[tuple[bytes, os.stat_result]]:
        """All that is in a directory, at any depth, unchanged. Raises as `unchanged` does."""
        found: list[tuple[bytes, os.stat_result]] = []
        if stat.S_ISDIR(status.st_mode):
            for inner, looked in self.workspace.below(path):
                each = self._looked(inner, looked)
                if each is None:
                    raise conflict(inner, "was removed by another program")
                found.append((inner, each))
        return found

    def still(self, tree: Tree, path: bytes, ours: set[int]) -> None:
        """What was a directory of the workspace, in another tree by now, has nothing newer than the mark in it.

        `ours`: inodes that the transaction itself has changed, under another name. Raises GateRefusal FS_CONFLICT;
        OSError.
        """
        for inner, status in tree.below(path):
            if status is None or (self._mark.precedes(status) and status.st_ino not in ours):
                raise conflict(inner.rpartition(b"/")[2], "was changed by another program")

    def _looked(self, path: bytes, status: os.stat_result | None) -> os.stat_result | None:
        self.seen[path] = None if status is None else (status.st_ino, status.st_ctime_ns)
        if status is not None:
            self.check(path, status)
        return status

    def digest(self, path: bytes, status: os.stat_result) -> str | None:
        """Of the bytes of a file of the workspace that was looked at; None where the daemon's user may not read it,
        though others may change what its name stands for. Raises GateRefusal FS_CONFLICT; OSError."""
        directory, name = self.workspace.at(path)
        try:
            descriptor = os.open(name, _READ, dir_fd=directory)
        except PermissionError:
            return None
        try:
            found = digest(descriptor)
            if facts(os.fstat(descriptor)) != facts(status):
                raise conflict(path, "was changed by another program")
            return found
        finally:
            os.close(descriptor)


def digest(descriptor: int) -> str:
    """SHA-256, lower-case hex, of an open file."""
    found = hashlib.sha256()
    at = 0
    while chunk := os.pread(descriptor, _CHUNK, at):
        found.update(chunk)
        at += len(chunk)
    return found.hexdigest()


def digest_at(tree: Tree, path: bytes) -> str:
    """The same of a file in a tree of ours, also of one that was made unreadable."""
    directory, name = tree.at(path)
    with open_to_us(directory, name):
        descriptor = os.open(name, _READ, dir_fd=directory)
    try:
        return digest(descriptor)
    finally:
        os.close(descriptor)


def bytes_at(tree: Tree, path: bytes) -> bytes:
    """All bytes of a file; the caller knows that it is one, and how long. Raises OSError."""
    directory, name = tree.at(path)
    with open(os.open(name, _READ, dir_fd=directory), "rb") as file:
        return file.read()


def target_at(tree: Tree, path: bytes) -> bytes:
    """Where a symbolic link leads. Raises OSError."""
    directory, name = tree.at(path)
    return os.readlink(name, dir_fd=directory)


def facts(status: os.stat_result) -> Facts:
    """Of a directory only which one it is: what is in it has its own."""
    if stat.S_ISDIR(status.st_mode):
        return Facts(status.st_ino, stat.S_IFMT(status.st_mode), 0, 0)
    return Facts(status.st_ino, status.st_mode, status.st_size, status.st_mtime_ns)


def conflict(path: bytes, what: str) -> GateRefusal:
    """The refusal of a whole transaction."""
    return GateRefusal(
        "FS_CONFLICT",
        f"{told(path) or 'the workspace'} {what} since the command began, so nothing of what the command changed was "
        "committed. Look at it, then run the command again.",
    )


def kind_of(mode: int) -> Kind:
    """What a mode of stat(2) says that it is."""
    return _KINDS.get(stat.S_IFMT(mode), "device")


_KINDS: Final[dict[int, Kind]] = {
    stat.S_IFREG: "file",
    stat.S_IFDIR: "directory",
    stat.S_IFLNK: "symlink",
    stat.S_IFIFO: "fifo",
    stat.S_IFSOCK: "socket",
}
