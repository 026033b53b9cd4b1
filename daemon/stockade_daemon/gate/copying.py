"""Copies a workspace: what a session could see of it, by descriptor, no link followed.

Regular files (bytes, holes, times, permission bits without set-id, extended attributes; the names of one file stay
names of one file), directories, symbolic links and FIFOs; not sockets and devices, nor what transactions under way have
there.
Where the file system can, a file's bytes are shared until one side changes them (FICLONE, ioctl_ficlonerange(2)).

A hard link would not do instead: a file of several names is written in place (effects/commit.py), and the workspace
would see it.
"""

import errno
import fcntl
import os
import re
import stat
from collections.abc import Callable
from contextlib import ExitStack, suppress
from typing import Final

from stockade_daemon.errors import RequestError
from stockade_daemon.gate import attributes
from stockade_daemon.gate.extents import extents, write_at
from stockade_daemon.gate.names import told

SPARE: Final = 256 * 1024 * 1024  # bytes of the file system that a copy leaves free: the ledger is there as well
_FICLONE: Final = 0x40049409
_PIECE: Final = 16 * 1024 * 1024
_TRIES: Final = 5  # to copy a file that somebody writes to
_DIRECTORY: Final = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
# The type can change between a look and the opening, as in content.py.
_READ: Final = os.O_RDONLY | os.O_NONBLOCK | os.O_NOFOLLOW | os.O_NOCTTY | os.O_CLOEXEC
_PRIVATE: Final = re.compile(rb"\.stockade-[0-9a-f]{12}")  # temporary.new_name
_NO_CLONE: Final = (errno.EOPNOTSUPP, errno.EXDEV, errno.EINVAL, errno.ENOTTY, errno.ENOSYS, errno.EPERM)


class Stopped(Exception):
    """The daemon ends."""


