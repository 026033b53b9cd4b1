"""What the gate says when it says no: the kernel's errors as stable codes, and the remedies.

Foreign errors are turned here and nowhere else.
"""

import errno
import os
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

from stockade_daemon.errors import GateRefusal
from stockade_daemon.gate.names import shown

_CODES: Final = {
    errno.ENOENT: "FS_NOT_FOUND",
    errno.ENOTDIR: "FS_NOT_DIRECTORY",
    errno.EISDIR: "FS_IS_DIRECTORY",
    errno.EEXIST: "FS_EXISTS",
    errno.ELOOP: "FS_SYMLINK_LOOP",
    errno.ENAMETOOLONG: "FS_NAME_TOO_LONG",
    errno.EACCES: "FS_PERMISSION_DENIED",
    errno.EPERM: "FS_PERMISSION_DENIED",
    errno.EROFS: "FS_PERMISSION_DENIED",
    errno.EXDEV: "FS_OUTSIDE_WORKSPACE",
    errno.EFBIG: "FS_TOO_LARGE",
    errno.ENXIO: "FS_NOT_REGULAR_FILE",
    errno.ENODEV: "FS_NOT_REGULAR_FILE",
    errno.ETXTBSY: "FS_CONFLICT",
    errno.ESTALE: "FS_STALE_VERSION",
}
_ADVICE: Final = {
    errno.ENAMETOOLONG: "Use a shorter name.",
    errno.ELOOP: "Name the file itself instead of the link.",
    errno.EACCES: "Ask for the right to it, or leave it as it is.",
    errno.EPERM: "Ask for the right to it, or leave it as it is.",
    errno.EROFS: "The file system is mounted read-only: mount it for writing, or leave it as it is.",
    errno.ENOSPC: "The disk is full: free some space, then repeat the call.",
    errno.EDQUOT: "The disk quota is used up: free some space, then repeat the call.",
    errno.EFBIG: "Keep the file smaller: its file system, or a limit on the daemon, allows no more.",
    errno.EIO: "The disk reports a fault: have it looked at before anything is repeated.",
    errno.EMFILE: "The daemon has too many files open: let other calls end, then repeat this one.",
    errno.ENFILE: "The machine has too many files open: let other programs end, then repeat the call.",
    errno.ENOMEM: "Memory is short: let other programs end, then repeat the call.",
    errno.ETXTBSY: "The file is a program that is running: stop it, then repeat the call.",
}


class Moved(Exception):
    """Something changed between two looks at a path; looking again from the start settles it."""


def refuse_os_error(error: OSError, verb: str, path: bytes) -> GateRefusal:
    """The refusal that stands for `error`, which happened while we wanted to `verb` `path`."""
    number = error.errno or 0
    reason = os.strerror(number) if number else str(error)
    advice = _ADVICE.get(number)
    text = f"Cannot {verb} {shown(path)}: {reason}." + (f" {advice}" if advice else "")
    return GateRefusal(_CODES.get(number, "FS_IO_ERROR"), text)


@contextmanager
def os_errors(verb: str, path: bytes) -> Iterator[None]:
    """Turns OSError within into the refusal that stands for it."""
    try:
        yield
    except OSError as error:
        raise refuse_os_error(error, verb, path) from error


def not_observed(path: bytes) -> GateRefusal:
    return GateRefusal(
        "FS_NOT_OBSERVED",
        f"{shown(path)} exists and this session has not seen it. Read the file with `read`, then repeat the call.",
    )


def stale(path: bytes, why: str) -> GateRefusal:
    return GateRefusal(
        "FS_STALE_VERSION", f"{shown(path)} {why}. Read the file again with `read`, then repeat the call."
    )


def moved(path: bytes, now: bytes, before: bytes) -> GateRefusal:
    return stale(path, f"leads to {shown(now)} now, and led to {shown(before)} before")


def changed(path: bytes, seen: str, present: str) -> GateRefusal:
    """Refuses bytes that are no longer those that were seen; both digests are named, shortened."""
    return stale(path, f"has changed since this session saw it (seen {seen[:12]}, on disk now {present[:12]})")


def is_directory(path: bytes) -> GateRefusal:
    return GateRefusal("FS_IS_DIRECTORY", f"{shown(path)} is a directory. Name a file in it.")


def named_as_directory(path: bytes) -> GateRefusal:
    return GateRefusal(
        "FS_IS_DIRECTORY",
        f"The path {shown(path)} was given with a slash at its end, which names a directory. Leave the slash out, "
        "or name a file in that directory.",
    )


def not_regular(path: bytes, what: str) -> GateRefusal:
    return GateRefusal(
        "FS_NOT_REGULAR_FILE",
        f"{shown(path)} is a {what}, not a regular file. Only regular files are read and written.",
    )


def outside(path: bytes, why: str) -> GateRefusal:
    return GateRefusal(
        "FS_OUTSIDE_WORKSPACE", f"{shown(path)} {why}. Name a path beneath the workspace, relative to its root."
    )


def binary(path: bytes, size: int) -> GateRefusal:
    return GateRefusal(
        "FS_NOT_TEXT",
        f"{shown(path)} is a binary file of {size} bytes: it has NUL bytes. Look at it with a command in `shell`.",
    )


def too_large(path: bytes, size: int, limit: int) -> GateRefusal:
    return GateRefusal(
        "FS_TOO_LARGE",
        f"{shown(path)} has {size} bytes; the gate takes files of up to {limit}. "
        "Work on a part of it with a command in `shell`.",
    )
