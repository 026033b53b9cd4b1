"""Which workspaces have, or may have, a transaction's private directory in them: noted before it is made and forgotten
when it is gone, so that a later daemon finds what a kill has left, whatever became of the call and of its ledger.

A file for each, in a private directory of the user's, locked (flock(2)) by the daemon whose transaction it is. Only
what is noted here is taken up: a directory that somebody puts into a workspace is not.
"""

import fcntl
import json
import logging
import os
from contextlib import suppress
from pathlib import Path
from typing import Any, Final

from stockade_daemon.errors import RequestError
from stockade_daemon.gate.effects import undo
from stockade_daemon.gate.effects.area import Area
from stockade_daemon.gate.temporary import PREFIX
from stockade_daemon.gate.workspace import Workspace

_TRIES: Final = 5

_log = logging.getLogger(__name__)


class Areas:
    """The notes in `place`, a 0700 directory of this user that is there as long as there are notes. File work."""

    def __init__(self, place: Path) -> None:
        self._place = place
        self._made_parent = False  # what it lies in, too: a private daemon's user may have no state of his own
        self._held: dict[bytes, tuple[int, int]] = {}  # name → descriptors of the place, and of the locked note

    def note(self, name: bytes, workspace: Workspace) -> None:
        """Remembers an area that is going to be made. Raises OSError. A session's copy of a workspace is gone with the
        daemon, and the area in it."""
        if workspace.is_copy:
            return
        body = {"workspace": workspace.path, "device": workspace.device, "inode": workspace.inode}
        place, descriptor = self._opened(self._name(name))
        self._held[name] = place, descriptor
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        os.write(descriptor, json.dumps(body).encode())

    def forget(self, name: bytes) -> None:
        """The area is gone. Raises OSError."""
        (self._place / self._name(name)).unlink(missing_ok=True)
        with suppress(OSError):
            self._place.rmdir()  # only where it is empty
            if self._made_parent:
                self._place.parent.rmdir()
        self.leave(name)

    def leave(self, name: bytes) -> None:
        """The area could not be removed: its note is the next sweep's."""
        for descriptor in self._held.pop(name, ()):
            os.close(descriptor)

    def sweep(self) -> None:
        """Finishes or takes back what daemons that are gone have left, and removes it. Those whose ledger goes on have
        given their calls a result by then. What cannot be done is left for the next time, with a line in the log."""
        try:
            notes = sorted(self._place.iterdir())
        except FileNotFoundError:
            return
        for note in notes:
            try:
                with note.open("r+b") as file:
                    fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
                    if _clear(json.loads(file.read()), note.name):
                        note.unlink()
            except BlockingIOError:
                continue  # of a daemon that is there
            except (OSError, ValueError, KeyError, TypeError, RequestError):
                _log.warning("what a transaction left cannot be removed now: %s", note, exc_info=True)

    def _opened(self, name: str) -> tuple[int, int]:
        """Descriptors of the place, which stays open as long as it is ours, and of a new note. Raises OSError."""
        for left in reversed(range(_TRIES)):
            self._place.parent.parent.mkdir(parents=True, exist_ok=True)
            try:
                with suppress(FileExistsError):
                    self._place.parent.mkdir(mode=0o700)
                    self._made_parent = True
                self._place.mkdir(mode=0o700, exist_ok=True)
                place = os.open(self._place, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
            except FileNotFoundError:
                if left:
                    continue  # another daemon has just removed the empty directory
                raise
            try:
                return place, os.open(name, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600, dir_fd=place)
            except BaseException as error:
                os.close(place)
                if not left or not isinstance(error, FileNotFoundError):
                    raise
        raise AssertionError("the last try returns or raises")

    def _name(self, name: bytes) -> str:
        if not name.startswith(PREFIX.encode()) or b"/" in name:
            raise ValueError(f"{name!r} is no private name")
        return os.fsdecode(name)


def _clear(body: Any, name: str) -> bool:
    """Whether nothing of it is left to be done. What could not be taken back is never removed: old bytes are in it."""
    with Workspace.open(str(body["workspace"])) as workspace:
        if (workspace.device, workspace.inode) != (body["device"], body["inode"]):
            return True
        proof = undo.recover(workspace, {"temporary": name})
        area = Area.find(workspace.descriptor, os.fsencode(name))
        if area is None:
            return True
        if proof == "unknown":
            area.close()
            return False
        area.remove()
        return True
