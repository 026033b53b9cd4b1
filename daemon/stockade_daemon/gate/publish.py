"""The one commit routine: how decided bytes get their name, atomically, and how nothing else is lost on the way.

A new file is made without a name and linked exclusively: whatever appeared there meanwhile survives. A replacement is
exchanged with the file it replaces (renameat2(2), RENAME_EXCHANGE) and then the displaced file is looked at: if it is
not the one that was decided about, it is put back. So a program that saves the file at the last moment loses nothing.
A file with several names, or with an owner that a new file could not have, is written in place; its old bytes lie
beside it, synced, until the new ones are.
"""

import errno
import os
import stat
from collections.abc import Callable
from contextlib import ExitStack, suppress
from dataclasses import dataclass
from typing import Final, Literal, TypeAlias, TypeVar

from stockade_daemon.errors import GateRefusal
from stockade_daemon.gate import attributes, syscalls
from stockade_daemon.gate.content import Snapshot, take, take_open, write_all
from stockade_daemon.gate.intents import Planned
from stockade_daemon.gate.names import shown
from stockade_daemon.gate.paths import Resolved, resolve
from stockade_daemon.gate.refusals import Moved, changed, moved, os_errors, stale
from stockade_daemon.gate.temporary import Temporary, temporary
from stockade_daemon.gate.workspace import Workspace
from stockade_daemon.values import Json

Method: TypeAlias = Literal["create", "replace", "in place", "none"]

_LOOKS: Final = 32  # at a path that keeps changing under our eyes, before we say so

T = TypeVar("T")


def settled(look: Callable[[], T], path: bytes) -> T:
    """The result of a look at `path` that nothing disturbed. Raises GateRefusal FS_CONFLICT where none ends so."""
    for _ in range(_LOOKS):
        try:
            return look()
        except Moved:
            continue
    raise GateRefusal(
        "FS_CONFLICT",
        f"{shown(path)} keeps changing while it is looked at. "
        "Wait until the other program is done, then repeat the call.",
    )


def method_for(status: os.stat_result | None) -> Method:
    """How a file with this status gets new bytes; None: there is no file."""
    if status is None:
        return "create"
    return "replace" if status.st_nlink == 1 and attributes.can_keep_owner(status) else "in place"


def recheck(place: Resolved, planned: Planned) -> Snapshot | None:
    """The file that `planned` was decided about, still with the same bytes. Raises GateRefusal; Moved."""
    if place.real != planned.real:
        raise moved(place.asked, place.real, planned.real)
    if not attributes.takes_names(place.parent):
        raise closed(place.asked, place.parent)
    if planned.before is None:
        if place.status is not None:
            raise stale(place.asked, "has appeared since this was decided")
        return None
    if place.status is None:
        raise stale(place.asked, "has vanished since this was decided")
    disk = take(place)
    if disk.digest != planned.before:
        raise changed(place.asked, planned.before, disk.digest)
    if planned.links == 1 and disk.status.st_nlink > 1:
        raise stale(place.asked, "has become one of several names of a file since this was decided")
    if not attributes.writable(place.parent, place.name, disk.status):
        raise read_only(place.asked, disk.status)
    return disk


@dataclass(frozen=True, slots=True)
class Facts:
    """What the last look before `begun` found."""

    method: Method
    status: os.stat_result  # of the file; of its directory where there is no file yet
    directories: int  # to be made

    def body(self, planned: Planned, name: bytes) -> dict[str, Json]:
        """The body of `fs/begun`, for recovery.py; `name` is the private one."""
        return planned.body() | {
            "method": self.method,
            "temporary": name.decode(),
            "directories": self.directories,
            "inode": self.status.st_ino,
        }


def closed(path: bytes, directory: int) -> GateRefusal:
    """Of a file in a directory where no name can be made: every new content begins as a file beside the old one."""
    mode = stat.S_IMODE(os.fstat(directory).st_mode)
    return GateRefusal(
        "FS_PERMISSION_DENIED",
        f"{shown(path)} may not be written: its directory takes no new names (mode {mode:04o}). "
        "Make the directory writable first, or choose another one.",
    )


def read_only(path: bytes, status: os.stat_result) -> GateRefusal:
    return GateRefusal(
        "FS_PERMISSION_DENIED",
        f"{shown(path)} may not be written (mode {stat.S_IMODE(status.st_mode):04o}). "
        "Make the file writable first, or leave it as it is.",
    )


