"""Where new bytes wait, and old ones are kept, while a transaction is made: a private directory in the workspace, so
that every name changes hands by a rename (rename(2)) and never by a copy.

    new      the upper directory; moved here where it is on the same file system, else copied
    apart    what is in directories that moved, taken out of `new`
    links    further names of files
    old      what was taken away, and the old bytes of what is written in place
    journal  the steps, once all of the above is ready: without it nothing has been changed
    made     there when all steps were made, and nobody else had come between
"""

import errno
import json
import os
import stat
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import asdict, fields, replace
from typing import Any, Final, Self

from stockade_daemon.gate import syscalls
from stockade_daemon.gate.effects.tree import Tree, named, open_to_us
from stockade_daemon.gate.effects.upper import Found
from stockade_daemon.gate.effects.values import APART, LINKS, NEW, OLD, Facts, Made, Plan, Step
from stockade_daemon.gate.extents import extents, write_at
from stockade_daemon.gate.temporary import PREFIX
from stockade_daemon.removing import remove_tree

_JOURNAL: Final = b"journal"
_MADE: Final = b"made"
_CHUNK: Final = 1 << 20
_READ: Final = os.O_RDONLY | os.O_NONBLOCK | os.O_NOFOLLOW | os.O_CLOEXEC
_FIELDS: Final = tuple(each.name for each in fields(Step))
_NOT_RENAMED: Final = (errno.EXDEV, errno.EPERM, errno.EACCES)


