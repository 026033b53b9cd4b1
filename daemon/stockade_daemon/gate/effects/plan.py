"""From an overlay's upper directory to a plan: what the command changed of the workspace as it is now, name by name,
and the steps that make it so.

Three rounds of steps: names are taken away, deepest first and by what they were called before; then directories that
moved, and what is new, get their names, from the top down; then directories get their modes.
"""

import os
import stat
from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from typing import Final

from stockade_daemon.gate import syscalls
from stockade_daemon.gate.effects import survey as look
from stockade_daemon.gate.effects.survey import Survey, conflict, kind_of
from stockade_daemon.gate.effects.tree import Tree
from stockade_daemon.gate.effects.upper import Found
from stockade_daemon.gate.effects.values import Adopted, Change, Effect, Kind, Made, Plan, Step

_SET_ID: Final = stat.S_ISUID | stat.S_ISGID
_MINE: Final = 0o300  # to change what is in a directory, for whoever is not root
NEW: Final = b"new"  # in the area: the upper directory
OLD: Final = b"old"  # what was taken away, by number
APART: Final = b"apart"  # what is in directories that moved, by number
LINKS: Final = b"links"  # further names of files, by number


@dataclass(slots=True)
class _Directory:
    """A directory as it is going to be."""

    lower: bytes | None  # what it was in the workspace; None: it is new
    held: bytes  # in the area
    mode: int
    owner: tuple[int, int]


@dataclass(slots=True)
class _Work:
    effects: list[Effect] = field(default_factory=list)
    takes: list[Step] = field(default_factory=list)
    makes: list[Step] = field(default_factory=list)
    metas: list[Step] = field(default_factory=list)
    adopted: list[Adopted] = field(default_factory=list)
    aside: list[tuple[bytes, bytes]] = field(default_factory=list)
    links: list[Step] = field(default_factory=list)
    dropped: list[bytes] = field(default_factory=list)
    left_out: list[tuple[bytes, str]] = field(default_factory=list)
    written: set[int] = field(default_factory=set)  # inodes of files with several names
    moved: dict[bytes, os.stat_result] = field(default_factory=dict)  # source → what moves
    gone: list[tuple[bytes, os.stat_result, bytes]] = field(default_factory=list)  # files: lower path, final path
    lost: list[bytes] = field(default_factory=list)  # copies whose original is not there


