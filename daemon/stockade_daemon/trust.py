"""Whose files may say what a worker does: profiles and tools are policy, so nobody else may own or write them.

A file counts when nobody but root and the daemon's own user could have written it: it and every directory on the way
from the configured one belong to one of them and are not writable for group or others. A link may lead to another place
below the same directory, as the mounted volumes of containers have it, and nowhere else; a second name (a hard link) is
refused. By either the file could lie in a workspace, where whoever is bound by it could write it.
"""

import os
import stat
from pathlib import Path
from typing import Literal, TypeAlias

Reason: TypeAlias = Literal["leads out", "owner", "writers", "no file", "names"]


class Untrusted(Exception):
    """Why a file does not count: `place`, the file itself or a directory that leads to it, is not as it has to be."""

    def __init__(self, reason: Reason, place: Path, found: os.stat_result) -> None:
        super().__init__(reason, place)
        self.reason = reason
        self.place = place
        self.found = found


def stranger(found: os.stat_result) -> Literal["owner", "writers"] | None:
    """Who besides root and the daemon's own user could change a file or directory (inode(7)); None: nobody."""
    if found.st_uid not in (0, os.geteuid()):
        return "owner"
    return "writers" if found.st_mode & (stat.S_IWGRP | stat.S_IWOTH) else None


def content(path: Path, directory: Path | None, most: int) -> bytes:
    """At most `most` bytes of a file of `directory` that may be trusted; a FIFO is refused, not waited for.

    Without a directory the file came with the program, which whoever installed it can change as well: it only has to be
    a file. Raises Untrusted; OSError where the file cannot be read.
    """
    real = Path(os.path.realpath(path, strict=True))
    if directory is not None:
        top = Path(os.path.realpath(directory))
        if top not in real.parents:
            raise Untrusted("leads out", real, os.stat(real))
        for place in (top, *(each for each in real.parents if top in each.parents)):
            _insist(place, os.stat(place))
    # Not blocking: opening a FIFO waits for whoever writes to it, open(2).
    descriptor = os.open(real, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK | os.O_NOFOLLOW)
    with open(descriptor, "rb") as file:
        found = os.fstat(descriptor)
        if not stat.S_ISREG(found.st_mode):
            raise Untrusted("no file", real, found)
        if directory is not None:
            _insist(real, found)
            if found.st_nlink > 1:
                raise Untrusted("names", real, found)
        return file.read(most)


def _insist(place: Path, found: os.stat_result) -> None:
    reason = stranger(found)
    if reason is not None:
        raise Untrusted(reason, place, found)
