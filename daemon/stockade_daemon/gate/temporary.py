"""A file that has no name yet: what will be published is written whole, and synced, before any name shows it.

O_TMPFILE (open(2)) makes it without a name, so nothing is left over whatever happens. Where the file system does not
know that, it has a short private name of its own, which is removed on every way out; the name was recorded before, so
that the next start finds it even after a crash.
"""

import errno
import os
import secrets
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Final

from stockade_daemon.gate import syscalls

PREFIX: Final = ".stockade-"

# Tests set this to take the named way on every file system.
always_named = False

_NO_TMPFILE: Final = (errno.EOPNOTSUPP, errno.EISDIR, errno.EINVAL, errno.ENOENT)


def new_name() -> bytes:
    """A name that nobody else chooses; far below any limit on names, whatever the target is called."""
    return (PREFIX + secrets.token_hex(6)).encode()


class Temporary:
    """An open, empty, private (0600) file in a directory. `descriptor` can be read and written."""

    __slots__ = ("_directory", "_name", "_named", "descriptor")

    def __init__(self, directory: int, name: bytes, *, named: bool = False) -> None:
        """Opens it; with `named`, under `name` at once. Raises OSError."""
        self._directory = directory
        self._name = name
        self._named = False
        self.descriptor = -1
        if not (named or always_named):
            try:
                self.descriptor = os.open(b".", os.O_TMPFILE | os.O_RDWR | os.O_CLOEXEC, 0o600, dir_fd=directory)
                return
            except OSError as error:
                if error.errno not in _NO_TMPFILE:
                    raise
        flags = os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
        self.descriptor = os.open(name, flags, 0o600, dir_fd=directory)
        self._named = True

    def appear(self) -> None:
        """Gives it its private name, from which it can be exchanged with another. Raises OSError."""
        if not self._named:
            self._link(self._name)
            self._named = True

    def publish_as(self, name: bytes) -> None:
        """Gives it `name`, which must be free. Raises OSError; FileExistsError where it is not."""
        if not self._named:
            self._link(name)
            return
        try:
            syscalls.renameat2(self._directory, self._name, name, syscalls.RENAME_NOREPLACE)
            self._named = False
        except OSError as error:
            if error.errno not in (errno.EINVAL, errno.ENOSYS):
                raise
            # Without exclusive renaming: a second name is exclusive as well, and then the first goes.
            os.link(self._name, name, src_dir_fd=self._directory, dst_dir_fd=self._directory)

    def keep(self) -> None:
        """Leaves the private name standing when this closes: it has become somebody else's file."""
        self._named = False

    def close(self) -> None:
        os.close(self.descriptor)
        if self._named:
            with suppress(OSError):  # a stray name is no reason to call a commit failed
                os.unlink(self._name, dir_fd=self._directory)
            self._named = False

    def _link(self, name: bytes) -> None:
        # AT_EMPTY_PATH would need a capability; through /proc it is our own file and needs none.
        os.link(f"/proc/self/fd/{self.descriptor}", name, dst_dir_fd=self._directory, follow_symlinks=True)


@contextmanager
def temporary(directory: int, name: bytes, *, named: bool = False) -> Iterator[Temporary]:
    """A Temporary for the length of the context. Raises OSError."""
    file = Temporary(directory, name, named=named)
    try:
        yield file
    finally:
        file.close()
