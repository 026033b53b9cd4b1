"""Looks at the workspace that observe nothing: where a path leads, and the names in a directory."""

import stat
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from stockade_daemon.gate import listing, suggest
from stockade_daemon.gate.content import require_regular
from stockade_daemon.gate.hidden import Hidden
from stockade_daemon.gate.listing import Listed
from stockade_daemon.gate.paths import Resolved, resolve, spelled
from stockade_daemon.gate.refusals import os_errors
from stockade_daemon.gate.scratch import ScratchPaths
from stockade_daemon.gate.workspace import Workspace


@dataclass(frozen=True, slots=True)
class Located:
    """Where a path leads."""

    real: bytes  # relative to the workspace, links followed; `.` is the workspace itself
    directory: bool  # else a regular file


def locate(workspace: Workspace, hidden: Hidden, scratch: ScratchPaths, path: str) -> Located:
    """Raises GateRefusal by path, kind and permission; ArgumentsRefusal; Moved."""
    with _found(workspace, hidden, scratch, path) as place:
        assert place.status is not None
        directory = stat.S_ISDIR(place.status.st_mode)
        if not directory:
            require_regular(place)
        return Located(place.real, directory)


def entries(workspace: Workspace, hidden: Hidden, scratch: ScratchPaths, path: str, *, first: int, most: int) -> Listed:
    """Raises GateRefusal by path, kind and permission, FS_TOO_LARGE; ArgumentsRefusal; Moved."""
    with _found(workspace, hidden, scratch, path) as place:
        with os_errors("list", place.asked):
            covered = frozenset(hidden.names())

        def hides(name: bytes) -> bool:
            return name in covered or hidden.hides(name) or scratch.holds(name)

        return listing.window(place, first, most, hides=hides)


@contextmanager
def _found(workspace: Workspace, hidden: Hidden, scratch: ScratchPaths, path: str) -> Iterator[Resolved]:
    """What is there and neither hidden nor scratch. Raises GateRefusal FS_NOT_FOUND where nothing is."""
    asked = spelled(workspace, path)
    if hidden.hides(asked):
        raise suggest.not_found(workspace, asked, hidden)
    scratch.check(asked, writing=False)
    with resolve(workspace, path, hidden) as place:
        scratch.check(place.real, writing=False)
        with os_errors("look up", place.asked):
            absent = place.status is None or hidden.holds(place)
        if absent:
            raise suggest.not_found(workspace, place.asked, hidden)
        yield place
