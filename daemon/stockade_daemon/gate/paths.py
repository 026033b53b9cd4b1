"""From a path as somebody wrote it to a parent directory's descriptor and a name: nothing is left to look up later.

Most paths hold no link and no `..`; openat2(2) resolves those in one call that the kernel keeps beneath the workspace.
All others, and all on kernels without openat2, are walked here one name at a time from directory descriptors: a link
is read and its target walked from where it stands, an absolute target that lies in the workspace is walked from
the root, and `..` steps back to the descriptor we came from, so that no rename can make it lead out.
"""

import errno
import os
import stat
from collections import deque
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from typing import Final, Protocol

from stockade_daemon.errors import ArgumentsRefusal, GateRefusal
from stockade_daemon.gate import syscalls
from stockade_daemon.gate.names import encoded, shown
from stockade_daemon.gate.refusals import Moved, os_errors, outside, refuse_os_error
from stockade_daemon.gate.workspace import Workspace

# Tests set this to take the walk for every path.
walk_always = False

_LINKS: Final = 40  # as many as the kernel follows, path_resolution(7)
_LONGEST: Final = 4095  # PATH_MAX without its NUL
_BENEATH: Final = syscalls.RESOLVE_BENEATH | syscalls.RESOLVE_NO_MAGICLINKS | syscalls.RESOLVE_NO_SYMLINKS
_DIRECTORY: Final = os.O_PATH | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC


@dataclass(frozen=True, slots=True)
class Resolved:
    """Where a path leads."""

    parent: int  # descriptor of the directory, or of the deepest one that exists; closed by `resolve`
    missing: tuple[bytes, ...]  # directories between `parent` and `name` that do not exist
    name: bytes  # in its directory; `.` where the path names the directory `parent` itself
    real: bytes  # relative to the workspace, links followed: the file's identity
    asked: bytes  # relative to the workspace, as it was spelled, without `.` and doubled slashes
    status: os.stat_result | None  # of the file itself, never of a link; None: it does not exist
    as_directory: bool  # spelled with a slash at its end


class Unseen(Protocol):
    """What is to be answered as though it were not there."""

    def hides(self, path: bytes) -> bool:
        """Whether a path relative to the workspace, links followed, is hidden by its name."""
        raise NotImplementedError

    def hides_file(self, path: bytes, status: os.stat_result) -> bool:
        """Whether what is at this path is hidden, by this name or another one that it has. Raises OSError."""
        raise NotImplementedError


@contextmanager
def resolve(workspace: Workspace, path: str | bytes, unseen: Unseen | None = None) -> Iterator[Resolved]:
    """Where `path` leads in the workspace; the descriptor lives as long as the context.

    Text is a path as somebody wrote it. Bytes are names of ours, an `asked` or `real` of an earlier one: relative,
    and nothing in them has a meaning of its own. On the way through links and `..`, a name that is `unseen` is one
    that does not exist; the caller asks about what was found.

    Raises GateRefusal: FS_OUTSIDE_WORKSPACE, FS_SYMLINK_LOOP, FS_NAME_TOO_LONG, FS_NOT_DIRECTORY,
    FS_PERMISSION_DENIED, FS_NOT_FOUND (a `..` after a name that does not exist); ArgumentsRefusal: INVALID_ARGS;
    Moved, when the path changed under the walk.
    """
    parts, as_directory = _parts(workspace, path)
    with ExitStack() as owned:
        found = None
        if not walk_always and syscalls.has_openat2():
            found = _straight(owned, workspace, parts, as_directory)
        yield found or _Walk(owned, workspace, parts, as_directory, unseen).run()


def spelled(workspace: Workspace, path: str | bytes) -> bytes:
    """`path` as `Resolved.asked` has it, before anything is looked up. Raises as `resolve` does for the text alone."""
    return b"/".join(_parts(workspace, path)[0]) or b"."


def _parts(workspace: Workspace, path: str | bytes) -> tuple[list[bytes], bool]:
    """The names of a path below the workspace, and whether it ends as a directory's spelling does."""
    if isinstance(path, bytes):
        return _split(path), False
    name = encoded(path)
    if not name.strip() or b"\0" in name:
        raise ArgumentsRefusal(
            "INVALID_ARGS",
            "The path holds a NUL byte, which no name can. Give the path without it."
            if b"\0" in name
            else "The path is empty. Give the file's path, relative to the workspace.",
        )
    if name == b"~" or name.startswith(b"~/"):
        raise outside(name, "starts at a home directory, which is not part of the workspace (`~` is not expanded)")
    if len(name) > _LONGEST:
        raise GateRefusal(
            "FS_NAME_TOO_LONG", f"The path has {len(name)} bytes; {_LONGEST} are possible. Use a shorter one."
        )
    if name.startswith(b"/"):
        below = workspace.beneath(name)
        if below is None:
            raise outside(name, "is not beneath the workspace")
        return _split(below), below.endswith((b"/", b"/.")) or below in (b"", b".")
    return _split(name), name.endswith((b"/", b"/.")) or name == b"."


def _split(path: bytes) -> list[bytes]:
    return [part for part in path.split(b"/") if part not in (b"", b".")]


