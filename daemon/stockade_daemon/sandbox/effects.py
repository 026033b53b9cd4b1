"""What a command did: the difference that an overlay's upper directory holds (overlayfs, "Upper and Lower").

Read only when the worker's pid namespace is gone: before that a process could still change what has been looked at.
"""

import json
import os
import stat
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final, Literal

from stockade_daemon.sandbox import uids

Change = Literal["created", "changed", "deleted", "replaced", "renamed", "metadata"]

_MOST = 10_000  # entries listed; a count says how many there are
# Prefix of the extended attributes that are the overlay's own.
MARKS: Final = "user.overlay." if uids.available() is None else "trusted.overlay."
_MOST_BYTES = 4 * 1024 * 1024  # of names listed, as JSON text: a value may have 16 MiB
# Bytes: below this no directory is entered. A command can nest deeper than a path can name (PATH_MAX is 4096).
_LONGEST_PATH = 3000


@dataclass(frozen=True, slots=True)
class Effect:
    """One changed name, relative to the workspace. Names that are not UTF-8 are shown with surrogate escapes undone."""

    path: str
    change: Change
    kind: Literal["file", "directory", "symlink", "fifo", "socket", "device"]
    size: int  # bytes, of a file
    source: str = ""  # where a renamed directory came from


@dataclass(frozen=True, slots=True)
class Difference:
    effects: tuple[Effect, ...]
    total: int  # may be larger than len(effects)


def difference(upper: str, lower: str, *, hides: Callable[[bytes], bool] = lambda path: False) -> Difference:
    """Lists what `upper` changes of `lower`, by path order. Directories that merely contain changes are left out.

    `hides`: names that the command could not see, so that what it made there is new.
    """
    found: list[Effect] = []
    total = size = 0
    pending = [""]
    while pending:
        below = pending.pop()
        descend = []
        for name in _names(os.path.join(upper, below)):
            path = os.path.join(below, name)
            effect, deeper = _effect(upper, lower, path, hides)
            if deeper and len(os.fsencode(path)) < _LONGEST_PATH:
                descend.append(path)
            if effect is not None:
                total += 1
                size += len(json.dumps(effect.path))
                if len(found) < _MOST and size < _MOST_BYTES:
                    found.append(effect)
        pending.extend(reversed(descend))
    return Difference(tuple(sorted(found, key=lambda each: each.path)), total)


def _below(lower: str, path: str) -> os.stat_result:
    """What the workspace has at `path`, no link followed on the way: a link there may lead anywhere on the host.

    Raises OSError where there is nothing, or a link above it.
    """
    flags = os.O_PATH | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
    held = os.open(lower, flags)
    try:
        *above, name = path.split("/")
        for part in above:
            deeper = os.open(part, flags, dir_fd=held)
            os.close(held)
            held = deeper
        return os.stat(name, dir_fd=held, follow_symlinks=False)
    finally:
        os.close(held)


def _names(directory: str) -> list[str]:
    """The names in a directory of the upper tree, which may have been made unreadable: it is ours, so it is opened.

    Its mode has been looked at by now, and nothing of the worker's is left that could meet the other one.
    """
    try:
        return sorted(os.listdir(directory))
    except PermissionError:
        os.chmod(directory, 0o700)
        return sorted(os.listdir(directory))


def _effect(upper: str, lower: str, path: str, hides: Callable[[bytes], bool]) -> tuple[Effect | None, bool]:
    """The effect at `path`, and whether there is more below it."""
    above = os.lstat(os.path.join(upper, path))
    try:
        below: os.stat_result | None = None if hides(os.fsencode(path)) else _below(lower, path)
    except OSError:
        # Nothing is there; or it lies in a directory of the workspace that the daemon may not search, and then what the
        # command made of it is all that can be told.
        below = None
    shown = os.fsencode(path).decode("utf-8", "backslashreplace")
    if stat.S_ISCHR(above.st_mode) and above.st_rdev == 0:  # a whiteout
        if below is None:
            return None, False
        return Effect(shown, "deleted", _kind(below.st_mode), below.st_size), False
    kind = _kind(above.st_mode)
    size = above.st_size if kind == "file" else 0
    if kind != "directory":
        change: Change = "created" if below is None else "changed" if _kind(below.st_mode) == kind else "replaced"
        return Effect(shown, change, kind, size), False
    place = os.path.join(upper, path)
    source = _mark(place, "redirect")
    if source is not None:
        return Effect(shown, "renamed", kind, 0, source.decode("utf-8", "backslashreplace")), True
    if below is None:
        return Effect(shown, "created", kind, 0), True
    if not stat.S_ISDIR(below.st_mode) or _mark(place, "opaque") in (b"y", b"Y"):
        return Effect(shown, "replaced", kind, 0), True
    if stat.S_IMODE(above.st_mode) != stat.S_IMODE(below.st_mode):
        return Effect(shown, "metadata", kind, 0), True
    return None, True


def _mark(path: str, name: str) -> bytes | None:
    """An overlay mark: `trusted.` where root made the overlay, `user.` in a user namespace. Bodies cannot set the one
    that counts: the first needs a privilege, and of the second the overlay escapes what they write. In the other's
    place a body may write what it likes, so only one is looked at."""
    try:
        return os.getxattr(path, f"{MARKS}{name}", follow_symlinks=False)
    except OSError:
        return None


def _kind(mode: int) -> Literal["file", "directory", "symlink", "fifo", "socket", "device"]:
    if stat.S_ISREG(mode):
        return "file"
    if stat.S_ISDIR(mode):
        return "directory"
    if stat.S_ISLNK(mode):
        return "symlink"
    if stat.S_ISFIFO(mode):
        return "fifo"
    if stat.S_ISSOCK(mode):
        return "socket"
    return "device"