class Copying:
    """One copy. File work, in a thread."""

    def __init__(self, source: int, target: int, *, spare: int = SPARE, stopped: Callable[[], bool]) -> None:
        """`source`: a descriptor of the workspace, O_PATH will do. `target`: of an empty directory of the daemon's."""
        self._source = source
        self._target = target
        self._spare = spare
        self._stopped = stopped
        self._root = os.geteuid() == 0
        self._first: dict[tuple[int, int], bytes] = {}  # files of several names → the one that was copied first

    def run(self) -> None:
        """Raises RequestError with what cannot be copied and why, Stopped."""
        made: list[tuple[bytes, os.stat_result]] = []
        todo = [b""]
        while todo:
            path = todo.pop()
            try:
                below, status = self._directory(path)
            except OSError as error:
                raise _refused(path, error) from error
            todo += below
            made.append((path, status))
        # The deepest first: with the last name that is made in it a directory gets a new time of change, and its mode
        # may be one that lets nobody make names.
        for path, status in reversed(made):
            try:
                with ExitStack() as stack:
                    source = _opened(stack, self._source, path)
                    self._finish(source, _opened(stack, self._target, path), status)
            except OSError as error:
                raise _refused(path, error) from error

    def _directory(self, path: bytes) -> tuple[list[bytes], os.stat_result]:
        """Copies what is directly in a directory; the directories in it, which are made and empty."""
        below = []
        with ExitStack() as stack:
            source, target = _opened(stack, self._source, path), _opened(stack, self._target, path)
            for entry in os.listdir(source):
                if self._stopped():
                    raise Stopped
                name = os.fsencode(entry)
                inner = os.path.join(path, name)
                try:
                    status = os.stat(name, dir_fd=source, follow_symlinks=False)
                    if _PRIVATE.fullmatch(name):
                        continue
                    if stat.S_ISDIR(status.st_mode):
                        os.mkdir(name, 0o700, dir_fd=target)
                        below.append(inner)
                    else:
                        self._name(source, target, name, inner, status)
                except FileNotFoundError:
                    continue  # gone since it was listed
                except OSError as error:
                    raise _refused(inner, error) from error
            return below, os.fstat(source)

    def _name(self, source: int, target: int, name: bytes, path: bytes, status: os.stat_result) -> None:
        """Copies what is no directory. Raises OSError."""
        if stat.S_ISLNK(status.st_mode):
            os.symlink(os.readlink(name, dir_fd=source), name, dir_fd=target)
        elif stat.S_ISFIFO(status.st_mode):
            os.mkfifo(name, 0o600, dir_fd=target)
            os.chmod(name, stat.S_IMODE(status.st_mode), dir_fd=target)
        elif stat.S_ISREG(status.st_mode):
            first = self._first.get((status.st_dev, status.st_ino)) if status.st_nlink > 1 else None
            if first is not None:
                above, _, known = first.rpartition(b"/")
                with ExitStack() as stack:
                    os.link(known, name, src_dir_fd=_opened(stack, self._target, above), dst_dir_fd=target)
            else:
                copied = self._file(source, target, name, path)
                # Another file may have got the name since the look; further names of this one are not names of that.
                if status.st_nlink > 1 and (copied.st_dev, copied.st_ino) == (status.st_dev, status.st_ino):
                    self._first[status.st_dev, status.st_ino] = path
            return
        else:
            return
        if self._root:
            os.chown(name, status.st_uid, status.st_gid, dir_fd=target, follow_symlinks=False)
        os.utime(name, ns=(status.st_atime_ns, status.st_mtime_ns), dir_fd=target, follow_symlinks=False)

    def _file(self, source: int, target: int, name: bytes, path: bytes) -> os.stat_result:
        """Copies a file; returns the status of the one that was opened."""
        with ExitStack() as stack:
            old = _kept(stack, os.open(name, _READ, dir_fd=source))
            flags = os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
            new = _kept(stack, os.open(name, flags, 0o600, dir_fd=target))
            for _ in range(_TRIES):
                before = os.fstat(old)
                if not stat.S_ISREG(before.st_mode):
                    raise OSError(errno.ESTALE, "it became something else meanwhile")
                self._bytes(old, new, before)
                after = os.fstat(old)
                if (before.st_size, before.st_mtime_ns) == (after.st_size, after.st_mtime_ns):
                    self._finish(old, new, after)
                    return after
            raise RequestError(
                "FAILED_PRECONDITION",
                f"{told(path)} is being written to all the time, so it cannot be copied; repeat it later",
            )

    def _bytes(self, old: int, new: int, status: os.stat_result) -> None:
        os.ftruncate(new, 0)
        try:
            fcntl.ioctl(new, _FICLONE, old)
            return
        except OSError as error:
            if error.errno not in _NO_CLONE:
                raise
        room = os.fstatvfs(new)
        if room.f_bavail * room.f_frsize < status.st_blocks * 512 + self._spare:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        for begin, end in extents(old, status.st_size):
            position = begin
            while position < end:
                if self._stopped():
                    raise Stopped
                piece = os.pread(old, min(end - position, _PIECE), position)
                if not piece:
                    return  # it became shorter; whoever looks at its status sees that
                position += write_at(new, piece, position)
        os.ftruncate(new, status.st_size)

    def _finish(self, old: int, new: int, status: os.stat_result) -> None:
        """Owner, attributes, mode and times, in the order in which none undoes another. Raises OSError."""
        if self._root:
            os.fchown(new, status.st_uid, status.st_gid)
        else:
            with suppress(PermissionError):  # a group that is not this user's
                os.fchown(new, -1, status.st_gid)
        attributes.carry_extended(old, new)
        mode = stat.S_IMODE(status.st_mode)
        os.fchmod(new, mode if stat.S_ISDIR(status.st_mode) else mode & ~(stat.S_ISUID | stat.S_ISGID))
        os.utime(new, ns=(status.st_atime_ns, status.st_mtime_ns))


def _opened(stack: ExitStack, root: int, path: bytes) -> int:
    """A directory below `root`, name by name: neither depth nor the length of its path matter. Raises OSError."""
    held = os.open(b".", _DIRECTORY, dir_fd=root)
    try:
        for part in path.split(b"/") if path else ():
            deeper = os.open(part, _DIRECTORY, dir_fd=held)
            os.close(held)
            held = deeper
    except BaseException:
        os.close(held)
        raise
    return _kept(stack, held)


def _kept(stack: ExitStack, descriptor: int) -> int:
    stack.callback(os.close, descriptor)
    return descriptor


def _refused(path: bytes, error: OSError) -> RequestError:
    what = f"the workspace cannot be copied: {told(path or b'.')}: {error.strerror}"
    if error.errno in (errno.ENOSPC, errno.EDQUOT):
        return RequestError(
            "FAILED_PRECONDITION",
            f"{what}; make room where the daemon keeps its state, or have it kept elsewhere (--state, or TMPDIR for a "
            "private daemon)",
        )
    if error.errno in (errno.EACCES, errno.EPERM):
        return RequestError(
            "PERMISSION_DENIED",
            f"{what}; have uid {os.geteuid()} read it, or take it out of the workspace",
            code="FS_PERMISSION_DENIED",
        )
    return RequestError("FAILED_PRECONDITION", f"{what}; repeat it when the workspace is at rest")
