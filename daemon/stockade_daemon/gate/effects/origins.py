"""Where what is in an upper directory was in the workspace: by the overlay's redirects of directories, and by the file
handles that its copies keep.
"""

import os
import stat
from collections.abc import Iterator

from stockade_daemon.gate import syscalls
from stockade_daemon.gate.effects.survey import Survey, conflict
from stockade_daemon.gate.effects.upper import Found
from stockade_daemon.gate.names import joined


class Origins:
    """Of one upper directory. Raises GateRefusal FS_CONFLICT where a directory that moved has gone; OSError."""

    def __init__(self, found: list[Found], survey: Survey, *, orphans: bool = False) -> None:
        self._found = found
        self._survey = survey
        self.lower_of: dict[bytes, bytes | None] = {}  # of each directory; None: it is new
        self.moved: dict[bytes, os.stat_result] = {}  # source → what moves
        self.gone: list[tuple[bytes, os.stat_result, bytes]] = []  # files: lower path, status, path
        self.originals: dict[bytes, bytes] = {}  # names of one file → the one that it had before
        self.by_handle: dict[tuple[int, bytes], tuple[bytes, os.stat_result, bytes]] = {}
        self.replaced: set[bytes] = set()  # names of files that something else has now
        self._gone_directories: list[tuple[bytes, bytes]] = []  # lower path, path
        self._find_moves()
        self._find_names(orphans)

    def _find_moves(self) -> None:
        """Where directories came from, before anything is judged: what has moved away is not what is covered."""
        lower: dict[bytes, bytes | None] = {b"": b""}
        for found in self._found:
            if not found.path or not found.directory:
                continue
            above, _, name = found.path.rpartition(b"/")
            under = lower[above]
            own = None if under is None else joined(under, name)
            if found.redirect is not None:
                source = found.redirect[1:] if found.redirect.startswith(b"/") else joined(under or b"", found.redirect)
                lower[found.path] = source
                if source != own:
                    status = self._survey.unchanged(source)
                    if status is None or not stat.S_ISDIR(status.st_mode):
                        raise conflict(source, "was moved or removed by another program")
                    self.moved[source] = status
            else:
                lower[found.path] = own if found.copied and not found.opaque else None
        self.lower_of = lower

    def _find_names(self, orphans: bool) -> None:
        """Which names are to be names of one file. A copy of a file that is still called as it was is that file, and
        so are all its names; and a file that lost one of several names for another keeps those it had besides."""
        groups: dict[int, list[Found]] = {}
        for found in self._found:
            if found.path:
                self._find_gone(found)
            if stat.S_ISREG(found.status.st_mode) and found.copied:
                groups.setdefault(found.status.st_ino, []).append(found)
        for names in groups.values():
            stays = next((each for each in names if self.is_copy_of_its_own(each)), None)
            if stays is not None and len(names) > 1:
                self.originals |= {each.path: stays.path for each in names}
        arrived = [names for names in groups.values() if names[0].origin and names[0].path not in self.originals]
        if arrived or orphans:
            for lower, status, path in (*self._gone_with_directories(), *self.gone):
                handle = syscalls.handle_of(*self._survey.workspace.at(lower))
                if handle is not None:
                    self.by_handle[handle] = lower, status, path

    def _find_gone(self, found: Found) -> None:
        """Notes a file, or a directory, that no longer has its name."""
        lower = self.lower(found.path)
        if found.directory and self.lower_of[found.path] is not None:
            return  # it is, or covers, the one that is there
        status = None if lower is None or lower in self.moved else self._survey.workspace.status(lower)
        if lower is None or status is None:
            return
        if stat.S_ISDIR(status.st_mode):
            self._gone_directories.append((lower, found.path))
        elif stat.S_ISREG(status.st_mode) and not (found.copied and self.is_copy_of_its_own(found)):
            self.gone.append((lower, status, found.path))
            if not found.whiteout:
                self.replaced.add(found.path)

    def _gone_with_directories(self) -> Iterator[tuple[bytes, os.stat_result, bytes]]:
        """Files with several names that had one of them in a directory that is gone."""
        for lower, path in self._gone_directories:
            for inner, status in self._survey.workspace.below(lower):
                if status is not None and stat.S_ISREG(status.st_mode) and status.st_nlink > 1:
                    yield inner, status, path + inner[len(lower) :]

    def is_copy_of_its_own(self, found: Found) -> bool:
        """Whether something is a copy of the file that the workspace has at its name, as far as the overlay tells."""
        lower = self.lower(found.path)
        status = None if lower is None else self._survey.workspace.status(lower)
        if lower is None or status is None or not stat.S_ISREG(status.st_mode) or not found.copied:
            return False
        handle = None if found.origin is None else syscalls.handle_of(*self._survey.workspace.at(lower))
        return handle is None or handle == found.origin

    def lower(self, path: bytes) -> bytes | None:
        """What a name was in the workspace, by where its directory was; None in a new directory."""
        above, _, name = path.rpartition(b"/")
        under = self.lower_of[above]
        return None if under is None else joined(under, name)
