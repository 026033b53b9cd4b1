"""Scratch directories for overlays: one for each worker that has one, below a private directory of the daemon.

Disk, not memory: a command may write more than there is memory. After a kill of the daemon the next start removes
what is left.
"""

import asyncio
import os
import stat
from dataclasses import dataclass
from pathlib import Path

from stockade_daemon.errors import ConfigurationError


@dataclass(frozen=True, slots=True)
class Scratch:
    """`upper` and `work` of one overlay (overlayfs)."""

    path: Path

    @property
    def upper(self) -> Path:
        return self.path / "upper"

    async def remove(self) -> None:
        await asyncio.to_thread(remove_tree, self.path)


class ScratchRoom:
    """Makes scratch directories below `place`, an existing 0700 directory of the daemon."""

    def __init__(self, place: Path) -> None:
        self._place = place
        self._number = 0

    def clean(self) -> None:
        """Removes what an earlier daemon left behind. Raises ConfigurationError where it cannot."""
        for left in self._place.iterdir():
            try:
                remove_tree(left)
            except OSError as error:
                raise ConfigurationError(f"{left}: cannot remove what an earlier daemon left: {error}") from error

    def bare(self) -> Scratch:
        """A new scratch directory with nothing in it."""
        self._number += 1
        scratch = Scratch(self._place / f"{os.getpid()}-{self._number}")
        scratch.path.mkdir(mode=0o700)
        return scratch

    def make(self, *, mode: int, uid: int | None) -> Scratch:
        """A new scratch directory; its upper directory has the workspace's mode, and the worker's uid if it has one:
        what the upper directory says is what the merged root will say."""
        scratch = self.bare()
        for name, bits in (("upper", stat.S_IMODE(mode)), ("work", 0o700)):
            directory = scratch.path / name
            directory.mkdir()
            directory.chmod(bits)
            if uid is not None:
                os.chown(directory, uid, uid)
        return scratch


def remove_tree(path: Path) -> None:
    """Removes a tree that somebody else filled: of any depth, whatever its directories' modes, no link followed.

    Every directory found is moved up to the top before it is emptied, so that neither the length of a path nor the
    number of open descriptors grows with the depth of the tree.
    """
    try:
        top = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
    except FileNotFoundError:
        return
    except NotADirectoryError:
        path.unlink()
        return
    try:
        os.fchmod(top, 0o700)
        number = 0
        while directories := _remove_files(top):
            for name in directories:
                inner = os.open(name, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=top)
                try:
                    for deeper in _remove_files(inner):
                        number += 1
                        os.rename(deeper, f".{number}-{os.getpid()}", src_dir_fd=inner, dst_dir_fd=top)
                finally:
                    os.close(inner)
                os.rmdir(name, dir_fd=top)
    finally:
        os.close(top)
    path.rmdir()


def _remove_files(directory: int) -> list[str]:
    """Unlinks all that is no directory; gives the names of those that are, made ours to change."""
    directories = []
    for name in os.listdir(directory):
        if stat.S_ISDIR(os.stat(name, dir_fd=directory, follow_symlinks=False).st_mode):
            os.chmod(name, 0o700, dir_fd=directory)
            directories.append(name)
        else:
            os.unlink(name, dir_fd=directory)
    return directories
