"""Hidden paths: names of the workspace that do not exist for a session.

A read and an edit of one are answered as those of a name that is not there; a write is refused, whether the name is
there or not, since it would replace what nobody may see. The gate compares the name as it was asked for, the real path
after links, and every name of a file that has several. Views of the workspace cover `names` (sandbox/covers.py).
"""

import os
import stat

from stockade_daemon.errors import GateRefusal
from stockade_daemon.gate import links
from stockade_daemon.gate.names import shown
from stockade_daemon.gate.paths import Resolved
from stockade_daemon.gate.patterns import Patterns, below
from stockade_daemon.gate.workspace import Workspace


class Hidden:
    """The patterns of one session."""

    __slots__ = ("_patterns", "_workspace")

    def __init__(self, workspace: Workspace, patterns: tuple[str, ...] = ()) -> None:
        self._workspace = workspace
        self._patterns = Patterns(patterns)

    def hides(self, path: bytes) -> bool:
        """Whether a path relative to the workspace, or a directory above it, is hidden by its name."""
        return self._patterns.match(path) is not None

    def holds(self, place: Resolved) -> bool:
        """Whether what was found is hidden, by whichever name. Raises OSError as links.names does."""
        if not self._patterns:
            return False
        if self.hides(place.asked) or self.hides(place.real):
            return True
        return place.status is not None and self.hides_file(place.real, place.status)

    def hides_file(self, path: bytes, status: os.stat_result) -> bool:
        """Whether what is at this path is hidden, by this name or another one. Raises OSError as links.names does."""
        if not self._patterns:
            return False
        if self.hides(path):
            return True
        if stat.S_ISDIR(status.st_mode) or status.st_nlink < 2:
            return False
        return any(self.hides(name) for name in links.names(self._workspace, status))

    def need(self, directory: bytes) -> int:
        """The permission bits that whoever covers `names` needs of a directory."""
        return stat.S_IRUSR | stat.S_IXUSR if self._patterns.look_into(directory) else 0

    def names(self) -> tuple[bytes, ...]:
        """All names that a view has to cover now: those that match, and other names of files that lie in them.

        Sorted; of what lies below one of them nothing. Raises OSError as `entries` does.
        """
        if not self._patterns:
            return ()
        covered = self._patterns.there(self._workspace)
        linked = {
            (status.st_dev, status.st_ino)
            for name in covered
            for status in self._files(name)
            if not stat.S_ISDIR(status.st_mode) and status.st_nlink > 1
        }
        if linked:
            covered |= {
                path
                for path, status in below(self._workspace, b"")
                if (status.st_dev, status.st_ino) in linked and not self.hides(path)
            }
        return tuple(sorted(covered))

    def _files(self, name: bytes) -> list[os.stat_result]:
        try:
            found = os.stat(name, dir_fd=self._workspace.descriptor, follow_symlinks=False)
        except OSError:
            return []  # gone since it was found
        return [found, *(status for _, status in below(self._workspace, name))]


def not_to_be_written(asked: bytes) -> GateRefusal:
    return GateRefusal(
        "FS_PROTECTED",
        f"{shown(asked)} is hidden by the profile, so nothing may be written there. Choose another name.",
    )
