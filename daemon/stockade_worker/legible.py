"""Whether the uid that a worker has may read what it runs from: after an installation with umask 077 it may not."""

import os


class Illegible(PermissionError):
    """Says which uid cannot read what; `directory` is the whole that is to be opened to others."""

    def __init__(self, path: str, directory: str) -> None:
        super().__init__(f"uid {os.getuid()} cannot read {path}")
        self.directory = directory


def refuse(directory: str, *, place: str | None = None) -> None:
    """Raises Illegible where this process cannot read the directory.

    `place`: where it is for this process, if elsewhere; the error names it as the host does.
    """
    if not os.access(place or directory, os.R_OK | os.X_OK):
        raise Illegible(directory, directory)


def refuse_package(directory: str, *, place: str | None = None) -> None:
    """Raises Illegible where this process cannot read a package's directories and modules, else as `refuse`.

    Compiled files need not be read, and others may lie about (an editor's own are closed to others).
    """
    here = place or directory
    refuse(directory, place=here)
    for above, names, files in os.walk(here):
        names[:] = [name for name in names if name != "__pycache__"]
        for name in (*names, *(each for each in files if each.endswith(".py"))):
            path = os.path.join(above, name)
            if not os.access(path, os.R_OK | (os.X_OK if name in names else 0)):
                raise Illegible(os.path.normpath(os.path.join(directory, os.path.relpath(path, here))), directory)
