"""Host trees that a profile adds (filesystem.mounts): held before the pivot, attached after it, read-only throughout.

They are attached after the pivot because a path may lead through links, which then mean what they mean inside. Each
lies at its own path: a worker can read /proc/self/mountinfo, where another place would show what it was called outside.
"""

import os
import re
import stat
from collections.abc import Iterable
from dataclasses import dataclass
from typing import NoReturn

from stockade_worker import kernel

# Where the host looks at itself. The names are checked when a profile is read; here links have been followed.
VIEWS = ("/proc", "/sys", "/dev", "/run")
_KINDS_OF_VIEWS = {
    "proc", "sysfs", "devtmpfs", "devpts", "cgroup", "cgroup2", "debugfs", "tracefs", "securityfs", "configfs", "bpf",
    "pstore", "efivarfs", "mqueue", "binfmt_misc", "hugetlbfs",
}  # fmt: skip
_READ_ONLY = kernel.MOUNT_ATTR_RDONLY | kernel.MOUNT_ATTR_NOSUID | kernel.MOUNT_ATTR_NODEV
_OCTAL = re.compile(r"\\([0-7]{3})")  # how mountinfo writes spaces and the like (proc(5))


class Unusable(Exception):
    """A tree that a profile lists cannot be shown. The message says which, and why."""


@dataclass(frozen=True, slots=True)
class Held:
    """A detached, recursively read-only copy of a tree, and where it goes."""

    path: str
    tree: int
    directory: bool


def hold(path: str) -> Held:
    """Opens the tree at a host path, links followed. Raises Unusable."""
    try:
        place = os.open(path, os.O_PATH | os.O_CLOEXEC)
    except FileNotFoundError:
        raise Unusable(f"{path}, which does not exist on this host; create it, or take it out of the profile") from None
    except OSError as error:
        raise Unusable(f"{path}, which cannot be opened: {error.strerror}; let the daemon's user search it") from error
    try:
        mode = os.fstat(place).st_mode
        if not (stat.S_ISDIR(mode) or stat.S_ISREG(mode)):
            raise Unusable(f"{path}, which is neither a directory nor a regular file; take it out of the profile")
        _refuse_views(path, os.readlink(f"/proc/self/fd/{place}"))
        return Held(path, _read_only(place), stat.S_ISDIR(mode))
    except OSError as error:
        raise Unusable(f"{path}, which cannot be mounted: {error}; look at the file system it lies on") from error
    finally:
        os.close(place)


def _read_only(place: int) -> int:
    tree = kernel.open_tree("", kernel.AT_EMPTY_PATH, directory=place)
    try:
        # Recursive and before it is attached: a sub-mount that stayed writable would be a hole.
        kernel.mount_setattr(tree, "", set_=_READ_ONLY)
    except OSError:
        os.close(tree)
        raise
    return tree


def _refuse_views(path: str, real: str) -> None:
    """Refuses what is the host's view of itself, or holds one: a /proc mounted somewhere else is no better."""

    def refuse(view: str) -> NoReturn:
        raise Unusable(f"{path}, which shows {view} of the host; name what programs need, without it")

    if real in ("/", "/etc"):
        refuse(real)
    for view in VIEWS:
        if real == view or real.startswith(f"{view}/"):
            refuse(view)
    with open("/proc/self/mountinfo", encoding="utf-8", errors="surrogateescape") as table:
        for line in table:
            before, _, after = line.partition(" - ")
            point = _OCTAL.sub(lambda found: chr(int(found[1], 8)), before.split()[4])
            near = point == real or point.startswith(f"{real}/") or real.startswith(f"{point}/")
            if near and after.split()[0] in _KINDS_OF_VIEWS:
                refuse(point)


def attach(held: Held) -> None:
    """Puts a held tree at its path below the present root, and closes it. Raises Unusable."""
    try:
        if held.directory:
            os.makedirs(held.path, exist_ok=True)
        else:
            os.makedirs(os.path.dirname(held.path), exist_ok=True)
            if not os.path.lexists(held.path):
                os.close(os.open(held.path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o644))
        kernel.move_mount(held.tree, held.path)
    except OSError as error:
        raise Unusable(f"{held.path}, which has no place inside: {error}; mount its parent instead") from error
    finally:
        os.close(held.tree)


def again(paths: Iterable[str]) -> list[Held]:
    """Copies of trees of the template, before a worker's own /tmp hides them. What was read-only stays so."""
    return [Held(path, kernel.open_tree(path), os.path.isdir(path)) for path in paths]
