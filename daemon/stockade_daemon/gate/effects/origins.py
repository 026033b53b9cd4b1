"""Where what is in an upper directory was in the workspace: by the overlay's redirects of directories, and by the file
handles that its copies keep.
"""

import os
import stat

from stockade_daemon.gate import syscalls
from stockade_daemon.gate.effects.survey import Survey, conflict
from stockade_daemon.gate.effects.upper import Found
from stockade_daemon.gate.names import joined


class Origins:
    """Of one upper directory. Raises GateRefusal FS_CONFLICT where a directory that moved has gone; OSError."""

    def __init__(self, found: list[Found], survey: Survey) -> None:
        self._found = found
        self._survey = survey
        self.lower_of: dict[bytes, bytes | None] = {}  # of each directory; None: it is new
        self.moved: dict[bytes, os.stat_result] = {}  # source → what moves
        self.gone: list[tuple[bytes, os.stat_result, bytes]] = []  # files: lower path, status, path
        self.originals: dict[bytes, bytes] = {}  # names of one file → the one that it had before
        self.by_handle: dict[tuple[int, bytes], tuple[bytes, os.stat_result, bytes]] = {}
        self._find_moves()
        self._find_names()

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

    def _find_names(self) -> None:
        """Which names are to be names of one file. A copy of a file that is still called as it was is that file, and
        so are all its names; and a file that lost one of several names for another keeps those it had besides."""
        groups: dict[int, list[Found]] = {}
        for found in self._found:
            if found.whiteout and (lower := self.lower(found.path)) is not None:
                status = self._survey.workspace.status(lower)
                if status is not None and stat.S_ISREG(status.st_mode):
                    self.gone.append((lower, status, found.path))
            elif stat.S_ISREG(found.status.st_mode) and found.copied:
                groups.setdefault(found.status.st_ino, []).append(found)
        for names in groups.values():
            stays = next((each for each in names if self._is_copy_of_its_own(each)), None)
            if stays is not None and len(names) > 1:
                self.originals |= {each.path: stays.path for each in names}
        arrived = [names for names in groups.values() if names[0].origin and names[0].path not in self.originals]
        if self.gone and arrived:
            for lower, status, path in self.gone:
                handle = syscalls.handle_of(*self._survey.workspace.at(lower))
                if handle is not None:
                    self.by_handle[handle] = lower, status, path

    def _is_copy_of_its_own(self, found: Found) -> bool:
        lower = self.lower(found.path)
        status = None if lower is None else self._survey.workspace.status(lower)
        return status is not None and stat.S_ISREG(status.st_mode)

    def lower(self, path: bytes) -> bytes | None:
        """What a name was in the workspace, by where its directory was; None in a new directory."""
        above, _, name = path.rpartition(b"/")
        under = self.lower_of[above]
        return None if under is None else joined(under, name)