class Area:
    """One transaction's directory. Whoever opens it closes it; `remove` ends it on the disk."""

    def __init__(self, workspace: int, name: bytes, descriptor: int) -> None:
        self._workspace = workspace
        self._name = name
        self._descriptor = descriptor
        self.tree = Tree(descriptor)
        self.stays = False  # what is in it is needed still: it is not to be removed

    @classmethod
    def make(cls, workspace: int, name: bytes) -> Self:
        """A new one, in the workspace's root. Raises OSError."""
        os.mkdir(name, 0o700, dir_fd=workspace)
        area = cls.find(workspace, name)
        assert area is not None
        for each in (APART, LINKS, OLD):
            os.mkdir(each, 0o700, dir_fd=area._descriptor)
        return area

    @classmethod
    def find(cls, workspace: int, name: bytes) -> Self | None:
        """The one that an earlier daemon made; None where there is none. Raises OSError; ValueError for a name that is
        none of ours."""
        if not name.startswith(PREFIX.encode()) or b"/" in name:
            raise ValueError(f"{name!r} is no private name")
        try:
            descriptor = os.open(name, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=workspace)
        except (FileNotFoundError, NotADirectoryError):
            return None
        if os.fstat(descriptor).st_uid != os.geteuid():
            os.close(descriptor)
            return None
        return cls(workspace, name, descriptor)

    def adopt(self, found: list[Found], plan: Plan, made: Made) -> None:
        """Brings the new bytes here and makes them what they are going to be. Raises OSError."""
        try:
            os.rename(made.upper, NEW, dst_dir_fd=self._descriptor)
        except OSError as error:
            if error.errno not in _NOT_RENAMED:
                raise
            _Copy(made, self._descriptor).run(found, frozenset(plan.dropped))
        if os.geteuid() != 0:
            self._enter(found)
        for path in plan.dropped:
            directory, name = self.tree.at(NEW + b"/" + path)
            with suppress(FileNotFoundError):
                os.unlink(name, dir_fd=directory)
        for each in plan.adopted:
            directory, name = self.tree.at(NEW + b"/" + each.held)
            if each.marked:
                with open_to_us(directory, name):
                    _unmark(named(directory, name), made.marks)
            if each.owner is not None:
                os.chown(name, *each.owner, dir_fd=directory, follow_symlinks=False)
            if each.mode is not None:
                os.chmod(named(directory, name), each.mode)
        for source, target in plan.aside:
            (directory, name), (into, other) = self.tree.at(source), self.tree.at(target)
            os.rename(name, other, src_dir_fd=directory, dst_dir_fd=into)
            self.tree.forget()

    def _enter(self, found: Iterable[Found]) -> None:
        """Has names be taken out of directories that the command has closed; what they become, steps say."""
        for each in found:
            mode = stat.S_IMODE(each.status.st_mode)
            if each.directory and mode & 0o700 != 0o700:
                directory, name = self.tree.at(NEW + b"/" + each.path if each.path else NEW)
                os.chmod(name, mode | 0o700, dir_fd=directory)

    def ready(self, steps: Iterable[Step], *, power: bool) -> list[Step]:
        """Records the steps; from now on they can be taken up by whoever finds them. Raises OSError.

        `power`: what waits here survives a power cut, too.
        """
        final: list[Step] = []
        swaps = self._can_exchange()
        for step in steps:
            status = self.tree.status(step.held) if step.do in ("put", "swap") else None
            known = replace(step, inode=status.st_ino) if status is not None else step
            if known.do == "swap" and not swaps:
                kept = b"%s/s%d" % (OLD, len(final))
                final.append(replace(known, do="take", held=kept))
                known = replace(known, do="put", expected=None, guarded=False)
            final.append(known)
        text = json.dumps([_to_json(step) for step in final]).encode()
        draft = os.open(b"draft", os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600, dir_fd=self._descriptor)
        with open(draft, "wb") as file:
            file.write(text)
            file.flush()
            if power:
                syscalls.syncfs(draft)
        os.rename(b"draft", _JOURNAL, src_dir_fd=self._descriptor, dst_dir_fd=self._descriptor)
        if power:
            os.fsync(self._descriptor)
        return final

    def mark_made(self) -> None:
        """The transaction is made, and stays: whoever finds it takes nothing back any more. Raises OSError."""
        os.close(os.open(_MADE, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600, dir_fd=self._descriptor))

    def unmark_made(self) -> None:
        """It is going to be taken back after all. Nothing where it was not marked. Raises OSError."""
        with suppress(FileNotFoundError):
            os.unlink(_MADE, dir_fd=self._descriptor)

    def sync(self) -> None:
        """What the area says of itself survives a power cut. Raises OSError."""
        os.fsync(self._descriptor)

    def sync_all(self) -> None:
        """So does all that has been written to its file system. Raises OSError."""
        syscalls.syncfs(self._descriptor)

    def is_made(self) -> bool:
        """Whether `mark_made` was called. Raises OSError."""
        return self.tree.status(_MADE) is not None

    def steps(self) -> list[Step] | None:
        """The recorded steps, and None where it never came to that. Raises OSError; ValueError where they are none."""
        try:
            descriptor = os.open(_JOURNAL, _READ, dir_fd=self._descriptor)
        except FileNotFoundError:
            return None
        with open(descriptor, "rb") as file:
            return [_from_json(each) for each in json.loads(file.read())]

    @property
    def began_ns(self) -> int:
        """When the steps were recorded, by the file system's clock. Raises OSError."""
        return os.stat(_JOURNAL, dir_fd=self._descriptor, follow_symlinks=False).st_mtime_ns

    @property
    def name(self) -> str:
        """As it is called in the workspace's root."""
        return os.fsdecode(self._name)

    def keep(self) -> str:
        """Gives it a name that people see and nobody removes, because what is in it could not be put back; the name.

        Raises OSError, and then it is what it was.
        """
        kept = _kept(self._name)
        os.rename(self._name, kept, src_dir_fd=self._workspace, dst_dir_fd=self._workspace)
        self.close()
        return kept.decode()

    @staticmethod
    def is_there(workspace: int, name: bytes) -> bool:
        """Whether one of ours has this name. Raises OSError."""
        try:
            status = os.stat(name, dir_fd=workspace, follow_symlinks=False)
        except FileNotFoundError:
            return False
        return stat.S_ISDIR(status.st_mode) and status.st_uid == os.geteuid()

    @classmethod
    def was_kept(cls, workspace: int, name: bytes) -> bool:
        """Whether `keep` gave it its other name, by which it still lies there. Raises OSError."""
        return cls.is_there(workspace, _kept(name))

    def close(self) -> None:
        """Lets go of it. Safe to repeat."""
        self.tree.forget()
        if self._descriptor >= 0:
            os.close(self._descriptor)
            self._descriptor = -1

    def remove(self) -> None:
        """Removes it with all that is in it; nothing where it was given another name. Raises OSError."""
        if self._descriptor >= 0:
            with suppress(FileNotFoundError):
                # First, so that what is half removed is not taken for what is half done.
                os.rename(_JOURNAL, b"over", src_dir_fd=self._descriptor, dst_dir_fd=self._descriptor)
        self.close()
        remove_tree(self._name, dir_fd=self._workspace)

    def _can_exchange(self) -> bool:
        try:
            syscalls.renameat2(self._descriptor, OLD, LINKS, syscalls.RENAME_EXCHANGE)
        except OSError:
            return False
        syscalls.renameat2(self._descriptor, OLD, LINKS, syscalls.RENAME_EXCHANGE)
        return True


