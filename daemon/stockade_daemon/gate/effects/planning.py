"""What a plan is made with: what has been collected so far, and what things are."""

import os
import stat
from dataclasses import dataclass, field
from typing import Final

from stockade_daemon.gate.effects.attributes import attributes_at, has_marks
from stockade_daemon.gate.effects.makings import Directory, Makings
from stockade_daemon.gate.effects.origins import Origins
from stockade_daemon.gate.effects.survey import Survey, digest_at
from stockade_daemon.gate.effects.tree import Tree, open_to_us
from stockade_daemon.gate.effects.upper import Found
from stockade_daemon.gate.effects.values import NEW, Change, Effect, Made, Step
from stockade_daemon.gate.names import joined
from stockade_daemon.looks import Shown, digest

_SET_ID: Final = stat.S_ISUID | stat.S_ISGID


@dataclass(slots=True)
class _Work:
    effects: list[Effect] = field(default_factory=list)
    aside: list[tuple[bytes, bytes]] = field(default_factory=list)
    dropped: list[bytes] = field(default_factory=list)
    shared: list[tuple[bytes, tuple[int, int]]] = field(default_factory=list)  # path, device and inode of its file
    left_out: list[tuple[bytes, str]] = field(default_factory=list)
    lost: list[bytes] = field(default_factory=list)  # copies whose original is not there


class Planning:
    """A plan while it is made."""

    def __init__(self, found: list[Found], upper: Tree, survey: Survey, *, made: Made, exact: bool) -> None:
        """`exact`: digests of all new files, also in whole new directories, and of those that go."""
        self._found = found
        self._upper = upper
        self._survey = survey
        self._worker_uid = made.worker_uid
        self._root_mode = made.root_mode
        self._keeps_links = made.keeps_links
        self._marks = made.marks
        self._shown = {bytes.fromhex(path): Shown(*each) for path, each in made.shown.items()}
        self._exact = exact
        self._root = os.geteuid() == 0
        self._work = _Work()
        self._origins = Origins(found, survey, orphans=bool(made.orphans))
        self._steps = Makings(survey)
        self._directories: dict[bytes, Directory] = {}
        self._sources: set[bytes] = set()  # names that files had which have another one now
        self._touched: list[bytes] = []  # below directories that go or move

    def _at(self, lower: bytes | None) -> os.stat_result | None:
        """What stands at a name, unchanged, and has not moved away."""
        return None if lower is None or lower in self._origins.moved else self._survey.unchanged(lower)

    def _whole(self, lower: bytes, status: os.stat_result) -> list[tuple[bytes, os.stat_result]]:
        """All that is in what is going, or moving; unchanged."""
        found = self._survey.below(lower, status)
        self._touched += [path for path, _ in found]
        return found

    def _held(self, path: bytes) -> bytes:
        above, _, name = path.rpartition(b"/")
        return joined(self._directories[above].held, name)

    def _owner(self, found: Found, above: Directory) -> tuple[int, int]:
        """Of something new: whoever owns its directory. A copy of another's file stays the other's."""
        if found.copied and found.status.st_uid != self._worker_uid:
            return found.status.st_uid, found.status.st_gid
        return above.owner

    def _new_mode(self, found: Found, above: Directory) -> int:
        """Without set-id bits, but that new directories in a set-group-id directory have the same bit (inode(7))."""
        return self._without(found, above.mode & stat.S_ISGID if found.directory else 0)

    def _kept_mode(self, found: Found, before: int) -> int:
        """With those set-id bits that were there and still are."""
        return self._without(found, before & _SET_ID)

    def _without(self, found: Found, kept: int) -> int:
        mode = stat.S_IMODE(found.status.st_mode)
        if mode & _SET_ID & ~kept:
            self._work.left_out.append((found.path, "set-id bits are never committed"))
        return mode & (~_SET_ID | kept)

    def _shares(self, path: bytes, status: os.stat_result) -> None:
        """Notes a file that has, or gets, further names: what it becomes it becomes under all of them."""
        self._work.shared.append((path, (status.st_dev, status.st_ino)))

    def _has_other_attributes(self, found: Found, lower: bytes) -> bool:
        """Whether a copy has other extended attributes of users than what it was copied from."""
        with open_to_us(*self._upper.at(found.path)):
            new = attributes_at(self._upper, found.path, self._marks)
        shown = self._shown.get(lower) if found.directory else None
        if shown is not None and digest(new) == shown.attributes:
            return False
        try:
            old = attributes_at(self._survey.workspace, lower, self._marks)
        except PermissionError:
            why = "its extended attributes stay: the workspace's may not be read by the daemon's user"
            self._work.left_out.append((found.path, why))
            return False
        if new == old:
            return False
        if shown is not None and digest(old) != shown.attributes:
            # It has some that the command never saw, and would lose them.
            self._work.left_out.append(
                (found.path, "its extended attributes stay: the workspace's are not those that the command was shown")
            )
            return False
        return True

    def _tell_marks(self, found: Found, lower: bytes) -> None:
        """Says so where what is replaced has attributes that no command can see, and what takes its place has not."""
        if has_marks(self._survey.workspace, lower, self._marks):
            self._work.left_out.append((found.path, f"attributes {self._marks}* of the file before are not kept"))

    def _mode_after(self, found: Found, lower: bytes, status: os.stat_result) -> int:
        """Of a directory that was there: its own, unless the command gave it another than it was shown."""
        shown = self._shown.get(lower)
        if shown is not None and stat.S_IMODE(found.status.st_mode) == shown.mode:
            return stat.S_IMODE(status.st_mode)
        return self._kept_mode(found, status.st_mode)

    def _orphan(self, found: Found) -> None:
        """A file that was changed, lost the name by which it was, and keeps others: changed by the name that goes."""
        came = None if found.origin is None else self._origins.by_handle.get(found.origin)
        if came is None or came[1].st_nlink == 1 or came[1].st_ino in self._steps.written:
            return
        lower, status, path = came
        self._survey.check(lower, status)
        before, after = self._survey.digest(lower, status), digest_at(self._upper, found.path)
        mode, old = self._kept_mode(found, status.st_mode), stat.S_IMODE(status.st_mode)
        others = self._has_other_attributes(found, lower)
        if (before, old, status.st_mtime_ns, others) == (after, mode, found.status.st_mtime_ns, False):
            return
        self._shares(path, status)
        change: Change = "metadata" if before == after else "changed"
        size, held = found.status.st_size, joined(NEW, found.path)
        self._work.effects.append(
            Effect(path, change, "file", size, mode, old, before=before, after=after, held=found.path)
        )
        if before != after:
            self._steps.write(found, held, status, mode, early=lower)
        if others:
            self._steps.attribute(found, held, status, early=lower)
        if before == after:
            times = (old, status.st_mtime_ns), (mode, found.status.st_mtime_ns)
            self._steps.early.append(Step("meta", lower, before=times[0], after=times[1], inode=status.st_ino))
