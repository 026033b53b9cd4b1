"""The steps of a transaction: how each is made, found done, and taken back.

A rename that took the wrong thing is seen afterwards, by what was displaced, and everything is taken back: there is no
moment between the last look and the change in which another program's work could be lost.
"""

import os
import stat
from dataclasses import dataclass, field
from typing import Final

from stockade_daemon.gate import syscalls
from stockade_daemon.gate.effects import attributes
from stockade_daemon.gate.effects.area import Area, copy_bytes, copy_file
from stockade_daemon.gate.effects.survey import conflict, facts
from stockade_daemon.gate.effects.tree import Tree
from stockade_daemon.gate.effects.values import Step, above_of

_FILE: Final = os.O_NONBLOCK | os.O_NOFOLLOW | os.O_CLOEXEC
_PATH: Final = os.O_PATH | os.O_NOFOLLOW | os.O_CLOEXEC
_CHUNK: Final = 1 << 20


@dataclass(frozen=True, slots=True)
class Stage:
    """Where steps are made."""

    workspace: Tree
    area: Area
    ours: set[int]  # inodes that the steps change, of which a new ctime tells nothing
    power: bool = False  # old bytes are synced before they are written over
    _changed: set[int] = field(init=False, default_factory=set)  # inodes that have other bytes, modes or times by now

    def passes(self, step: Step) -> None:
        """Notes which directory a step changes, when it is the step's turn: made or taken back. Raises OSError."""
        directory = self.workspace.status(above_of(step.path))
        if directory is not None:
            self.ours.add(directory.st_ino)

    def make(self, step: Step) -> None:
        """Makes one step. Raises GateRefusal FS_CONFLICT, and then it was not made or can be taken back; OSError."""
        self.passes(step)
        match step.do:
            case "link":
                (directory, name), (into, other) = self.workspace.at(step.path), self.area.tree.at(step.held)
                os.link(name, other, src_dir_fd=directory, dst_dir_fd=into, follow_symlinks=False)
                status = self.area.tree.status(step.held)
                if status is None or status.st_ino != step.inode:
                    raise conflict(step.path, "was replaced by another program")
            case "take":
                self._expect(step)
                self._move(self.workspace, step.path, self.area.tree, step.held, syscalls.RENAME_NOREPLACE)
                self.displaced(step)
            case "put":
                try:
                    self._move(self.area.tree, step.held, self.workspace, step.path, syscalls.RENAME_NOREPLACE)
                except FileExistsError:
                    raise conflict(step.path, "was made by another program") from None
            case "swap":
                self._expect(step)
                self._move(self.area.tree, step.held, self.workspace, step.path, syscalls.RENAME_EXCHANGE)
                self.displaced(step)
            case "write":
                self._write(step)
            case "attributes":
                self._attributes(step)
            case "meta":
                self._meta(step, step.before, step.after)
        if step.tree:
            self.workspace.forget()
            self.area.tree.forget()

    def displaced(self, step: Step) -> None:
        """Whether what a step took away is what it was to take. Raises GateRefusal FS_CONFLICT."""
        if not self._is_expected(step, self.area.tree.status(step.held)):
            raise conflict(step.path, "was changed by another program")

    def _is_expected(self, step: Step, status: os.stat_result | None) -> bool:
        if status is not None and step.expected is not None and status.st_ino in self._changed:
            return status.st_ino == step.expected.inode  # by ourselves, under another of its names
        return status is not None and facts(status) == step.expected

    def is_done(self, step: Step) -> bool:
        """Whether the disk says that a step was made. Raises OSError."""
        there = self.area.tree.status(step.held) if step.held else None
        match step.do:
            case "link" | "take":
                return there is not None
            case "put":
                return there is None and self._stands(step)
            case "swap":
                return there is not None and there.st_ino != step.inode
            case "write" | "attributes":
                return self.area.tree.status(step.kept) is not None
            case _:
                status = self.workspace.status(step.path)
                return status is not None and stat.S_IMODE(status.st_mode) == step.after[0]

    def take_back(self, step: Step) -> bool:
        """Undoes a step that was made; False where something of somebody else's is in the way, which stays then.

        Raises OSError.
        """
        try:
            match step.do:
                case "link":
                    directory, name = self.area.tree.at(step.held)
                    os.unlink(name, dir_fd=directory)
                case "take":
                    try:
                        self._move(self.area.tree, step.held, self.workspace, step.path, syscalls.RENAME_NOREPLACE)
                    except FileExistsError:
                        return False
                case "put" | "swap":
                    if not self._stands(step):
                        return step.do == "swap"  # saved over by somebody, who would have saved over the old one
                    if step.tree and self._has_guests(step):
                        return False
                    flags = syscalls.RENAME_NOREPLACE if step.do == "put" else syscalls.RENAME_EXCHANGE
                    self._move(self.workspace, step.path, self.area.tree, step.held, flags)
                case "write":
                    return self._write_back(step)
                case "attributes":
                    self._set_attributes(step, step.kept)
                case "meta":
                    self._meta(step, step.after, step.before, strict=False)
            return True
        finally:
            if step.tree:
                self.workspace.forget()
                self.area.tree.forget()

    def _expect(self, step: Step) -> None:
        if not self._is_expected(step, self.workspace.status(step.path)):
            raise conflict(step.path, "was changed by another program")

    def _stands(self, step: Step) -> bool:
        status = self.workspace.status(step.path)
        return status is not None and status.st_ino == step.inode

    def _has_guests(self, step: Step) -> bool:
        """Whether somebody has changed something in a new directory since it got its name."""
        since = self.area.began_ns
        status = self.workspace.status(step.path)
        return (
            status is not None
            and stat.S_ISDIR(status.st_mode)
            and any(
                each is None or (each.st_ctime_ns > since and each.st_ino not in self.ours)
                for _, each in self.workspace.below(step.path)
            )
        )

    def _move(self, source: Tree, path: bytes, target: Tree, other: bytes, flags: int) -> None:
        (directory, name), (into, new) = source.at(path), target.at(other)
        syscalls.renameat2(directory, name, new, flags, into=into)

    def _write(self, step: Step) -> None:
        """New bytes into the file itself, for the sake of its other names; its own are kept first, whole."""
        directory, name = self.workspace.at(step.path)
        into, kept = self.area.tree.at(step.kept)
        draft = kept + b".draft"
        copy_file((directory, name), (into, draft))
        self._expect(step)
        if self.power:
            descriptor = os.open(draft, os.O_RDONLY | os.O_CLOEXEC, dir_fd=into)
            try:
                os.fsync(descriptor)
            finally:
                os.close(descriptor)
        os.rename(draft, kept, src_dir_fd=into, dst_dir_fd=into)
        self._changed.add(step.inode)
        self._pour(self.area.tree.at(step.held), (directory, name), step)

    def _pour(self, source: tuple[int, bytes], target: tuple[int, bytes], step: Step) -> None:
        reading = os.open(source[1], os.O_RDONLY | _FILE, dir_fd=source[0])
        try:
            writing = os.open(target[1], os.O_RDWR | _FILE, dir_fd=target[0])
            try:
                if os.fstat(writing).st_ino != step.inode:
                    raise conflict(step.path, "was replaced by another program")
                copy_bytes(reading, writing)
                mode = stat.S_IMODE(os.fstat(writing).st_mode)
                status = os.fstat(reading)
                if mode != step.before[0]:
                    os.fchmod(writing, step.before[0])  # writing clears set-id bits (write(2))
                os.utime(writing, ns=(status.st_atime_ns, status.st_mtime_ns))
            finally:
                os.close(writing)
        finally:
            os.close(reading)

    def _write_back(self, step: Step) -> bool:
        """The old bytes again, where what stands there is the new ones, or a beginning of them over the old."""
        target, kept = self.workspace.at(step.path), self.area.tree.at(step.kept)
        with _Reading(target) as now, _Reading(self.area.tree.at(step.held)) as new, _Reading(kept) as old:
            if os.fstat(now.descriptor).st_ino != step.inode or not _mixed(now, new, old):
                return False
        self._pour(kept, target, step)
        if step.expected is not None:
            directory, name = target
            os.utime(name, ns=(step.expected.mtime_ns, step.expected.mtime_ns), dir_fd=directory, follow_symlinks=False)
        return True

    def _attributes(self, step: Step) -> None:
        attributes.keep(self.workspace.at(step.path), self.area.tree.at(step.kept))
        self._set_attributes(step, step.held)

    def _set_attributes(self, step: Step, source: bytes) -> None:
        directory, name = self.workspace.at(step.path)
        descriptor = os.open(name, _PATH, dir_fd=directory)
        try:
            if os.fstat(descriptor).st_ino != step.inode:
                raise conflict(step.path, "was replaced by another program")
            attributes.replace(descriptor, self.area.tree.at(source))
        finally:
            os.close(descriptor)

    def _meta(self, step: Step, before: tuple[int, int], after: tuple[int, int], *, strict: bool = True) -> None:
        directory, name = self.workspace.at(step.path)
        descriptor = os.open(name, _PATH, dir_fd=directory)
        try:
            status = os.fstat(descriptor)
            if step.inode and status.st_ino != step.inode:
                if strict:
                    raise conflict(step.path, "was replaced by another program")
                return
            self._changed.add(status.st_ino)
            # What somebody else set meanwhile stays as he set it.
            if stat.S_IMODE(status.st_mode) == before[0] != after[0]:
                os.chmod(f"/proc/self/fd/{descriptor}", after[0])
            if after[1] and status.st_mtime_ns == before[1]:
                os.utime(f"/proc/self/fd/{descriptor}", ns=(status.st_atime_ns, after[1]))
        finally:
            os.close(descriptor)


