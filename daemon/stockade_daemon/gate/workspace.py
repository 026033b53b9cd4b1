"""The workspace: a directory held by descriptor, so that it stays the same whatever its path comes to mean."""

import os
from types import TracebackType
from typing import Self

from stockade_daemon.errors import RequestError


class Workspace:
    """A kept O_PATH descriptor of a directory, and the directory's identity. A context manager.

    `path` is absolute and free of links: what the workspace is called, and where it is inside of a worker. `place` is
    where the directory lies on the host: elsewhere where it is a copy (copies.py), else the same. `descriptor` belongs
    to this object; `device`, `inode` and `uid` (the owner's) are those of stat(2).
    """

    __slots__ = ("_called", "descriptor", "device", "inode", "path", "place", "uid")

    def __init__(
        self, path: str, descriptor: int, *, place: str | None = None, called: tuple[int, int] | None = None
    ) -> None:
        """`called`: device and inode of the directory that a copy was made of, which ways by other names lead to."""
        status = os.fstat(descriptor)
        self.path = path
        self.place = path if place is None else place
        self._called = called
        self.descriptor = descriptor
        self.device = status.st_dev
        self.inode = status.st_ino
        self.uid = status.st_uid

    @classmethod
    def open(cls, path: str) -> "Workspace":
        """The workspace at an absolute path, links followed.

        Raises RequestError: INVALID_ARGUMENT, NOT_FOUND or PERMISSION_DENIED.
        """
        if not path or "\0" in path or not os.path.isabs(path):
            raise RequestError(
                "INVALID_ARGUMENT", f"The workspace {path!r} is not an absolute path. Give the directory's full path."
            )
        try:
            real = os.path.realpath(path, strict=True)
            # realpath left no link; one that appears now is not followed, and leads nowhere else.
            descriptor = os.open(real, os.O_PATH | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
            _insist_on_place(descriptor, real)
        except FileNotFoundError as error:
            raise RequestError(
                "NOT_FOUND",
                f"The workspace {path!r} does not exist. Create the directory, or give another one.",
                code="FS_NOT_FOUND",
            ) from error
        except NotADirectoryError as error:
            raise RequestError(
                "INVALID_ARGUMENT",
                f"The workspace {path!r} is not a directory. Give the directory that holds the files.",
                code="FS_NOT_DIRECTORY",
            ) from error
        except PermissionError as error:
            raise _denied(path) from error
        except OSError as error:
            raise RequestError(
                "INVALID_ARGUMENT",
                f"The workspace {path!r} cannot be opened: {error.strerror}. Give another directory.",
            ) from error
        if not os.access(real, os.R_OK | os.X_OK):
            os.close(descriptor)
            raise _denied(path)
        return cls(real, descriptor)

    def beneath(self, path: bytes) -> bytes | None:
        """What is left of an absolute `path` below the workspace; None where it leads elsewhere.

        Directories are compared by identity, not by spelling, so any way to the workspace will do: through links
        above it or through another mount. The rest is only text; resolving it is paths.py's work.
        """
        root = os.fsencode(self.path).rstrip(b"/")
        if path.startswith(root + b"/") and b".." not in path[len(root) :].split(b"/"):
            return path[len(root) + 1 :]
        parts = path.split(b"/")
        for count in range(len(parts), 0, -1):
            try:
                status = os.stat(b"/".join(parts[:count]) or b"/")
            except OSError:
                continue
            if (status.st_dev, status.st_ino) in ((self.device, self.inode), self._called):
                return b"/".join(parts[count:])
        return None

    @property
    def is_copy(self) -> bool:
        """Whether it is a session's own copy, which nobody else uses and which ends with the session."""
        return self.place != self.path

    def again(self) -> "Workspace":
        """The same with a descriptor of its own. Raises OSError."""
        return Workspace(self.path, os.dup(self.descriptor), place=self.place, called=self._called)

    def close(self) -> None:
        """Lets the directory go; after the last call on it is over, since reads and commits work on the descriptor."""
        if self.descriptor >= 0:
            os.close(self.descriptor)
            self.descriptor = -1

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


def _insist_on_place(descriptor: int, real: str) -> None:
    """What was opened lies where it was judged to lie: whoever may write a directory above it could have put a link
    there meanwhile. Raises RequestError, and closes the descriptor."""
    at = ""
    try:
        at = os.readlink(f"/proc/self/fd/{descriptor}")
    finally:
        if at != real:
            os.close(descriptor)
    if at != real:
        raise RequestError(
            "FAILED_PRECONDITION",
            f"The workspace {real!r} became another directory while it was being opened. Repeat it when nobody moves "
            "directories above it.",
        )


def _denied(path: str) -> RequestError:
    return RequestError(
        "PERMISSION_DENIED",
        f"The daemon's user {os.geteuid()} may not read and search the workspace {path!r}. "
        "Grant it access, or give another directory.",
        code="FS_PERMISSION_DENIED",
    )
