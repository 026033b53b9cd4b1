"""Copies of workspaces, each of one session: what it changes is seen by nobody else, and gone at its end.

They lie in a private directory of the daemon, by the session's id, and end with the daemon.
"""

import asyncio
import logging
import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from weakref import WeakValueDictionary

from stockade_daemon.errors import ConfigurationError, RequestError
from stockade_daemon.gate.copying import SPARE, Copying, Stopped
from stockade_daemon.gate.effects.mark import committed
from stockade_daemon.gate.threads import finished
from stockade_daemon.gate.workspace import Workspace
from stockade_daemon.removing import remove_tree

_log = logging.getLogger(__name__)


class Copies:
    """Those of one daemon, in `place`."""

    def __init__(self, place: Path, *, spare: int = SPARE) -> None:
        """`spare`: bytes that a copy leaves free on the file system."""
        self._place = place
        self._spare = spare
        self._ending = False
        self._under_way: set[asyncio.Future[None]] = set()
        self._making: WeakValueDictionary[str, asyncio.Lock] = WeakValueDictionary()

    @asynccontextmanager
    async def kept(self) -> AsyncIterator[None]:
        """Makes the directory and removes what an earlier daemon left in it; at the end it is gone.

        Raises ConfigurationError.
        """
        try:
            await asyncio.to_thread(remove_tree, self._place)
            self._place.mkdir(mode=0o700)
        except OSError as error:
            raise ConfigurationError(
                f"{self._place}: cannot be made anew: {error.strerror}; move it away, or choose another --state"
            ) from error
        try:
            yield
        finally:
            self._ending = True
            if self._under_way:
                await asyncio.wait(self._under_way)
            try:
                await asyncio.to_thread(remove_tree, self._place)
            except OSError:
                _log.exception("copies of workspaces stay in %s until the next start", self._place)

    def making(self, session_id: str) -> asyncio.Lock:
        """Held while a session of this id is opened on a copy, so that one request makes it and the others find it."""
        return self._making.setdefault(session_id, asyncio.Lock())

    async def make(self, session_id: str, workspace: Workspace) -> None:
        """Copies the workspace. Raises RequestError with what cannot be copied; then nothing is left of it."""
        copying = asyncio.ensure_future(asyncio.to_thread(self._make, session_id, workspace))
        self._under_way.add(copying)
        copying.add_done_callback(self._under_way.discard)
        await finished(_result_of(copying))

    def open(self, session_id: str, path: str, called: tuple[int, int]) -> Workspace:
        """The session's copy of the workspace at `path`, whose device and inode are `called`.

        Raises RequestError FAILED_PRECONDITION where there is none any more.
        """
        place = self._of(session_id)
        try:
            descriptor = os.open(place, os.O_PATH | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
        except OSError as error:
            raise RequestError(
                "FAILED_PRECONDITION",
                f"session {session_id} worked on a copy of {path}, which is gone with the daemon that made it; open "
                "another session",
            ) from error
        return Workspace(path, descriptor, place=str(place), called=called)

    async def remove(self, session_id: str) -> None:
        """Removes the session's copy, if it has one. Raises OSError."""
        await asyncio.to_thread(remove_tree, self._of(session_id))

    def _of(self, session_id: str) -> Path:
        return self._place / f"of-{session_id}"  # an id may be "." or ".."

    def _make(self, session_id: str, workspace: Workspace) -> None:
        place = self._of(session_id)
        try:
            remove_tree(place)  # of a session that did not come to be
            place.mkdir(mode=0o700)
            target = os.open(place, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
            try:
                Copying(workspace.descriptor, target, spare=self._spare, stopped=lambda: self._ending).run()
            finally:
                os.close(target)
        except BaseException as error:
            with suppress(OSError):  # the next that is made of this id removes it
                remove_tree(place)
            if isinstance(error, Stopped):
                raise RequestError("FAILED_PRECONDITION", "the daemon is stopping; try again soon") from error
            if isinstance(error, OSError):
                raise RequestError(
                    "FAILED_PRECONDITION", f"the workspace cannot be copied: {error.strerror}"
                ) from error
            raise
        committed()  # what a command changes from here on is told from what this made by its time


async def _result_of(copying: "asyncio.Future[None]") -> None:
    await copying