def publish(workspace: Workspace, planned: Planned, method: Method, name: bytes) -> str:
    """Makes `planned` the truth on the disk; returns what went otherwise than wished, one clause, mostly empty.

    `name` is the private name that may be used beside the file. Raises GateRefusal, and then the old bytes stand.
    """

    def attempt() -> str:
        with resolve(workspace, planned.asked) as place:
            disk = recheck(place, planned)
            if method == "none":
                return ""
            if method_for(disk.status if disk else None) != method:
                raise stale(place.asked, "gained or lost a hard link, or an owner, since this was decided")
            with os_errors("write", place.asked):
                try:
                    if disk is None:
                        happened = _create(workspace, place, planned, name)
                    elif method == "in place":
                        happened = _in_place(workspace, place, planned, disk, name)
                    else:
                        happened = _replace(workspace, place, planned, disk, name)
                except FileNotFoundError as error:
                    raise Moved from error  # the file, or a directory above it, has gone meanwhile
            if not _leads_here(workspace, place):
                happened = _join(happened, "its directory was moved or removed right afterwards")
            return happened

    return settled(attempt, planned.asked)


def _create(workspace: Workspace, place: Resolved, planned: Planned, name: bytes) -> str:
    with ExitStack() as opened, ExitStack() as undo:
        parent = place.parent
        for part in place.missing:
            try:
                os.mkdir(part, 0o700, dir_fd=parent)
            except FileExistsError as error:
                raise Moved from error
            undo.callback(_remove_empty, parent, part)
            above = parent
            flags = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
            parent = os.open(part, flags, dir_fd=above)
            opened.callback(os.close, parent)
            attributes.like_directory(above, parent, attributes.new_mode(0o777) | _group_bit(above))
            _sync_directory(above)
        with temporary(parent, name) as new:
            write_all(new.descriptor, planned.content)
            attributes.like_directory(parent, new.descriptor, attributes.new_mode(0o666))
            os.fsync(new.descriptor)
            _stay(workspace, place)
            try:
                new.publish_as(place.name)
            except FileExistsError as error:
                raise Moved from error  # the next look says what has appeared
            undo.pop_all()
            return _join(_standing(parent, place.name, new), _synced(parent))


def _replace(workspace: Workspace, place: Resolved, planned: Planned, old: Snapshot, name: bytes) -> str:
    with temporary(place.parent, name) as new:
        write_all(new.descriptor, planned.content)
        source = os.open(place.name, os.O_RDONLY | os.O_NONBLOCK | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=place.parent)
        try:
            if not _same_file(os.fstat(source), old.status):
                raise Moved
            lost = attributes.carry(source, old.status, new.descriptor)
        finally:
            os.close(source)
        os.fsync(new.descriptor)
        _stay(workspace, place)
        new.appear()
        try:
            syscalls.renameat2(place.parent, name, place.name, syscalls.RENAME_EXCHANGE)
        except OSError as error:
            if error.errno not in (errno.EINVAL, errno.ENOSYS):
                raise
            _rename_over(place, old, new, name)
        else:
            _settle_exchange(place, old, new, name)
        # From here on the private name, where there still is one, is the old file's: closing removes it.
        return _join(_standing(place.parent, place.name, new), _lost(lost), _synced(place.parent))


def _settle_exchange(place: Resolved, old: Snapshot, new: Temporary, name: bytes) -> None:
    """After an exchange: accepts it, or puts back what it displaced and raises Moved.

    While we put it back, somebody may again have replaced what stood there; theirs is then the newest, and goes where
    it belongs by the next exchange.
    """
    if _is_decided(place.parent, name, old):
        return
    ours = _identity(os.fstat(new.descriptor))
    put, holding = ours, _identity(os.stat(name, dir_fd=place.parent, follow_symlinks=False))
    for _ in range(_LOOKS):
        try:
            syscalls.renameat2(place.parent, name, place.name, syscalls.RENAME_EXCHANGE)
        except FileNotFoundError:
            # Somebody removed ours: what was displaced comes back under its name, unless there is a new one again.
            with suppress(OSError):
                syscalls.renameat2(place.parent, name, place.name, syscalls.RENAME_NOREPLACE)
                new.keep()
                raise Moved from None
            continue
        displaced = _identity(os.stat(name, dir_fd=place.parent, follow_symlinks=False))
        if displaced == put:
            raise Moved
        put, holding = holding, displaced
    new.keep()
    raise GateRefusal(
        "FS_CONFLICT",
        f"{shown(place.asked)} is being replaced by another program without pause; "
        f"one of its versions was left as {shown(name)} beside it. Stop the other program, then look at both.",
    )


def _rename_over(place: Resolved, old: Snapshot, new: Temporary, name: bytes) -> None:
    """Where the file system cannot exchange: one more look, then a rename. What is saved in between is lost."""
    if not _is_decided(place.parent, place.name, old):
        raise Moved
    os.rename(name, place.name, src_dir_fd=place.parent, dst_dir_fd=place.parent)
    new.keep()


