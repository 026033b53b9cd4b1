"""The steps of a plan while they are collected, and the order in which they are made.

Three rounds: names are taken away, deepest first and by what they were called before; then directories that moved, and
what is new, get their names, from the top down; then directories get their modes.
"""

import os
import stat
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Final

from stockade_daemon.gate.effects import survey as look
from stockade_daemon.gate.effects.origins import Origins
from stockade_daemon.gate.effects.survey import Survey
from stockade_daemon.gate.effects.upper import Found
from stockade_daemon.gate.effects.values import OLD, Adopted, Step, above_of
from stockade_daemon.gate.names import joined

MINE: Final = 0o300  # to change what is in a directory, for whoever is not root


@dataclass(slots=True)
class Directory:
    """A directory as it is going to be."""

    lower: bytes | None  # what it was in the workspace; None: it is new
    held: bytes  # in the area
    mode: int
    owner: tuple[int, int]


class Makings:
    """What has been collected so far."""

    def __init__(self, survey: Survey) -> None:
        self._survey = survey
        self._root = os.geteuid() == 0
        self.links: list[Step] = []
        self.early: list[Step] = []  # before names are taken away, by the names that things have in the workspace
        self.takes: list[Step] = []
        self.makes: list[Step] = []
        self.metas: list[Step] = []
        self.adopted: list[Adopted] = []
        self.written: set[int] = set()  # inodes of files with several names
        self.attributed: set[int] = set()  # inodes that get other extended attributes

    def take(self, lower: bytes, status: os.stat_result, final: bytes | None) -> bytes:
        slot = joined(OLD, b"%d" % len(self.takes))
        tree = stat.S_ISDIR(status.st_mode)
        self.takes.append(
            Step("take", lower, slot, expected=look.facts(status), tree=tree, guarded=tree and final is not None)
        )
        return slot

    def make(self, found: Found, held: bytes, status: os.stat_result | None, *, tree: bool = False) -> None:
        if status is None:
            self.makes.append(Step("put", found.path, held, inode=found.status.st_ino, tree=tree))
            return
        was_tree = stat.S_ISDIR(status.st_mode)
        self.makes.append(
            Step(
                "swap",
                found.path,
                held,
                expected=look.facts(status),
                inode=found.status.st_ino,
                tree=tree or was_tree,
                guarded=was_tree,
            )
        )

    def write(self, found: Found, held: bytes, status: os.stat_result, mode: int | None, early: bytes = b"") -> None:
        """In place, so that every name of the file sees it; once for all names that the command knew. `early`: by this
        name, before it is taken away."""
        if status.st_ino in self.written:
            return
        self.written.add(status.st_ino)
        kept = joined(OLD, b"w%d" % len(self.written))
        old = stat.S_IMODE(status.st_mode)
        steps, path = (self.early, early) if early else (self.makes, found.path)
        steps.append(Step("write", path, held, kept, look.facts(status), status.st_ino, (old, 0)))
        if mode is not None and mode != old:
            steps.append(Step("meta", path, before=(old, 0), after=(mode, 0), inode=status.st_ino))

    def attribute(self, found: Found, held: bytes, status: os.stat_result, early: bytes = b"") -> None:
        """The attributes of what waits at `held`, onto the file or directory itself; once for all its names."""
        if status.st_ino in self.attributed:
            return
        self.attributed.add(status.st_ino)
        kept = joined(OLD, b"a%d" % len(self.attributed))
        steps = self.early if early else self.metas if found.directory else self.makes
        steps.append(Step("attributes", early or found.path, held, kept, inode=status.st_ino))
        if found.marked:
            self.adopt(found, None, None)

    def meta(self, path: bytes, status: os.stat_result, mode: int) -> None:
        old = stat.S_IMODE(status.st_mode)
        if mode != old:
            self.metas.append(Step("meta", path, before=(old, 0), after=(mode, 0), inode=status.st_ino))

    def adopt(self, found: Found, owner: tuple[int, int] | None, mode: int | None) -> None:
        was = stat.S_IMODE(found.status.st_mode)
        opened = was & 0o400 == 0 or (found.directory and was & 0o500 != 0o500)  # by the survey, to look at it
        same = mode is None or (mode == was and not opened)
        held = found.path or b"."  # of the workspace itself: the upper directory
        self.adopted.append(Adopted(held, owner if self._root else None, None if same else mode, marked=found.marked))

    def ordered(self, directories: Mapping[bytes, Directory], origins: Origins) -> Iterable[Step]:
        takes = sorted(self.takes, key=lambda step: -step.path.count(b"/"))
        metas = list(reversed(self.metas))
        opened, closed = ([], []) if self._root else self._opened(takes, directories, origins)
        return [*opened, *self.links, *self.early, *takes, *self.makes, *metas, *closed]

    def _opened(
        self, takes: list[Step], directories: Mapping[bytes, Directory], origins: Origins
    ) -> tuple[list[Step], list[Step]]:
        """Directories that the daemon's user must be let into for the time of the commit."""
        wanted: dict[bytes, bytes] = {}  # lower path → path afterwards, empty where it is gone by then
        final = {lower: path for path, lower in origins.lower_of.items() if lower is not None}
        for step in takes:
            above = above_of(step.path)
            wanted[above] = final.get(above, b"") if above else b""
            if step.tree:
                wanted.setdefault(step.path, final.get(step.path, b""))
        for step in self.makes:
            above = above_of(step.path)
            lower = directories[above].lower
            if lower is not None:
                wanted[lower] = above
            if step.do == "swap" and step.tree:
                own = origins.lower(step.path)
                if own is not None:
                    wanted.setdefault(own, b"")
        opened, closed = [], []
        for lower, path in wanted.items():
            status = self._survey.workspace.status(lower)
            if status is None or not stat.S_ISDIR(status.st_mode) or status.st_mode & MINE == MINE:
                continue
            mode = stat.S_IMODE(status.st_mode)
            opened.append(Step("meta", lower, before=(mode, 0), after=(mode | MINE, 0), inode=status.st_ino))
            afterwards = directories[path].mode if path in directories else mode
            if path or not lower:
                closed.append(
                    Step(
                        "meta", path, before=(mode | MINE, 0), after=(stat.S_IMODE(afterwards), 0), inode=status.st_ino
                    )
                )
        opened.sort(key=lambda step: step.path.count(b"/"))
        closed.sort(key=lambda step: -step.path.count(b"/"))
        return opened, closed
