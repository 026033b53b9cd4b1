"""A file's bytes, read once: what was hashed is what was shown.

The bytes go to a body in a sealed memfd (memfd_create(2)): a descriptor is a capability, and one of the workspace's own
file could be opened again for writing through /proc/self/fd.
"""

import errno
import fcntl
import hashlib
import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Final

from stockade_daemon.gate.paths import Resolved
from stockade_daemon.gate.refusals import Moved, binary, is_directory, not_regular, refuse_os_error, too_large

MAX_FILE_BYTES: Final = 64 * 1024 * 1024

_CHUNK: Final = 1024 * 1024
_LOOKED_AT: Final = 64 * 1024  # of a file that is too large to be taken, to say what it is
# The type can change between a look and the opening: O_NONBLOCK so that a FIFO without a writer does not hang,
# O_NOCTTY so that a terminal does not become ours.
_READ: Final = os.O_RDONLY | os.O_NONBLOCK | os.O_NOFOLLOW | os.O_NOCTTY | os.O_CLOEXEC
_SEALS: Final = fcntl.F_SEAL_WRITE | fcntl.F_SEAL_GROW | fcntl.F_SEAL_SHRINK | fcntl.F_SEAL_SEAL


@dataclass(frozen=True, slots=True)
class Snapshot:
    """A regular file as it was at one moment."""

    content: bytes
    digest: str  # SHA-256, lower-case hex, of `content`
    lines: int
    status: os.stat_result  # of the descriptor that was read


def digest_of(content: bytes) -> str:
    """SHA-256 of the raw bytes, lower-case hex."""
    return hashlib.sha256(content).hexdigest()


def lines_of(content: bytes) -> int:
    """The number of lines. A line ends with the byte 0x0A whatever the encoding; the last one need not."""
    return content.count(b"\n") + (not content.endswith(b"\n") if content else 0)


def require_regular(place: Resolved) -> None:
    """Raises GateRefusal where `place` exists and is no regular file: FS_IS_DIRECTORY, FS_NOT_REGULAR_FILE."""
    if place.status is not None:
        _require_regular(place.status.st_mode, place.asked)


def take(place: Resolved, *, limit: int = MAX_FILE_BYTES, as_text: bool = False) -> Snapshot:
    """The bytes of an existing file. With `as_text`, one that is too large is called binary where it begins so.

    Raises GateRefusal by kind, size and permission; Moved.
    """
    with _opened(place) as descriptor:
        return take_open(descriptor, place.asked, limit=limit, as_text=as_text)


def digest_at(place: Resolved) -> str:
    """SHA-256, lower-case hex, of an existing file, of which no more than a piece is held. Raises as `take` does."""
    with _opened(place) as descriptor:
        found, size = hashlib.sha256(), 0
        try:
            status = os.fstat(descriptor)
            _require_regular(status.st_mode, place.asked)
            while max(size, status.st_size) <= MAX_FILE_BYTES and (chunk := os.pread(descriptor, _CHUNK, size)):
                found.update(chunk)
                size += len(chunk)
        except OSError as error:
            raise refuse_os_error(error, "read", place.asked) from error
        if max(size, status.st_size) > MAX_FILE_BYTES:
            raise too_large(place.asked, max(size, status.st_size), MAX_FILE_BYTES)
        return found.hexdigest()


@contextmanager
def _opened(place: Resolved) -> Iterator[int]:
    require_regular(place)
    try:
        descriptor = os.open(place.name, _READ, dir_fd=place.parent)
    except OSError as error:
        if error.errno in (errno.ELOOP, errno.ENOENT, errno.ENXIO):
            raise Moved from error  # now a link, gone, or a socket
        raise refuse_os_error(error, "open", place.asked) from error
    try:
        yield descriptor
    finally:
        os.close(descriptor)


def take_open(descriptor: int, path: bytes, *, limit: int = MAX_FILE_BYTES, as_text: bool = False) -> Snapshot:
    """The bytes behind a descriptor, from the beginning; `path` is for messages."""
    try:
        status = os.fstat(descriptor)
        _require_regular(status.st_mode, path)
        if status.st_size > limit:
            if as_text and b"\0" in os.pread(descriptor, _LOOKED_AT, 0):
                raise binary(path, status.st_size)
            raise too_large(path, status.st_size, limit)
        chunks = []
        size = 0
        # All at once where nobody writes to it: joining pieces would hold the bytes twice.
        while chunk := os.pread(descriptor, max(status.st_size + 1 - size, _CHUNK), size):
            chunks.append(chunk)
            size += len(chunk)
            if size > limit:
                raise too_large(path, size, limit)  # it grew while it was read
    except OSError as error:
        raise refuse_os_error(error, "read", path) from error
    content = b"".join(chunks)
    return Snapshot(content, digest_of(content), lines_of(content), status)


def sealed(content: bytes) -> int:
    """A memfd that holds `content` and that nobody can change any more; the caller closes it. Raises OSError."""
    descriptor = os.memfd_create("stockade", os.MFD_CLOEXEC | os.MFD_ALLOW_SEALING)
    try:
        write_all(descriptor, content)
        os.lseek(descriptor, 0, os.SEEK_SET)
        fcntl.fcntl(descriptor, fcntl.F_ADD_SEALS, _SEALS)
    except BaseException:
        os.close(descriptor)
        raise
    return descriptor


def write_all(descriptor: int, content: bytes) -> None:
    """Writes all of `content` from the descriptor's beginning. Raises OSError."""
    view = memoryview(content)
    done = 0
    while done < len(view):
        done += os.pwrite(descriptor, view[done : done + 16 * _CHUNK], done)


def _require_regular(mode: int, path: bytes) -> None:
    if stat.S_ISREG(mode):
        return
    if stat.S_ISDIR(mode):
        raise is_directory(path)
    kinds = {
        stat.S_IFIFO: "FIFO",
        stat.S_IFSOCK: "socket",
        stat.S_IFCHR: "character device",
        stat.S_IFBLK: "block device",
        stat.S_IFLNK: "link",
    }
    raise not_regular(path, kinds.get(stat.S_IFMT(mode), "special file"))