def _in_place(workspace: Workspace, place: Resolved, planned: Planned, old: Snapshot, name: bytes) -> str:
    with temporary(place.parent, name, named=True) as journal:
        # Old and new: only with both can a recovery tell our own half-done write from what somebody wrote since.
        write_all(journal.descriptor, old.content + planned.content)
        os.fsync(journal.descriptor)
        _sync_directory(place.parent)
        target = os.open(place.name, os.O_RDWR | os.O_NONBLOCK | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=place.parent)
        try:
            present = take_open(target, place.asked)
            if not _same_file(present.status, old.status) or present.digest != old.digest:
                raise Moved
            _stay(workspace, place)
            try:
                overwrite(target, planned.content, old.status)
            except BaseException as error:
                try:
                    overwrite(target, old.content, old.status)
                except OSError:
                    os.ftruncate(journal.descriptor, len(old.content))
                    journal.keep()
                    raise GateRefusal(
                        "FS_IO_ERROR",
                        f"{shown(place.asked)} could be written only in part, and not put back; its old bytes "
                        f"are in {shown(name)} beside it. Copy them back when the disk is well again.",
                    ) from error
                raise
            if take_open(target, place.asked).digest != planned.after:
                return "another program wrote to the file at the same time"
        finally:
            os.close(target)
    return _join(_lost(attributes.lost_bits(old.status)), _synced(place.parent))


def overwrite(target: int, content: bytes, status: os.stat_result) -> None:
    """Makes `content` all of an open file's bytes, synced, and keeps its mode. Raises OSError."""
    write_all(target, content)
    os.ftruncate(target, len(content))
    # Writing clears the set-id bits of a file (write(2)), also where the one that writes is root. The other bits are as
    # they are now: somebody may have changed them meanwhile.
    present = stat.S_IMODE(os.fstat(target).st_mode)
    set_id = stat.S_ISUID | stat.S_ISGID
    wanted = (present & ~set_id) | (attributes.kept_mode(status) & set_id)
    if present != wanted:
        os.fchmod(target, wanted)
    os.fsync(target)


def _stay(workspace: Workspace, place: Resolved) -> None:
    """Raises Moved where the path has come to lead elsewhere: a directory above it may have been moved out of the
    workspace, and the descriptor of it goes wherever it goes."""
    if not _leads_here(workspace, place):
        raise Moved


def _leads_here(workspace: Workspace, place: Resolved) -> bool:
    """Whether the directory that `place` was found in is still where it was."""
    above = place.real.split(b"/")[: -1 - len(place.missing)]
    if not above:
        return True
    try:
        with resolve(workspace, b"/".join(above)) as present:
            found = os.fstat(present.parent) if present.name == b"." else present.status
            return found is not None and _identity(found) == _identity(os.fstat(place.parent))
    except (GateRefusal, Moved):
        return False


def _standing(parent: int, name: bytes, new: Temporary) -> str:
    """Looks whether what stands under the name now is ours."""
    try:
        status = os.stat(name, dir_fd=parent, follow_symlinks=False)
    except FileNotFoundError:
        return "another program removed the file right afterwards"
    if _identity(status) != _identity(os.fstat(new.descriptor)):
        return "another program replaced the file right afterwards"
    return ""


def _is_decided(parent: int, name: bytes, old: Snapshot) -> bool:
    """Whether `name` is the very file that was decided about: same inode, owner and mode, same bytes."""
    try:
        descriptor = os.open(name, os.O_RDONLY | os.O_NONBLOCK | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=parent)
    except OSError:
        return False
    try:
        present = take_open(descriptor, name)
    except GateRefusal:
        return False
    finally:
        os.close(descriptor)
    return _same_file(present.status, old.status) and present.digest == old.digest


def _same_file(one: os.stat_result, other: os.stat_result) -> bool:
    def facts(status: os.stat_result) -> tuple[int, ...]:
        return (*_identity(status), status.st_mode, status.st_uid, status.st_gid)

    return facts(one) == facts(other)


def _identity(status: os.stat_result) -> tuple[int, int]:
    return status.st_dev, status.st_ino


def _group_bit(directory: int) -> int:
    """Set-group-id, where new directories inherit it from the one above."""
    return os.fstat(directory).st_mode & stat.S_ISGID


def _remove_empty(directory: int, name: bytes) -> None:
    with suppress(OSError):  # it has been filled by somebody else, or is gone
        os.rmdir(name, dir_fd=directory)


def _sync_directory(directory: int) -> None:
    try:
        readable = os.open(b".", os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC, dir_fd=directory)
    except PermissionError:
        return  # a directory that may be written and not read; its entries reach the disk with the next journal commit
    try:
        os.fsync(readable)
    except OSError as error:
        if error.errno not in (errno.EINVAL, errno.ENOTSUP):
            raise
    finally:
        os.close(readable)


def _synced(directory: int) -> str:
    """Syncs a directory after the change is visible: failing now takes nothing back, so it is only told."""
    try:
        _sync_directory(directory)
    except OSError as error:
        return f"the directory could not be synced ({error.strerror}): a power cut may undo this"
    return ""


def _lost(names: list[str]) -> str:
    return f"these attributes could not be kept: {', '.join(names)}" if names else ""


def _join(*clauses: str) -> str:
    return "; ".join(clause for clause in clauses if clause)
