"""The other names of a file: a hard link is the file itself, whatever it is called."""

import os
from collections.abc import Iterator

from stockade_daemon.gate.patterns import below
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