class _Copy:
    """An upper directory, copied to another file system: bytes, holes, modes, times, links, attributes."""

    def __init__(self, made: Made, area: int) -> None:
        self._made = made
        self._area = area
        self._first: dict[int, bytes] = {}  # inode → where it was copied to

    def run(self, found: Iterable[Found], dropped: frozenset[bytes]) -> None:
        source = os.open(self._made.upper, os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            with Tree(source) as upper, Tree(self._area) as area:
                for each in found:
                    if not each.whiteout and each.path not in dropped:
                        self._one(upper, area, each)
        finally:
            os.close(source)

    def _one(self, upper: Tree, area: Tree, found: Found) -> None:
        target = NEW + b"/" + found.path if found.path else NEW
        (directory, name), (into, other) = upper.at(found.path), area.at(target)
        mode = found.status.st_mode
        if stat.S_ISDIR(mode):
            os.mkdir(other, 0o700, dir_fd=into)
        elif found.status.st_nlink > 1 and found.status.st_ino in self._first:
            first_directory, first = area.at(self._first[found.status.st_ino])
            os.link(first, other, src_dir_fd=first_directory, dst_dir_fd=into, follow_symlinks=False)
            return
        elif stat.S_ISREG(mode):
            with open_to_us(directory, name):
                copy_file((directory, name), (into, other))
        elif stat.S_ISLNK(mode):
            os.symlink(os.readlink(name, dir_fd=directory), other, dir_fd=into)
        elif stat.S_ISFIFO(mode):
            os.mkfifo(other, 0o600, dir_fd=into)
        else:
            return
        self._first[found.status.st_ino] = target
        for attribute in os.listxattr(named(directory, name), follow_symlinks=False):
            if not attribute.startswith(("trusted.overlay.", "security.")):
                with open_to_us(directory, name):
                    value = os.getxattr(named(directory, name), attribute, follow_symlinks=False)
                os.setxattr(named(into, other), attribute, value, follow_symlinks=False)
        if not stat.S_ISLNK(mode):
            os.chmod(named(into, other), stat.S_IMODE(mode) | (0o700 if stat.S_ISDIR(mode) else 0))
        if not stat.S_ISDIR(mode):
            times = (found.status.st_atime_ns, found.status.st_mtime_ns)
            os.utime(other, ns=times, dir_fd=into, follow_symlinks=False)


def _kept(name: bytes) -> bytes:
    return b"stockade-kept-" + name.removeprefix(PREFIX.encode())


def copy_file(source: tuple[int, bytes], target: tuple[int, bytes]) -> None:
    """A new file, private, with the bytes of another one; its holes stay holes (lseek(2)). Raises OSError."""
    reading = os.open(source[1], _READ, dir_fd=source[0])
    try:
        writing = os.open(target[1], os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600, dir_fd=target[0])
        try:
            copy_bytes(reading, writing)
        finally:
            os.close(writing)
    finally:
        os.close(reading)


def copy_bytes(reading: int, writing: int) -> None:
    """Makes the bytes of one open file those of another, also where it was longer. Raises OSError."""
    size = os.fstat(reading).st_size
    if os.fstat(writing).st_size:
        at = 0
        while chunk := os.pread(reading, _CHUNK, at):
            at += write_at(writing, chunk, at)
        os.ftruncate(writing, at)
        return
    os.ftruncate(writing, size)
    for begin, end in extents(reading, size):
        at = begin
        while at < end and (chunk := os.pread(reading, min(_CHUNK, end - at), at)):
            at += write_at(writing, chunk, at)


def _unmark(place: bytes, marks: str) -> None:
    """Takes the overlay's attributes away; also what a body had set under such a name, which the overlay of the next
    command would take for its own: a file would be gone for it that everybody else sees."""
    for name in os.listxattr(place, follow_symlinks=False):
        if name.startswith(marks):
            os.removexattr(place, name, follow_symlinks=False)


def _to_json(step: Step) -> dict[str, Any]:
    # Not by `asdict`, which copies every field deeply: a third of the time that a commit of many files took.
    body = {name: getattr(step, name) for name in _FIELDS}
    for key in ("path", "held", "kept"):
        body[key] = os.fsdecode(body[key])
    if step.expected is not None:
        body["expected"] = asdict(step.expected)
    return body


def _from_json(body: Any) -> Step:
    try:
        found = dict(body)
        for key in ("path", "held", "kept"):
            found[key] = os.fsencode(found[key])
        if found["expected"] is not None:
            found["expected"] = Facts(**found["expected"])
        for key in ("before", "after"):
            first, second = found[key]
            found[key] = int(first), int(second)
        return Step(**found)
    except (TypeError, KeyError, ValueError) as error:
        raise ValueError(f"a journal holds what is no step: {error}") from error
