"""From an overlay's upper directory to a plan: what the command changed of the workspace as it is now, name by name,
and the steps that make it so.
"""

import os
import stat
from collections.abc import Sequence
from dataclasses import replace

from stockade_daemon.gate.effects import survey as look
from stockade_daemon.gate.effects.git_index import is_refreshed
from stockade_daemon.gate.effects.makings import Directory
from stockade_daemon.gate.effects.planning import Planning
from stockade_daemon.gate.effects.survey import conflict, kind_of
from stockade_daemon.gate.effects.upper import Found
from stockade_daemon.gate.effects.values import (
    APART,
    LINKS,
    NEW,
    Change,
    Effect,
    Kind,
    Plan,
    Step,
    above_of,
    counted,
)
from stockade_daemon.gate.names import joined


class Planner(Planning):
    """Makes one plan. File work: for a thread."""

    def run(self, orphans: Sequence[Found] = ()) -> Plan:
        """The plan. `orphans`: changed files without a name (orphans.py). Raises GateRefusal FS_CONFLICT; OSError."""
        for found in self._found:
            if found.escaped:
                self._work.left_out.append((found.path, f"attributes {self._marks}* are never committed"))
            if not found.path:
                self._top(found)
            elif found.whiteout:
                self._whiteout(found)
            elif found.directory:
                self._directory(found)
            else:
                self._other(found)
        for found in orphans:
            self._orphan(found)
        return self._finish()

    # What is in the upper directory, one kind each.

    def _top(self, found: Found) -> None:
        status = os.fstat(self._survey.workspace.root)
        self._directories[b""] = Directory(b"", NEW, found.status.st_mode, (status.st_uid, status.st_gid))
        if stat.S_IMODE(found.status.st_mode) != self._root_mode or self._has_other_attributes(found, b""):
            self._mode_of(found, b"", status)

    def _whiteout(self, found: Found) -> None:
        lower = self._origins.lower(found.path)
        status = self._at(lower)
        if lower is not None and status is not None:
            self._steps.take(lower, status, found.path)
            names = len(self._whole(lower, status))
            kind = kind_of(status.st_mode)
            size = status.st_size if kind == "file" else 0
            before = self._survey.digest(lower, status) if kind == "file" and self._exact else None
            mode = None if kind == "symlink" else stat.S_IMODE(status.st_mode)
            gone = Effect(found.path, "deleted", kind, size, before_mode=mode, before=before, below=names)
            self._work.effects.append(gone)

    def _directory(self, found: Found) -> None:
        lower = self._origins.lower(found.path)
        if found.redirect is not None:
            self._moved_directory(found, lower)
        elif found.copied and not found.opaque and lower is not None:
            status = self._survey.workspace.status(lower)
            if status is None or not stat.S_ISDIR(status.st_mode):
                raise conflict(lower, "was moved or removed by another program")
            self._stays(found, lower, status)
        else:
            self._new_directory(found, lower)

    def _stays(self, found: Found, lower: bytes, status: os.stat_result) -> None:
        held, owner = self._held(found.path), (status.st_uid, status.st_gid)
        self._directories[found.path] = Directory(lower, held, found.status.st_mode, owner)
        self._mode_of(found, found.path, status)

    def _moved_directory(self, found: Found, own: bytes | None) -> None:
        above = self._directories[above_of(found.path)]
        source = self._origins.lower_of[found.path] or b""
        if (status := self._origins.moved.get(source)) is None:  # away and back again
            status = self._survey.workspace.status(source)
            if status is None:
                raise conflict(source, "was moved or removed by another program")
            self._stays(found, source, status)
            return
        slot = self._steps.take(source, status, None)
        self._touched += [source, *(found.path + path[len(source) :] for path, _ in self._whole(source, status))]
        self._displaced(found.path, own)
        held = self._held(found.path)
        if above.lower is None:  # its directory is moved as a whole, and this one is not what waits there
            apart = joined(APART, b"%d" % len(self._work.aside))
            self._work.aside.append((held, apart))
            held = apart
        self._directories[found.path] = Directory(source, held, found.status.st_mode, (status.st_uid, status.st_gid))
        self._steps.makes.append(Step("put", found.path, slot, inode=status.st_ino, tree=True))
        mode = self._mode_after(found, source, status)
        effect = Effect(found.path, "renamed", "directory", mode=mode, source=source)
        self._work.effects.append(replace(effect, before_mode=stat.S_IMODE(status.st_mode)))
        self._steps.meta(found.path, status, mode)
        if self._has_other_attributes(found, source):
            self._steps.attribute(found, held, status)

    def _new_directory(self, found: Found, lower: bytes | None) -> None:
        above = self._directories[above_of(found.path)]
        held = self._held(found.path)
        mode = self._new_mode(found, above)
        self._directories[found.path] = Directory(None, held, mode, self._owner(found, above))
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
        self._steps.adopt(found, self._owner(found, above), mode if self._root else mode | 0o700)
        if above.lower is not None:
            self._steps.make(found, held, status, tree=True)
        if not self._root and mode & 0o700 != 0o700:
            self._steps.metas.append(Step("meta", found.path, before=(mode | 0o700, 0), after=(mode, 0)))

    def _other(self, found: Found) -> None:
        kind = kind_of(found.status.st_mode)
        lower = self._origins.lower(found.path)
        if kind in ("socket", "device"):
            self._work.dropped.append(found.path)
            self._work.left_out.append((found.path, f"a {kind} is never committed"))
            return
        status = self._at(lower)
        same = status is not None and kind_of(status.st_mode) == kind
        if same and kind == "file" and found.copied and not self._origins.is_copy_of_its_own(found):
            same = False  # another file of the workspace has got this name
        if same and status is not None and lower is not None:
            self._changed(found, kind, lower, status)
        else:
            self._new(found, kind, lower, status)

    def _changed(self, found: Found, kind: Kind, lower: bytes, status: os.stat_result) -> None:
        """Something of the same kind stands there."""
        target = look.target_at(self._upper, found.path) if kind == "symlink" else None
        if target is not None and look.target_at(self._survey.workspace, lower) == target:
            return
        if kind == "fifo" and found.copied:
            self._metadata(found, kind, status, None)
            return
        before = after = None
        others = False
        mode = None if kind == "symlink" else self._kept_mode(found, status.st_mode)
        if kind == "file":
            after, before = look.digest_at(self._upper, found.path), self._survey.digest(lower, status)
            alone = status.st_nlink == 1 and found.status.st_nlink == 1
            if before != after and alone and is_refreshed(self._survey.workspace, lower, self._upper, found):
                self._work.dropped.append(found.path)
                return
            others = before is not None and self._has_other_attributes(found, lower)
            if before == after and (found.copied or alone) and not (others and status.st_nlink == 1):
                self._metadata(found, kind, status, before, attributes=others)
                return
        several = kind == "file" and status.st_nlink > 1
        if several and not found.copied and not self._keeps_links:
            raise conflict(
                lower,
                "has several names, and this host does not tell whether the command changed it or put another file in "
                "its place (change it with `edit`); for all that is known it was another",
            )
        size = found.status.st_size if kind == "file" else 0
        old = None if mode is None else stat.S_IMODE(status.st_mode)
        self._work.effects.append(
            Effect(
                found.path,
                "changed" if before is None or before != after else "metadata",
                kind,
                size,
                mode,
                old,
                None,
                target,
                before,
                after,
                found.path,
            )
        )
        if several and found.copied:
            self._shares(found.path, status)
            self._steps.write(found, self._held(found.path), status, mode)
            if others:
                self._steps.attribute(found, self._held(found.path), status)
        else:
            self._tell_marks(found, lower)
            self._steps.adopt(found, (status.st_uid, status.st_gid), mode)
            self._steps.make(found, self._held(found.path), status)

    def _new(self, found: Found, kind: Kind, lower: bytes | None, status: os.stat_result | None) -> None:
        """Nothing stands there, or something else; or it is in a directory that is new."""
        above = self._directories[above_of(found.path)]
        mode = None if kind == "symlink" else self._new_mode(found, above)
        inside = above.lower is None
        after = look.digest_at(self._upper, found.path) if kind == "file" and (self._exact or not inside) else None
        before = None
        change: Change = "created" if status is None else "replaced"
        if status is not None and lower is not None:
            self._whole(lower, status)
            if kind == "file" and kind_of(status.st_mode) == "file":
                change, before = "changed", self._survey.digest(lower, status)
        came = self._came_from(found)
        moved = came is not None and status is None and came[2] not in self._sources | self._origins.replaced
        if (
            came is None
            and status is None
            and found.copied
            and not inside
            and found.path not in self._origins.originals
        ):
            self._work.lost.append(found.path)
        if came is not None and moved:
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
                came[2] if came is not None and moved else None,
                look.target_at(self._upper, found.path) if kind == "symlink" else None,
                before,
                after,
                found.path,
                inside=inside,
            )
        )
        original = self._original(found, came)
        if original is not None:
            self._one_more_name(found, above, original, status, mode, rewritten=came is not None)
            return
        self._steps.adopt(found, self._owner(found, above), mode)
        if not inside:
            self._steps.make(found, self._held(found.path), status)

    def _came_from(self, found: Found) -> tuple[bytes, os.stat_result, bytes] | None:
        """The name that a file had, where this one is new and that one is gone: lower path, status, path."""
        if found.origin is None or found.path in self._origins.originals or not stat.S_ISREG(found.status.st_mode):
            return None
        return self._origins.by_handle.get(found.origin)

    def _original(
        self, found: Found, came: tuple[bytes, os.stat_result, bytes] | None
    ) -> tuple[bytes, os.stat_result] | None:
        """The file of the workspace that a new name is to be one more name of; None where it is a file of its own."""
        if came is not None:
            return came[:2] if came[1].st_nlink > 1 else None
        path = self._origins.originals.get(found.path)
        lower = None if path is None else self._origins.lower(path)
        status = self._at(lower)
        if path is None or lower is None or status is None:
            return None
        if status.st_nlink > 1:
            return lower, status
        unchanged = (
            status.st_size == found.status.st_size
            and look.digest_at(self._upper, found.path) == self._survey.digest(lower, status)
            and not self._has_other_attributes(found, lower)
        )
        return (lower, status) if unchanged else None

    def _one_more_name(
        self,
        found: Found,
        above: Directory,
        original: tuple[bytes, os.stat_result],
        status: os.stat_result | None,
        mode: int | None,
        *,
        rewritten: bool,
    ) -> None:
        lower, file = original
        link = joined(LINKS, b"%d" % len(self._steps.links))
        self._steps.links.append(Step("link", lower, link, inode=file.st_ino))
        self._shares(found.path, file)
        if above.lower is None:
            # Its directory is put as a whole, and what waits there is a copy.
            self._work.aside.append((self._held(found.path), joined(APART, b"%d" % len(self._work.aside))))
            held = self._work.aside[-1][1]
        else:
            held = self._held(found.path)
        self._steps.make(replace(found, status=file), link, status)
        if rewritten:
            self._steps.write(found, held, file, mode)
            if self._has_other_attributes(found, lower):
                self._steps.attribute(found, held, file)

    # Steps.

    def _metadata(
        self, found: Found, kind: Kind, status: os.stat_result, digest: str | None, *, attributes: bool = False
    ) -> None:
        """The same bytes, perhaps with another mode or time, or other attributes."""
        mode = self._kept_mode(found, status.st_mode)
        old = stat.S_IMODE(status.st_mode)
        if not attributes:
            self._work.dropped.append(found.path)
        if status.st_nlink > 1:
            if status.st_ino in self._steps.written:
                return
            self._steps.written.add(status.st_ino)
        same = mode == old and found.status.st_mtime_ns == status.st_mtime_ns
        if same and not attributes:
            return
        self._shares(found.path, status)
        size = found.status.st_size if kind == "file" else 0
        self._work.effects.append(
            Effect(found.path, "metadata", kind_of(status.st_mode), size, mode, old, before=digest, after=digest)
        )
        if attributes:
            self._steps.attribute(found, self._held(found.path), status)
        if same:
            return
        self._steps.makes.append(
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
        directory, old = self._directories[path], stat.S_IMODE(status.st_mode)
        mode = old if directory.lower is None else self._mode_after(found, directory.lower, status)
        others = directory.lower is not None and self._has_other_attributes(found, directory.lower)
        if mode != old or others:
            if directory.lower is not None:
                self._survey.check(directory.lower, status)
            self._work.effects.append(Effect(path, "metadata", "directory", mode=mode, before_mode=old))
            self._steps.meta(path, status, mode)
        if others:
            self._steps.attribute(found, directory.held, status)

    def _displaced(self, path: bytes, own: bytes | None) -> None:
        """What a moved directory took the place of."""
        status = self._at(own)
        if own is not None and status is not None:
            self._steps.take(own, status, path)
            names = len(self._whole(own, status))
            self._work.effects.append(Effect(path, "deleted", kind_of(status.st_mode), below=names))

    def _finish(self) -> Plan:
        work = self._work
        removed = bool(self._origins.gone) or any(step.guarded for step in (*self._steps.takes, *self._steps.makes))
        if work.lost and not removed:
            raise conflict(work.lost[0], "was moved or removed by another program")
        effects = counted([each for each in work.effects if each.change != "deleted" or each.path not in self._sources])
        return Plan(
            effects=tuple(sorted(effects, key=lambda each: each.path)),
            steps=tuple(self._steps.ordered(self._directories, self._origins)),
            adopted=tuple(self._steps.adopted),
            aside=tuple(work.aside),
            dropped=tuple(work.dropped),
            left_out=tuple(dict.fromkeys(work.left_out)),
            touched=tuple(self._touched),
            shared=tuple(work.shared),
        )
