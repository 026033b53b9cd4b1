"""Scratch paths: directories of the workspace that are not the workspace's for a session (filesystem.scratch).

In their place commands have directories that the session keeps (sandbox/session_scratch.py). So the gate has nothing
there: it reads, lists and writes nothing at such a path, and no transaction touches one.
"""

import stat

from stockade_daemon.errors import GateRefusal
from stockade_daemon.gate.names import encoded, shown


class ScratchPaths:
    """Those of one session."""

    __slots__ = ("_paths",)

    def __init__(self, paths: tuple[str, ...] = ()) -> None:
        self._paths = tuple(map(encoded, paths))

    def holds(self, path: bytes) -> bool:
        """Whether a path relative to the workspace is one of them, or lies below one."""
        return any(path == each or path.startswith(each + b"/") for each in self._paths)

    def check(self, path: bytes, *, writing: bool) -> None:
        """Raises GateRefusal where a path is scratch: FS_PROTECTED for a write, else FS_PERMISSION_DENIED."""
        if not self.holds(path):
            return
        what = f"{shown(path)} is scratch: the session keeps it beside the workspace, and only commands"
        if writing:
            remedy = "Write it with a command in `shell`, or choose another name."
            raise GateRefusal("FS_PROTECTED", f"{what} write it. {remedy}")
        raise GateRefusal("FS_PERMISSION_DENIED", f"{what} see it. Look at it with a command in `shell`.")

    def need(self, directory: bytes) -> int:
        """The permission bits that whoever makes a view with these needs of a directory."""
        above = directory + b"/" if directory else b""
        return stat.S_IXUSR if any(each.startswith(above) for each in self._paths) else 0

    def check_transaction(self, path: bytes) -> None:
        """Raises GateRefusal FS_PROTECTED where a changed path is scratch, which no command could have seen."""
        if self.holds(path):
            raise GateRefusal(
                "FS_PROTECTED",
                f"{shown(path)} is scratch and never committed, so nothing of what the command changed was. It was in "
                "the workspace all the same: made before its directory was there for a mount, or moved with the "
                "directory that it lies in. Make that directory in a command of its own, and leave it where it is.",
            )