def touched(steps: list[Step]) -> set[int]:
    """The inodes that steps rename, write to or give another name."""
    return {step.inode for step in steps} | {step.expected.inode for step in steps if step.expected is not None}


class _Reading:
    """A file to be read. A context manager."""

    def __init__(self, place: tuple[int, bytes]) -> None:
        self.descriptor = os.open(place[1], os.O_RDONLY | _FILE, dir_fd=place[0])

    def __enter__(self) -> "_Reading":
        return self

    def __exit__(self, *_: object) -> None:
        os.close(self.descriptor)


def _mixed(now: _Reading, new: _Reading, old: _Reading) -> bool:
    """Whether a file holds the new bytes up to some place, and the old ones from there."""
    at, turned = 0, False
    while True:
        present, ours, theirs = (os.pread(each.descriptor, _CHUNK, at) for each in (now, new, old))
        if not turned and present == ours[: len(present)] and len(present) == len(ours):
            if not present:
                return True
        elif not turned:
            same = next((i for i, (a, b) in enumerate(zip(present, ours, strict=False)) if a != b), None)
            border = min(len(present), len(ours)) if same is None else same
            if present[border:] != theirs[border : len(present)] or len(present) not in (len(theirs), len(ours)):
                return False
            turned = True
        elif present != theirs:
            return False
        if not present:
            return True
        at += len(present)
