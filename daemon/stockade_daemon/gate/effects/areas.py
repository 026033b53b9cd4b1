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
        self._held: dict[bytes, int] = {}  # name → descriptor that holds its lock

    def note(self, name: bytes, workspace: Workspace) -> None:
        """Remembers an area that is going to be made. Raises OSError."""
        body = {"workspace": workspace.path, "device": workspace.device, "inode": workspace.inode}
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC
        for left in reversed(range(_TRIES)):
            self._place.mkdir(mode=0o700, parents=True, exist_ok=True)
            try:
                descriptor = os.open(self._of(name), flags, 0o600)
                break
            except FileNotFoundError:
                if not left:
                    raise  # else another daemon has just removed the empty directory
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            os.write(descriptor, json.dumps(body).encode())
        except BaseException:
            os.close(descriptor)
            raise
        self._held[name] = descriptor

    def forget(self, name: bytes) -> None:
        """The area is gone. Raises OSError."""
        self._of(name).unlink(missing_ok=True)
        with suppress(OSError):
            self._place.rmdir()  # only where it is empty
        descriptor = self._held.pop(name, None)
        if descriptor is not None:
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
                    _clear(json.loads(file.read()), note.name)
                    note.unlink()
            except BlockingIOError:
                continue  # of a daemon that is there
            except (OSError, ValueError, KeyError, TypeError, RequestError):
                _log.warning("what a transaction left cannot be removed now: %s", note, exc_info=True)

    def _of(self, name: bytes) -> Path:
        if not name.startswith(PREFIX.encode()) or b"/" in name:
            raise ValueError(f"{name!r} is no private name")
        return self._place / os.fsdecode(name)


def _clear(body: Any, name: str) -> None:
    with Workspace.open(str(body["workspace"])) as workspace:
        if (workspace.device, workspace.inode) != (body["device"], body["inode"]):
            return
        undo.recover(workspace, {"temporary": name})
        area = Area.find(workspace.descriptor, os.fsencode(name))
        if area is not None:
            area.remove()