class Planner:
    """Makes one plan. File work: for a thread."""

    def __init__(self, found: list[Found], upper: Tree, survey: Survey, *, made: Made, exact: bool) -> None:
        """`exact`: digests of all new files, also in whole new directories, and of those that go."""
        self._found = found
        self._upper = upper
        self._survey = survey
        self._worker_uid = made.worker_uid
        self._root_mode = made.root_mode
        self._keeps_links = made.keeps_links
        self._exact = exact
        self._root = os.geteuid() == 0
        self._work = _Work()
        self._directories: dict[bytes, _Directory] = {}
        self._lower_of: dict[bytes, bytes | None] = {}
        self._originals: dict[bytes, bytes] = {}  # names of one file → the one that it had before
        self._sources: set[bytes] = set()  # names that files had which have another one now
        self._touched: list[bytes] = []  # below directories that go or move
        self._by_handle: dict[tuple[int, bytes], tuple[bytes, os.stat_result, bytes]] = {}

    def run(self) -> Plan:
        """The plan. Raises GateRefusal FS_CONFLICT; OSError."""
        self._find_moves()
        self._find_names()
        for found in self._found:
            if not found.path:
                self._top(found)
            elif found.whiteout:
                self._whiteout(found)
            elif found.directory:
                self._directory(found)
            else:
                self._other(found)
        return self._finish()

    # What is in the upper directory, one kind each.

    def _find_moves(self) -> None:
        """Where directories came from, before anything is judged: what has moved away is not what is covered."""
        lower: dict[bytes, bytes | None] = {b"": b""}
        for found in self._found:
            if not found.path or not found.directory:
                continue
            above, _, name = found.path.rpartition(b"/")
            under = lower[above]
            own = None if under is None else _joined(under, name)
            if found.redirect is not None:
                source = (
                    found.redirect[1:] if found.redirect.startswith(b"/") else _joined(under or b"", found.redirect)
                )
                lower[found.path] = source
                if source != own:
                    status = self._survey.unchanged(source)
                    if status is None or not stat.S_ISDIR(status.st_mode):
                        raise conflict(source, "was moved or removed by another program")
                    self._work.moved[source] = status
            else:
                lower[found.path] = own if found.copied and not found.opaque else None
        self._lower_of = lower

    def _find_names(self) -> None:
        """Which names are to be names of one file. A copy of a file that is still called as it was is that file, and
        so are all its names; and a file that lost one of several names for another keeps those it had besides."""
        groups: dict[int, list[Found]] = {}
        for found in self._found:
            if found.whiteout and (lower := self._lower(found.path)) is not None:
                status = self._survey.workspace.status(lower)
                if status is not None and stat.S_ISREG(status.st_mode):
                    self._work.gone.append((lower, status, found.path))
            elif stat.S_ISREG(found.status.st_mode) and found.copied:
                groups.setdefault(found.status.st_ino, []).append(found)
        for names in groups.values():
            stays = next((each for each in names if self._is_copy_of_its_own(each)), None)
            if stays is not None and len(names) > 1:
                self._originals |= {each.path: stays.path for each in names}
        arrived = [names for names in groups.values() if names[0].origin and names[0].path not in self._originals]
        if self._work.gone and arrived:
            for lower, status, path in self._work.gone:
                handle = syscalls.handle_of(*self._survey.workspace.at(lower))
                if handle is not None:
                    self._by_handle[handle] = lower, status, path

    def _is_copy_of_its_own(self, found: Found) -> bool:
        lower = self._lower(found.path)
        status = None if lower is None else self._survey.workspace.status(lower)
        return status is not None and stat.S_ISREG(status.st_mode)

    def _top(self, found: Found) -> None:
        status = os.fstat(self._survey.workspace.root)
        self._directories[b""] = _Directory(b"", NEW, found.status.st_mode, (status.st_uid, status.st_gid))
        if stat.S_IMODE(found.status.st_mode) != self._root_mode:
            self._mode_of(found, b"", status)

    def _whiteout(self, found: Found) -> None:
        lower = self._lower(found.path)
        status = None if lower is None or lower in self._work.moved else self._survey.unchanged(lower)
        if lower is not None and status is not None:
            self._take(lower, status, found.path)
            names = len(self._whole(lower, status))
            size = status.st_size if stat.S_ISREG(status.st_mode) else 0
            kind = kind_of(status.st_mode)
            before = self._survey.digest(lower, status) if kind == "file" and self._exact else None
            mode = stat.S_IMODE(status.st_mode) if kind != "symlink" else None
            self._work.effects.append(
                Effect(found.path, "deleted", kind, size, before_mode=mode, before=before, below=names)
            )

    def _directory(self, found: Found) -> None:
        lower = self._lower(found.path)
        if found.redirect is not None:
            self._moved_directory(found, lower)
        elif found.copied and not found.opaque and lower is not None:
            status = self._survey.workspace.status(lower)
            if status is None or not stat.S_ISDIR(status.st_mode):
                raise conflict(lower, "was moved or removed by another program")
            self._directories[found.path] = _Directory(
                lower, self._held(found.path), found.status.st_mode, (status.st_uid, status.st_gid)
            )
            self._mode_of(found, found.path, status)
        else:
            self._new_directory(found, lower)

    def _moved_directory(self, found: Found, own: bytes | None) -> None:
        above = self._directories[_above(found.path)]
        redirect = found.redirect or b""
        source = redirect[1:] if redirect.startswith(b"/") else _joined(above.lower or b"", redirect)
        status = self._work.moved.get(source)
        if status is None:  # away and back again
            status = self._survey.workspace.status(source)
            if status is None:
                raise conflict(source, "was moved or removed by another program")
            held = self._held(found.path)
            self._directories[found.path] = _Directory(
                source, held, found.status.st_mode, (status.st_uid, status.st_gid)
            )
            self._mode_of(found, found.path, status)
            return
        slot = self._take(source, status, None)
        self._touched += [source, *(found.path + path[len(source) :] for path, _ in self._whole(source, status))]
        self._displaced(found.path, own)
        held = self._held(found.path)
        if above.lower is None:  # its directory is moved as a whole, and this one is not what waits there
            apart = _joined(APART, b"%d" % len(self._work.aside))
            self._work.aside.append((held, apart))
            held = apart
        self._directories[found.path] = _Directory(source, held, found.status.st_mode, (status.st_uid, status.st_gid))
        self._work.makes.append(Step("put", found.path, slot, inode=status.st_ino, tree=True))
        mode = self._kept_mode(found, status.st_mode)
        effect = Effect(found.path, "renamed", "directory", mode=mode, source=source)
        self._work.effects.append(replace(effect, before_mode=stat.S_IMODE(status.st_mode)))
        self._meta(found.path, status, mode)

    def _new_directory(self, found: Found, lower: bytes | None) -> None:
        above = self._directories[_above(found.path)]
        held = self._held(found.path)
        mode = self._new_mode(found, above)
        self._directories[found.path] = _Directory(None, held, mode, self._owner(found, above))
        status = self._at(lower)
        if status is not None and lower is not None:
            if stat.S_ISDIR(status.st_mode) and not found.opaque:
                raise conflict(lower, "was made by another program")
            self._whole(lower, status)
        effect = Effect(
            found.path,
            "created" if status is None else "replaced",
            "directory",
            mode=mode,
            before_mode=None if status is None or stat.S_ISLNK(status.st_mode) else stat.S_IMODE(status.st_mode),
            held=found.path,
            inside=above.lower is None,
        )
        self._work.effects.append(effect)
        self._adopt(found, self._owner(found, above), mode if self._root else mode | 0o700)
        if above.lower is not None:
            self._make(found, held, status, tree=True)
            if not self._root and mode & _MINE != _MINE:
                self._work.metas.append(Step("meta", found.path, before=(mode | 0o700, 0), after=(mode, 0)))
        elif not self._root and mode & 0o700 != 0o700:
            self._work.metas.append(Step("meta", found.path, before=(mode | 0o700, 0), after=(mode, 0)))

    def _other(self, found: Found) -> None:
        kind = kind_of(found.status.st_mode)
        lower = self._lower(found.path)
        if kind in ("socket", "device"):
            self._work.dropped.append(found.path)
            self._work.left_out.append((found.path, f"a {kind} is never committed"))
            return
        status = self._at(lower)
        if status is not None and lower is not None and kind_of(status.st_mode) == kind:
            self._changed(found, kind, lower, status)
        else:
            self._new(found, kind, lower, status)

    def _changed(self, found: Found, kind: Kind, lower: bytes, status: os.stat_result) -> None:
        """Something of the same kind stands there."""
        target = self._target(found, kind)
        if kind == "symlink":
            directory, name = self._survey.workspace.at(lower)
            if os.readlink(name, dir_fd=directory) == target:
                return
        if kind == "fifo" and found.copied:
            self._metadata(found, kind, status, None)
            return
        before = after = None
        mode = None if kind == "symlink" else self._kept_mode(found, status.st_mode)
        if kind == "file":
            after, before = look.digest_at(self._upper, found.path), self._survey.digest(lower, status)
            if before == after and found.copied:
                self._metadata(found, kind, status, before)
                return
        several = kind == "file" and status.st_nlink > 1
        if several and not found.copied and not self._keeps_links:
            raise conflict(
                lower,
                "has several names, and this host does not tell whether the command changed the file or put another one "
                "in its place (change it with `edit`); for all that is known it was another",
            )
        size = found.status.st_size if kind == "file" else 0
        old = None if mode is None else stat.S_IMODE(status.st_mode)
        self._work.effects.append(
            Effect(found.path, "changed", kind, size, mode, old, None, target, before, after, found.path)
        )
        if several and found.copied:
            self._write(found, self._held(found.path), status, mode)
        else:
            self._adopt(found, (status.st_uid, status.st_gid), mode)
            self._make(found, self._held(found.path), status)

    def _new(self, found: Found, kind: Kind, lower: bytes | None, status: os.stat_result | None) -> None:
        """Nothing stands there, or something else; or it is in a directory that is new."""
        above = self._directories[_above(found.path)]
        mode = None if kind == "symlink" else self._new_mode(found, above)
        inside = above.lower is None
        after = look.digest_at(self._upper, found.path) if kind == "file" and (self._exact or not inside) else None
        if status is not None and lower is not None:
            self._whole(lower, status)
        came = self._came_from(found)
        if came is None and status is None and found.copied and not inside:
            self._work.lost.append(found.path)
        change: Change = "created" if status is None else "replaced"
        if came is not None and status is None:
            change = "renamed"
            self._sources.add(came[2])
        self._work.effects.append(
            Effect(
                found.path,
                change,
                kind,
                found.status.st_size if kind == "file" else 0,
                mode,
                None if status is None or stat.S_ISLNK(status.st_mode) else stat.S_IMODE(status.st_mode),
                None if came is None else came[2],
                self._target(found, kind),
                None,
                after,
                found.path,
                inside=inside,
            )
        )
        original = self._original(found, came)
        if original is not None:
            self._one_more_name(found, above, original, status, mode, rewritten=came is not None)
            return
        self._adopt(found, self._owner(found, above), mode)
        if not inside:
            self._make(found, self._held(found.path), status)

    def _came_from(self, found: Found) -> tuple[bytes, os.stat_result, bytes] | None:
        """The name that a file had, where this one is new and that one is gone: lower path, status, path."""
        if found.origin is None or found.path in self._originals or not stat.S_ISREG(found.status.st_mode):
            return None
        came = self._by_handle.get(found.origin)
        return came if came is not None and came[2] not in self._sources else None

    def _original(
        self, found: Found, came: tuple[bytes, os.stat_result, bytes] | None
    ) -> tuple[bytes, os.stat_result] | None:
        """The file of the workspace that a new name is to be one more name of; None where it is a file of its own."""
        if came is not None:
            return came[:2] if came[1].st_nlink > 1 else None
        path = self._originals.get(found.path)
        lower = None if path is None else self._lower(path)
        status = self._at(lower)
        if path is None or lower is None or status is None:
            return None
        if status.st_nlink > 1:
            return lower, status
        unchanged = status.st_size == found.status.st_size and look.digest_at(
            self._upper, found.path
        ) == self._survey.digest(lower, status)
        return (lower, status) if unchanged else None

    def _one_more_name(
        self,
        found: Found,
        above: _Directory,
        original: tuple[bytes, os.stat_result],
        status: os.stat_result | None,
        mode: int | None,
        *,
        rewritten: bool,
    ) -> None:
        lower, file = original
        link = _joined(LINKS, b"%d" % len(self._work.links))
        self._work.links.append(Step("link", lower, link, inode=file.st_ino))
        if above.lower is None:
            # Its directory is put as a whole, and what waits there is a copy.
            self._work.aside.append((self._held(found.path), _joined(APART, b"%d" % len(self._work.aside))))
            held = self._work.aside[-1][1]
        else:
            held = self._held(found.path)
        self._make(replace(found, status=file), link, status)
        if rewritten:
            self._write(found, held, file, mode)

    # Steps.

    def _take(self, lower: bytes, status: os.stat_result, final: bytes | None) -> bytes:
        slot = _joined(OLD, b"%d" % len(self._work.takes))
        tree = stat.S_ISDIR(status.st_mode)
        self._work.takes.append(
            Step("take", lower, slot, expected=look.facts(status), tree=tree, guarded=tree and final is not None)
        )
        return slot

    def _make(self, found: Found, held: bytes, status: os.stat_result | None, *, tree: bool = False) -> None:
        if status is None:
            self._work.makes.append(Step("put", found.path, held, inode=found.status.st_ino, tree=tree))
            return
        was_tree = stat.S_ISDIR(status.st_mode)
        self._work.makes.append(
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

    def _write(self, found: Found, held: bytes, status: os.stat_result, mode: int | None) -> None:
        """In place, so that every name of the file sees it; once for all names that the command knew."""
        if status.st_ino in self._work.written:
            return
        self._work.written.add(status.st_ino)
        kept = _joined(OLD, b"w%d" % len(self._work.written))
        old = stat.S_IMODE(status.st_mode)
        self._work.makes.append(Step("write", found.path, held, kept, look.facts(status), status.st_ino, (old, 0)))
        if mode is not None and mode != old:
            self._work.makes.append(Step("meta", found.path, before=(old, 0), after=(mode, 0), inode=status.st_ino))

    def _metadata(self, found: Found, kind: Kind, status: os.stat_result, digest: str | None) -> None:
        """The same bytes, perhaps with another mode or time."""
        mode = self._kept_mode(found, status.st_mode)
        old = stat.S_IMODE(status.st_mode)
        self._work.dropped.append(found.path)
        if status.st_nlink > 1:
            if status.st_ino in self._work.written:
                return
            self._work.written.add(status.st_ino)
        if mode == old and found.status.st_mtime_ns == status.st_mtime_ns:
            return
        if mode != old:
            size = found.status.st_size if kind == "file" else 0
            self._work.effects.append(
                Effect(found.path, "metadata", kind_of(status.st_mode), size, mode, old, before=digest, after=digest)
            )
        self._work.makes.append(
            Step(
                "meta",
                found.path,
                before=(old, status.st_mtime_ns),
                after=(mode, found.status.st_mtime_ns),
                inode=status.st_ino,
            )
        )

    def _mode_of(self, found: Found, path: bytes, status: os.stat_result) -> None:
        """Of a directory that was there and stays."""
        mode, old = self._kept_mode(found, status.st_mode), stat.S_IMODE(status.st_mode)
        if mode != old:
            lower = self._directories[path].lower
            if lower is not None:
                self._survey.check(lower, status)
            self._work.effects.append(Effect(path, "metadata", "directory", mode=mode, before_mode=old))
            self._meta(path, status, mode)

    def _meta(self, path: bytes, status: os.stat_result, mode: int) -> None:
        old = stat.S_IMODE(status.st_mode)
        if mode != old:
            self._work.metas.append(Step("meta", path, before=(old, 0), after=(mode, 0), inode=status.st_ino))

    def _displaced(self, path: bytes, own: bytes | None) -> None:
        """What a moved directory took the place of."""
        status = self._at(own)
        if own is not None and status is not None:
            self._take(own, status, path)
            names = len(self._whole(own, status))
            self._work.effects.append(Effect(path, "deleted", kind_of(status.st_mode), below=names))

    def _adopt(self, found: Found, owner: tuple[int, int] | None, mode: int | None) -> None:
        was = stat.S_IMODE(found.status.st_mode)
        opened = was & 0o400 == 0 or (found.directory and was & 0o500 != 0o500)  # by the survey, to look at it
        same = mode is None or (mode == was and not opened)
        self._work.adopted.append(
            Adopted(found.path, owner if self._root else None, None if same else mode, marked=found.marked)
        )

    def _finish(self) -> Plan:
        work = self._work
        removed = bool(work.gone) or any(step.guarded for step in (*work.takes, *work.makes))
        if work.lost and not removed:
            raise conflict(work.lost[0], "was moved or removed by another program")
        effects = _counted(
            [each for each in work.effects if each.change != "deleted" or each.path not in self._sources]
        )
        return Plan(
            effects=tuple(sorted(effects, key=lambda each: each.path)),
            steps=tuple(self._ordered()),
            adopted=tuple(work.adopted),
            aside=tuple(work.aside),
            dropped=tuple(work.dropped),
            left_out=tuple(dict.fromkeys(work.left_out)),
            touched=tuple(self._touched),
        )

    def _ordered(self) -> Iterable[Step]:
        takes = sorted(self._work.takes, key=lambda step: -step.path.count(b"/"))
        metas = list(reversed(self._work.metas))
        opened, closed = ([], []) if self._root else self._opened(takes)
        return [*opened, *self._work.links, *takes, *self._work.makes, *metas, *closed]

    def _opened(self, takes: list[Step]) -> tuple[list[Step], list[Step]]:
        """Directories that the daemon's user must be let into for the time of the commit."""
        wanted: dict[bytes, bytes] = {}  # lower path → path afterwards, empty where it is gone by then
        final = {lower: path for path, lower in self._lower_of.items() if lower is not None}
        for step in takes:
            above = _above(step.path)
            wanted[above] = final.get(above, b"") if above else b""
            if step.tree:
                wanted.setdefault(step.path, final.get(step.path, b""))
        for step in self._work.makes:
            above = _above(step.path)
            lower = self._directories[above].lower
            if lower is not None:
                wanted[lower] = above
            if step.do == "swap" and step.tree:
                own = self._lower(step.path)
                if own is not None:
                    wanted.setdefault(own, b"")
        opened, closed = [], []
        for lower, path in wanted.items():
            status = self._survey.workspace.status(lower)
            if status is None or not stat.S_ISDIR(status.st_mode) or status.st_mode & _MINE == _MINE:
                continue
            mode = stat.S_IMODE(status.st_mode)
            opened.append(Step("meta", lower, before=(mode, 0), after=(mode | _MINE, 0), inode=status.st_ino))
            afterwards = self._directories[path].mode if path in self._directories else mode
            if path or not lower:
                closed.append(
                    Step(
                        "meta", path, before=(mode | _MINE, 0), after=(stat.S_IMODE(afterwards), 0), inode=status.st_ino
                    )
                )
        opened.sort(key=lambda step: step.path.count(b"/"))
        closed.sort(key=lambda step: -step.path.count(b"/"))
        return opened, closed

    # What things are.

    def _lower(self, path: bytes) -> bytes | None:
        """What a name was in the workspace, by where its directory was; None in a new directory."""
        above, _, name = path.rpartition(b"/")
        under = self._lower_of[above]
        return None if under is None else _joined(under, name)

    def _at(self, lower: bytes | None) -> os.stat_result | None:
        """What stands at a name, unchanged, and has not moved away."""
        return None if lower is None or lower in self._work.moved else self._survey.unchanged(lower)

    def _whole(self, lower: bytes, status: os.stat_result) -> list[tuple[bytes, os.stat_result]]:
        """All that is in what is going, or moving; unchanged."""
        found = self._survey.below(lower, status)
        self._touched += [path for path, _ in found]
        return found

    def _held(self, path: bytes) -> bytes:
        above, _, name = path.rpartition(b"/")
        return _joined(self._directories[above].held, name)

    def _owner(self, found: Found, above: _Directory) -> tuple[int, int]:
        """Of something new: whoever owns its directory. A copy of another's file stays the other's."""
        if found.copied and found.status.st_uid != self._worker_uid:
            return found.status.st_uid, found.status.st_gid
        return above.owner

    def _new_mode(self, found: Found, above: _Directory) -> int:
        """Without set-id bits, but that new directories in a set-group-id directory have the same bit (inode(7))."""
        mode = stat.S_IMODE(found.status.st_mode)
        inherited = above.mode & stat.S_ISGID if found.directory else 0
        kept = mode & ~_SET_ID | mode & inherited
        if kept != mode:
            self._work.left_out.append((found.path, "set-id bits are never committed"))
        return kept

    def _kept_mode(self, found: Found, before: int) -> int:
        """With those set-id bits that were there and still are."""
        mode = stat.S_IMODE(found.status.st_mode)
        kept = mode & ~_SET_ID | mode & before & _SET_ID
        if kept != mode:
            self._work.left_out.append((found.path, "set-id bits are never committed"))
        return kept

    def _target(self, found: Found, kind: str) -> bytes | None:
        if kind != "symlink":
            return None
        directory, name = self._upper.at(found.path)
        return os.readlink(name, dir_fd=directory)


def _counted(effects: list[Effect]) -> list[Effect]:
    """With the number of names in each new directory."""
    counts: dict[bytes, int] = {}
    for each in effects:
        if each.inside:
            above = _above(each.path)
            while above in counts or above:
                counts[above] = counts.get(above, 0) + 1
                above = _above(above)
    return [
        replace(each, below=counts.get(each.path, 0)) if each.kind == "directory" and each.held else each
        for each in effects
    ]


def _joined(above: bytes, name: bytes) -> bytes:
    return above + b"/" + name if above else name


def _above(path: bytes) -> bytes:
    return path.rpartition(b"/")[0]
