"""Scratch directories for overlays: one for each worker that has one, below a private directory of the daemon.

Disk, not memory: a command may write more than there is memory. After a kill of the daemon the next start removes
what is left.
"""

import asyncio
import os
import stat
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path

from stockade_daemon import looks
from stockade_daemon.errors import ConfigurationError
from stockade_daemon.looks import Ids, Shown
from stockade_daemon.removing import remove_tree
from stockade_daemon.sandbox.effects import MARKS


@dataclass(frozen=True, slots=True)
class Scratch:
    """`upper` and `work` of one overlay (overlayfs)."""

    path: Path
    mode: int = 0o700  # permission bits that the upper directory has at first
    uid: int | None = None  # who owns what a worker makes in it; None: the daemon's own user
    # What layers of ours show of directories of the workspace, by path.
    shown: Mapping[bytes, Shown] = field(default_factory=dict)

    @property
    def keeps_links(self) -> bool:
        """Whether the overlay keeps the names of one file together: it made an index for that (overlayfs, "index")."""
        return (self.path / "work" / "index").is_dir()

    @property
    def upper(self) -> Path:
        return self.path / "upper"

    def above(self, cover: "Scratch | None") -> "Scratch":
        """This one where a view has it above that layer."""
        return self if cover is None else replace(self, shown={**cover.shown, **self.shown})

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

    def make(self, workspace: str, *, mode: int, uid: int | None, ids: Ids) -> Scratch:
        """A new scratch directory; its upper directory has the workspace's mode and extended attributes, and the
        worker's uid if it has one: what the upper directory says is what the merged root will say. Raises OSError."""
        held = os.open(workspace, os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            attributes = looks.attributes(held)
        finally:
            os.close(held)
        scratch = replace(self.bare(), mode=stat.S_IMODE(mode), uid=uid)
        for name, bits in (("upper", stat.S_IMODE(mode)), ("work", 0o700)):
            directory = scratch.path / name
            directory.mkdir(mode=0o700)
            if name == "upper":
                looks.give(os.fsencode(directory), attributes, marks=MARKS, ids=ids)
            directory.chmod(bits)
            if uid is not None:
                os.chown(directory, uid, uid)
        return replace(scratch, shown={b"": looks.shown(os.fsencode(scratch.upper), marks=MARKS)})
