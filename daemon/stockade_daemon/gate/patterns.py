"""Patterns for names of the workspace: what they match, and which names that are there.

A pattern is a path from the workspace's root. `*` stands for any characters of one name, `**` as a whole name for any
number of directories, none included; everything else is itself, so names with `?` or `[` need no quoting. What matches
includes all that lies below it. Names are compared as bytes: upper and lower case differ.
"""

import errno
import os
import re
import stat
from collections.abc import Iterator
from typing import Final

from stockade_daemon.gate import syscalls
from stockade_daemon.gate.names import encoded
from stockade_daemon.gate.workspace import Workspace

_ANY_DEPTH: Final = b"**"
_BENEATH: Final = syscalls.RESOLVE_BENEATH | syscalls.RESOLVE_NO_MAGICLINKS | syscalls.RESOLVE_NO_SYMLINKS


class Patterns:
    """Some patterns, ready to be compared. False where there are none."""

    __slots__ = ("_compiled", "_parts")

    def __init__(self, patterns: tuple[str, ...]) -> None:
        self._parts = [tuple(encoded(pattern).split(b"/")) for pattern in patterns]
        self._compiled = [(pattern, _compiled(parts)) for pattern, parts in zip(patterns, self._parts, strict=True)]

    def __bool__(self) -> bool:
        return bool(self._compiled)

    def match(self, path: bytes) -> str | None:
        """The pattern that matches a path relative to the workspace, or a directory above it."""
        parts = path.split(b"/")
        for end in range(1, len(parts) + 1):
            above = b"/".join(parts[:end])
            for pattern, compiled in self._compiled:
                if compiled.fullmatch(above):
                    return pattern
        return None

    def there(self, workspace: Workspace) -> set[bytes]:
        """The names that exist and match; of what lies below one of them nothing. Raises OSError as `entries` does."""
        found: set[bytes] = set()
        for parts in self._parts:
            todo = [(b"", parts)]
            while todo:
                found |= _step(workspace, *todo.pop(), todo)
        return {name for name in found if not any(name[:at] in found for at in _slashes(name))}


def entries(workspace: Workspace, directory: bytes) -> list[tuple[bytes, os.stat_result]]:
    """The names in a directory of the workspace, no link followed; empty where it is none, or may not be read.

    Raises OSError where the path is longer than the kernel takes (ENAMETOOLONG), and for failures of the disk.
    """
    try:
        descriptor = _opened(workspace, directory)
    except (FileNotFoundError, NotADirectoryError, PermissionError):
        return []
    found = []
    try:
        for name in os.listdir(descriptor):
            try:
                found.append((os.fsencode(name), os.stat(name, dir_fd=descriptor, follow_symlinks=False)))
            except (FileNotFoundError, PermissionError):
                continue
    except PermissionError:
        return []
    finally:
        os.close(descriptor)
    return found


def below(workspace: Workspace, directory: bytes) -> Iterator[tuple[bytes, os.stat_result]]:
    """Every name below a directory of the workspace, with its path from the root. Raises OSError as `entries` does."""
    todo = [directory]
    while todo:
        above = todo.pop()
        for name, status in entries(workspace, above):
            path = _joined(above, name)
            yield path, status
            if stat.S_ISDIR(status.st_mode):
                todo.append(path)


def _step(
    workspace: Workspace, above: bytes, parts: tuple[bytes, ...], todo: list[tuple[bytes, tuple[bytes, ...]]]
) -> set[bytes]:
    """What the rest of a pattern matches directly in a directory; where to look further is added to `todo`."""
    head, rest = parts[0], parts[1:]
    deep = head == _ANY_DEPTH
    if deep and rest:
        todo.append((above, rest))  # `**` may also stand for no directory
    wanted = None if deep else re.compile(_name(head))
    found = set()
    for name, status in entries(workspace, above):
        if wanted is not None and not wanted.fullmatch(name):
            continue
        path = _joined(above, name)
        if not rest:
            found.add(path)
        elif stat.S_ISDIR(status.st_mode):
            todo.append((path, parts if deep else rest))
    return found


def _opened(workspace: Workspace, directory: bytes) -> int:
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


def _joined(above: bytes, name: bytes) -> bytes:
    return above + b"/" + name if above else name


def _slashes(name: bytes) -> Iterator[int]:
    return (at for at, character in enumerate(name) if character == 0x2F)


def _compiled(parts: tuple[bytes, ...]) -> re.Pattern[bytes]:
    text = b""
    for index, part in enumerate(parts):
        last = index == len(parts) - 1
        if part == _ANY_DEPTH:
            text += b"(?s:.+)" if last else b"(?:[^/]+/)*"
        else:
            text += _name(part) + (b"" if last else b"/")
    return re.compile(text)


def _name(part: bytes) -> bytes:
    """One name's pattern as a regular expression."""
    return b"[^/]*".join(re.escape(piece) for piece in part.split(b"*"))
