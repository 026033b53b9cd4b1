"""The other names of a file: a hard link is the file itself, whatever it is called."""

import os
from collections.abc import Iterable, Iterator

from stockade_daemon.errors import GateRefusal
from stockade_daemon.gate.locks import Key
from stockade_daemon.gate.paths import resolve
from stockade_daemon.gate.patterns import below
from stockade_daemon.gate.refusals import Moved
from stockade_daemon.gate.workspace import Workspace


def names(workspace: Workspace, status: os.stat_result) -> Iterator[bytes]:
    """Every name that a file has in the workspace. Looks through all of it, so it is for files that have several.

    Raises OSError as `entries` does.
    """
    found = 0
    for path, each in below(workspace, b""):
        if (each.st_dev, each.st_ino) == (status.st_dev, status.st_ino):
            found += 1
            yield path
            if found == status.st_nlink:
                return


def among(workspace: Workspace, status: os.stat_result, paths: Iterable[bytes]) -> list[bytes]:
    """Those of `paths`, real ones, that are names of the file now. Looks at these alone."""
    found = []
    for path in paths:
        try:
            with resolve(workspace, path) as place:
                if place.real == path and place.status is not None and os.path.samestat(place.status, status):
                    found.append(path)
        except (GateRefusal, Moved):
            continue
    return found


def keys(status: os.stat_result | None) -> list[Key]:
    """The lock of a file that is there, by whichever name. Always taken after that of a name."""
    return [] if status is None else [("file", f"{status.st_dev}:{status.st_ino}")]
