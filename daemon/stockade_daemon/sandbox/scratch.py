"""Scratch directories for overlays: one for each worker that has one, below a private directory of the daemon.

Disk, not memory: a command may write more than there is memory. After a kill of the daemon the next start removes
what is left.
"""

import asyncio
import os
import shutil
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

    def make(self, *, mode: int, uid: int | None) -> Scratch:
        """A new scratch directory; its upper directory has the workspace's mode, and the worker's uid if it has one:
        what the upper directory says is what the merged root will say."""
        self._number += 1
        scratch = Scratch(self._place / f"{os.getpid()}-{self._number}")
        scratch.path.mkdir(mode=0o700)
        for name, bits in (("upper", stat.S_IMODE(mode)), ("work", 0o700)):
            directory = scratch.path / name
            directory.mkdir()
            directory.chmod(bits)
            if uid is not None:
                os.chown(directory, uid, uid)
        return scratch


def remove_tree(path: Path) -> None:
    """Removes a tree that somebody else filled: whatever its directories' modes are, never following a link."""

    def unlock(function: object, place: str, error: object) -> None:
        parent = os.path.dirname(place)
        os.chmod(parent, 0o700, follow_symlinks=False) if not os.path.islink(parent) else None
        found = os.lstat(place)
        if stat.S_ISDIR(found.st_mode):
            os.chmod(place, 0o700)
            shutil.rmtree(place, onerror=unlock)
        else:
            os.unlink(place)

    if path.exists() or path.is_symlink():
        shutil.rmtree(path, onerror=unlock)
