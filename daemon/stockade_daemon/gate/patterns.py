"""Patterns for names of the workspace (path_patterns.py): which names that are there they match."""

import errno
import os
import stat
from collections.abc import Iterator
from typing import Final

from stockade_daemon.errors import ShutDirectory
from stockade_daemon.gate import syscalls
from stockade_daemon.gate.names import encoded, joined
from stockade_daemon.gate.workspace import Workspace
from stockade_daemon.path_patterns import ANY_DEPTH, Part, fits, leads_below, matches, parts_of

_BENEATH: Final = syscalls.RESOLVE_BENEATH | syscalls.RESOLVE_NO_MAGICLINKS | syscalls.RESOLVE_NO_SYMLINKS


class Patterns:
    """Some patterns, ready to be compared. False where there are none."""

    __slots__ = ("_parts", "_patterns")

    def __init__(self, patterns: tuple[str, ...]) -> None:
        self._patterns = patterns
        self._parts = [parts_of(encoded(pattern)) for pattern in patterns]

    def __bool__(self) -> bool:
        return bool(self._parts)

    def match(self, path: bytes) -> str | None:
        """The pattern that matches a path relative to the workspace, or a directory above it."""
        names = path.split(b"/")
        for pattern, parts in zip(self._patterns, self._parts, strict=True):
            if matches(names, parts):
                return pattern
        return None

    def look_into(self, directory: bytes) -> bool:
        """Whether something below a directory of the workspace, its root too, may match."""
        names = directory.split(b"/") if directory else []
        return any(leads_below(names, parts) for parts in self._parts)

    def there(self, workspace: Workspace) -> set[bytes]:
        """The names that exist and match; of what lies below one of them nothing. Raises OSError as `entries` does."""
        found: set[bytes] = set()
        for parts in self._parts:
            todo = [(b"", parts)]
            done: set[tuple[bytes, int]] = set()  # several `**` lead to one place in many ways
            while todo:
                above, rest = todo.pop()
                if (above, len(rest)) not in done:
                    done.add((above, len(rest)))
                    found |= _step(workspace, above, rest, todo)
        return {name for name in found if not any(name[:at] in found for at in _slashes(name))}


def entries(workspace: Workspace, directory: bytes) -> list[tuple[bytes, os.stat_result]]:
    """The names in a directory of the workspace, no link followed; empty where it is none.

    Raises OSError where the path is longer than the kernel takes (ENAMETOOLONG), for failures of the disk, and
    ShutDirectory for a directory that this user cannot list but a worker could get into: one that is the user's own,
    or that may be searched. One that neither can enter has nothing to show, and is empty.
    """
    try:
        descriptor = opened(workspace, directory)
    except (FileNotFoundError, NotADirectoryError):
        return []
    except PermissionError as error:
        shut = _shut(workspace, directory)
        if shut is not None:
            raise shut from error
        return []
    found = []
    try:
        for name in os.listdir(descriptor):
            try:
                found.append((os.fsencode(name), os.stat(name, dir_fd=descriptor, follow_symlinks=False)))
            except FileNotFoundError:
                continue
            except PermissionError as error:
                if os.fstat(descriptor).st_uid == os.geteuid():
                    raise ShutDirectory(directory, own=True) from error
    finally:
        os.close(descriptor)
    return found


def below(workspace: Workspace, directory: bytes) -> Iterator[tuple[bytes, os.stat_result]]:
    """Every name below a directory of the workspace, with its path from the root. Raises OSError as `entries` does."""
    todo = [directory]
    while todo:
        above = todo.pop()
        for name, status in entries(workspace, above):
            path = joined(above, name)
            yield path, status
            if stat.S_ISDIR(status.st_mode):
                todo.append(path)


def _step(
    workspace: Workspace, above: bytes, parts: tuple[Part, ...], todo: list[tuple[bytes, tuple[Part, ...]]]
) -> set[bytes]:
    """What the rest of a pattern matches directly in a directory; where to look further is added to `todo`."""
    head, rest = parts[0], parts[1:]
    deep = head == ANY_DEPTH
    if deep and rest:
        todo.append((above, rest))  # `**` may also stand for no directory
    found = set()
    for name, status in entries(workspace, above):
        if not deep and not fits(name, head):
            continue
        path = joined(above, name)
        if not rest:
            found.add(path)
        elif stat.S_ISDIR(status.st_mode):
            todo.append((path, parts if deep else rest))
    return found


def _shut(workspace: Workspace, directory: bytes) -> ShutDirectory | None:
    """The directory on the way to one that cannot be listed, itself included, which a worker could get into; None where
    it could not either, or nothing is there any more."""
    at = directory
    while True:
        try:
            own = os.stat(at or b".", dir_fd=workspace.descriptor, follow_symlinks=False).st_uid == os.geteuid()
        except (FileNotFoundError, NotADirectoryError):
            return None
        except PermissionError:
            if not at:
                return None
            at = at.rpartition(b"/")[0]  # that one is closed, perhaps since its names were listed
            continue
        if own or (at == directory and os.access(at or b".", os.X_OK, dir_fd=workspace.descriptor)):
            return ShutDirectory(at, own=own)
        return None


def opened(workspace: Workspace, directory: bytes) -> int:
    flags = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
    if not directory or not syscalls.has_openat2():
        return os.open(directory or b".", flags, dir_fd=workspace.descriptor)
    try:
        return syscalls.openat2(workspace.descriptor, directory, flags, resolve=_BENEATH)
    except OSError as error:
        if error.errno in (errno.ELOOP, errno.EXDEV):
            raise NotADirectoryError(
                errno.ENOTDIR, os.strerror(errno.ENOTDIR), directory
            ) from error  # a link since it was listed
        raise


def _slashes(name: bytes) -> Iterator[int]:
    return (at for at, character in enumerate(name) if character == 0x2F)
