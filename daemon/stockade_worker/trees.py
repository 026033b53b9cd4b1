"""Host trees that a profile adds (filesystem.mounts): held before the pivot, attached after it, read-only throughout.

A directory is shown through an overlay without an upper directory and not as a bind mount, because a read-only bind
mount stops no connection: a socket or FIFO in it would lead to a host process. Those of an overlay are its own. An
overlay shows one file system only, so what is mounted further below is held and attached by itself.

They are attached after the pivot because a path may lead through links, which then mean what they mean inside. Each
lies at its own path: a worker can read /proc/self/mountinfo, where another place would show what it was called outside.
"""

import errno
import os
import re
import stat
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from typing import NoReturn

from stockade_worker import kernel

# Where the host looks at itself. The names are checked when a profile is read; here links have been followed.
VIEWS = ("/proc", "/sys", "/dev", "/run")
_KINDS_OF_VIEWS = {
    "proc", "sysfs", "devtmpfs", "devpts", "cgroup", "cgroup2", "debugfs", "tracefs", "securityfs", "configfs", "bpf",
    "pstore", "efivarfs", "mqueue", "binfmt_misc", "hugetlbfs",
}  # fmt: skip
_READ_ONLY = kernel.MOUNT_ATTR_RDONLY | kernel.MOUNT_ATTR_NOSUID | kernel.MOUNT_ATTR_NODEV
_OCTAL = re.compile(rb"\\([0-7]{3})")  # how mountinfo writes spaces and the like (proc(5))


class Unusable(Exception):
    """A tree that a profile lists cannot be shown. The message says which, and why."""


@dataclass(frozen=True, slots=True)
class Held:
    """A detached, read-only view of a tree, and where it goes; then those of what is mounted below it."""

    path: str
    tree: int
    directory: bool
    below: tuple["Held", ...] = ()

    def close(self) -> None:
        for each in (self, *self.below):
            os.close(each.tree)


def hold(path: str, empty: str) -> Held:
    """Holds the tree at a host path, links followed.

    `empty`: a directory that is empty, which an overlay wants where it has no upper one. Raises Unusable.
    """
    place, real = judged(path)
    try:
        below = sorted({point for point, _ in _mount_points() if point.startswith(f"{real}/")})
        try:
            held = _held(path, place, empty)
        except OSError as error:
            # A user namespace may not look behind mounts that it got from outside (mount_namespaces(7), "locked").
            if not below or error.errno != errno.EINVAL:
                raise
            raise Unusable(
                f"{path}, below which the host has mounted more ({below[0]}): a daemon of an ordinary user cannot show "
                "that; name directories that have no mounts below them"
            ) from error
    except OSError as error:
        raise Unusable(f"{path}, which cannot be mounted: {error}; look at the file system it lies on") from error
    finally:
        os.close(place)
    inner = [_below(f"{path}{point.removeprefix(real)}", point, empty) for point in below]
    return replace(held, below=tuple(each for each in inner if each is not None))


def judged(path: str) -> tuple[int, str]:
    """The place of a host path, links followed, as a descriptor (O_PATH) that the caller closes, and its real name.

    Raises Unusable where it is no directory or regular file, or shows the host's view of itself.
    """
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
        real = os.readlink(f"/proc/self/fd/{place}")
        _refuse_views(path, real)
    except BaseException:
        os.close(place)
        raise
    return place, real


def _held(path: str, place: int, empty: str) -> Held:
    if not stat.S_ISDIR(os.fstat(place).st_mode):
        return Held(path, _read_only(place), directory=False)
    # Layers are named by descriptor: a worker reads the names in its /proc/self/mountinfo.
    layers: dict[str, str | None] = {"lowerdir": f"/proc/self/fd/{place}:{empty}"}
    return Held(path, kernel.new_mount("overlay", layers, _READ_ONLY), directory=True)


def _below(path: str, point: str, empty: str) -> Held | None:
    """What is mounted at `point`, further below a tree; None where it can no longer be reached."""
    try:
        place = os.open(point, os.O_PATH | os.O_CLOEXEC)
    except OSError:
        return None  # hidden by another mount, or in a directory that may not be searched
    try:
        kind = os.fstat(place).st_mode
        return _held(path, place, empty) if stat.S_ISDIR(kind) or stat.S_ISREG(kind) else None
    except OSError as error:
        raise Unusable(f"{path}, which cannot be mounted: {error}; look at the file system it lies on") from error
    finally:
        os.close(place)


def _read_only(place: int) -> int:
    tree = kernel.open_tree("", kernel.AT_EMPTY_PATH, directory=place)
    try:
        # Before it is attached, so that it is at no moment writable.
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
    for point, kind in _mount_points():
        near = point == real or point.startswith(f"{real}/") or real.startswith(f"{point}/")
        if near and kind in _KINDS_OF_VIEWS:
            refuse(point)


def _mount_points() -> Iterator[tuple[str, str]]:
    """Where something is mounted in this mount namespace, and the kind of file system (proc_pid_mountinfo(5))."""
    with open("/proc/self/mountinfo", "rb") as table:
        for line in table:
            before, _, after = line.partition(b" - ")
            # Bytes, because the octal escapes are those of bytes and a name may be in any encoding.
            point = _OCTAL.sub(lambda found: bytes((int(found[1], 8),)), before.split(b" ")[4])
            yield os.fsdecode(point), os.fsdecode(after.split(b" ")[0])


def attach(held: Held) -> None:
    """Puts a held tree at its path below the present root, and closes it. Raises Unusable."""
    try:
        for each in (held, *held.below):
            _attach(each)
    finally:
        held.close()


def _attach(held: Held) -> None:
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


def again(paths: Iterable[str]) -> list[Held]:
    """Copies of trees of the template, before a worker's own /tmp hides them. What was read-only stays so."""
    return [Held(path, kernel.open_tree(path), os.path.isdir(path)) for path in paths]