def _straight(owned: ExitStack, workspace: Workspace, parts: list[bytes], as_directory: bool) -> Resolved | None:
    """The common case in one call; None wherever there is more to it, also to find out what is wrong."""
    if not parts or b".." in parts:
        return None
    try:
        parent = syscalls.openat2(
            workspace.descriptor, b"/".join(parts[:-1]) or b".", os.O_PATH | os.O_DIRECTORY, resolve=_BENEATH
        )
    except OSError:
        return None
    owned.callback(os.close, parent)
    try:
        status = os.stat(parts[-1], dir_fd=parent, follow_symlinks=False)
    except OSError:
        return None
    if stat.S_ISLNK(status.st_mode) or (as_directory and not stat.S_ISDIR(status.st_mode)):
        return None
    path = b"/".join(parts)
    return Resolved(parent, (), parts[-1], path, path, status, as_directory)


class _Walk:
    """One walk. `way` holds the directories from the workspace down, each with its descriptor; none is a link."""

    def __init__(
        self, owned: ExitStack, workspace: Workspace, parts: list[bytes], as_directory: bool, unseen: Unseen | None
    ) -> None:
        self._owned = owned
        self._unseen = unseen
        self._workspace = workspace
        self._asked = b"/".join(parts) or b"."
        self._todo = deque(parts)
        self._as_directory = as_directory
        self._way: list[tuple[bytes, int]] = []
        self._links = 0

    def run(self) -> Resolved:
        while self._todo:
            part = self._todo.popleft()
            if part == b"..":
                if not self._way:
                    raise outside(self._asked, "leads out of the workspace")
                self._way.pop()
                continue
            with os_errors("look up", self._asked):
                status = self._status(part)
            if status is None or (self._unseen is not None and self._unseen.hides(self._real(part))):
                return self._absent(part)
            if stat.S_ISLNK(status.st_mode):
                self._follow(part)
            elif not self._todo:
                if self._as_directory and not stat.S_ISDIR(status.st_mode):
                    return self._no_directory(part, status)
                return self._resolved((), part, status)
            elif not stat.S_ISDIR(status.st_mode):
                return self._no_directory(part, status)
            else:
                self._enter(part)
        # The path names a directory that we stand in.
        return Resolved(
            self._here, (), b".", self._real() or b".", self._asked, os.fstat(self._here), self._as_directory
        )

    @property
    def _here(self) -> int:
        return self._way[-1][1] if self._way else self._workspace.descriptor

    def _real(self, *more: bytes) -> bytes:
        return b"/".join([name for name, _ in self._way] + list(more))

    def _status(self, part: bytes) -> os.stat_result | None:
        try:
            return os.stat(part, dir_fd=self._here, follow_symlinks=False)
        except FileNotFoundError:
            return None

    def _enter(self, part: bytes) -> None:
        try:
            descriptor = os.open(part, _DIRECTORY, dir_fd=self._here)
        except OSError as error:
            if error.errno in (errno.ENOTDIR, errno.ELOOP, errno.ENOENT):
                raise Moved from error  # it was a directory a moment ago
            raise refuse_os_error(error, "look up", self._asked) from error
        self._owned.callback(os.close, descriptor)
        self._way.append((part, descriptor))

    def _follow(self, part: bytes) -> None:
        self._links += 1
        if self._links > _LINKS:
            raise GateRefusal(
                "FS_SYMLINK_LOOP",
                f"{shown(self._asked)} runs through more than {_LINKS} links: they form a loop. "
                "Name the file itself instead of the link.",
            )
        try:
            target = os.readlink(part, dir_fd=self._here)
        except OSError as error:
            if error.errno in (errno.EINVAL, errno.ENOENT):
                raise Moved from error  # it was a link a moment ago
            raise refuse_os_error(error, "look up", self._asked) from error
        rest = target
        if target.startswith(b"/"):
            below = self._workspace.beneath(target)
            if below is None:
                raise outside(self._asked, f"is a link to {shown(target)}, outside the workspace")
            self._way.clear()
            rest = below
        if not self._todo and rest.endswith((b"/", b"/.")):
            self._as_directory = True
        self._todo.extendleft(reversed(_split(rest)))

    def _absent(self, part: bytes) -> Resolved:
        rest = [part, *self._todo]
        if b".." in rest:
            depth = len(self._way)
            for name in rest:
                depth += -1 if name == b".." else 1
                if depth < 0:
                    raise outside(self._asked, "leads out of the workspace")
            raise GateRefusal(
                "FS_NOT_FOUND",
                f"{shown(self._asked)} does not exist: there is no {shown(self._real(part))} that `..` could leave. "
                "Name the path without `..`.",
            )
        return self._resolved(tuple(rest[:-1]), rest[-1], None)

    def _resolved(self, missing: tuple[bytes, ...], name: bytes, status: os.stat_result | None) -> Resolved:
        return Resolved(self._here, missing, name, self._real(*missing, name), self._asked, status, self._as_directory)

    def _no_directory(self, part: bytes, status: os.stat_result) -> Resolved:
        """The end of a walk at something else than a directory. That it is there is not told of what is unseen."""
        with os_errors("look up", self._asked):
            if self._unseen is not None and self._unseen.hides_file(self._real(part), status):
                return self._absent(part)
        raise GateRefusal(
            "FS_NOT_DIRECTORY",
            f"{shown(self._asked)} cannot be reached: {shown(self._real(part))} is not a directory. "
            "Name the path of a file in a directory.",
        )
