"""A directory tree held by descriptor, whose names are reached without following a link."""

import errno
import os
import stat
from collections import OrderedDict
from collections.abc import Iterator
from contextlib import contextmanager
from types import TracebackType
from typing import Final, Self

from stockade_daemon.gate import syscalls
from stockade_daemon.gate.names import joined

_KEPT: Final = 64  # descriptors
_BENEATH: Final = syscalls.RESOLVE_BENEATH | syscalls.RESOLVE_NO_MAGICLINKS | syscalls.RESOLVE_NO_SYMLINKS
_DIRECTORY: Final = os.O_PATH | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_IN_THE_WAY: Final = (errno.ELOOP, errno.EXDEV)  # a link, or something other than a directory


class Tree:
    """Directories below one that stays the caller's, opened once and kept. A context manager.

    Paths are relative to it, of plain names; the empty path is the directory itself.
    """

    __slots__ = ("_kept", "_root")

    def __init__(self, root: int) -> None:
        self._root = root
        self._kept: OrderedDict[bytes, int] = OrderedDict()

    @property
    def root(self) -> int:
        return self._root

    def at(self, path: bytes) -> tuple[int, bytes]:
        """A descriptor (O_PATH) of the directory above, and the name in it. Raises OSError."""
        if not path:
            return self._root, b"."
        above, _, name = path.rpartition(b"/")
        return self.directory(above), name

    def directory(self, path: bytes) -> int:
        """A descriptor (O_PATH) of a directory, kept until `forget`. Raises OSError: ENOTDIR, ELOOP for a link."""
        if not path:
            return self._root
        found = self._kept.pop(path, None)
        if found is None:
            found = _opened(self._root, path)
            while len(self._kept) >= _KEPT:
                os.close(self._kept.popitem(last=False)[1])
        self._kept[path] = found
        return found

    def status(self, path: bytes) -> os.stat_result | None:
        """Of what is at a path, no link followed; None where nothing is. Raises OSError for all other failures."""
        try:
            directory, name = self.at(path)
            return os.stat(name, dir_fd=directory, follow_symlinks=False)
        except (FileNotFoundError, NotADirectoryError):
            return None
        except OSError as error:
            if error.errno in _IN_THE_WAY:
                return None
            raise

    def names(self, path: bytes) -> list[bytes]:
        """The names in a directory, sorted. Raises OSError."""
        descriptor = os.open(b".", os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC, dir_fd=self.directory(path))
        try:
            return sorted(map(os.fsencode, os.listdir(descriptor)))
        finally:
            os.close(descriptor)

    def below(self, path: bytes) -> Iterator[tuple[bytes, os.stat_result | None]]:
        """Everything in a directory, at any depth: path and status, None for what has gone since it was listed.

        Raises OSError.
        """
        todo = [path]
        while todo:
            above = todo.pop()
            for name in self.names(above):
                inner = joined(above, name)
                status = self.status(inner)
                yield inner, status
                if status is not None and stat.S_ISDIR(status.st_mode):
                    todo.append(inner)

    def forget(self) -> None:
        """Lets go of what was kept: paths lead elsewhere once a directory was moved."""
        while self._kept:
            os.close(self._kept.popitem()[1])

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.forget()


def _opened(root: int, path: bytes) -> int:
    if syscalls.has_openat2():
        return syscalls.openat2(root, path, os.O_PATH | os.O_DIRECTORY, resolve=_BENEATH)
    held = os.dup(root)
    try:
        for name in path.split(b"/"):
            deeper = os.open(name, _DIRECTORY, dir_fd=held)
            os.close(held)
            held = deeper
    except BaseException:
        os.close(held)
        raise
    return held


def named(directory: int, name: bytes) -> bytes:
    """A path for calls that take no directory's descriptor, as those for extended attributes do."""
    return b"/proc/self/fd/%d/%s" % (directory, name)


@contextmanager
def open_to_us(directory: int, name: bytes) -> Iterator[None]:
    """Within, the owner may read and write what is there, which is ours: also extended attributes want that of whoever
    is not root (xattr(7)). It has its mode again afterwards. Raises OSError."""
    if os.geteuid() == 0:
        yield
        return
    found = os.stat(name, dir_fd=directory, follow_symlinks=False)
    mode = stat.S_IMODE(found.st_mode)
    wanted = mode | (0o700 if stat.S_ISDIR(found.st_mode) else 0o600)
    if stat.S_ISLNK(found.st_mode) or wanted == mode:
        yield
        return
    place = named(directory, name)
    os.chmod(place, wanted)
    try:
        yield
    finally:
        os.chmod(place, mode)
