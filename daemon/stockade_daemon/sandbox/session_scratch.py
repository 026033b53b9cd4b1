"""Scratch of sessions: directories that commands of one session share, in place of some of the workspace.

    PLACE/s-SESSION/SHA-256 of the path     what is mounted at the path

They outlive workers, templates and daemons, and belong to no process: on the disk all in them is the directory's
owner's, and a mount that maps ids shows it as the worker's of the moment. What is in them a worker has chosen, so
nothing here looks into one but to remove it, by descriptors and along no link.
"""

import asyncio
import hashlib
import os
import secrets
import threading
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from stockade_daemon.errors import ConfigurationError
from stockade_daemon.removing import remove_tree

_SESSION: Final = "s-"  # a session may be called `..`
_MAKING: Final = ".making-"
_GONE: Final = ".gone-"


@dataclass(frozen=True, slots=True)
class Kept:
    """One directory."""

    path: str  # where it is mounted, relative to the workspace
    place: str  # where it lies, absolute
    device: int  # with `inode` its identity
    inode: int
    owner: tuple[int, int]  # uid and gid of all that is in it


class SessionScratch:
    """Below `place`, an existing 0700 directory of the daemon. `owner`: a host uid that no process has; None: the
    daemon's own."""

    def __init__(self, place: Path, owner: int | None) -> None:
        self._place = place
        self._owner = owner
        # One removal at a time: it may be long, and calls want the same few threads.
        self._removing = asyncio.Lock()
        # Rooms of one session may begin at once, each in a thread: all have the directory that the first one made.
        self._making = threading.Lock()

    def make(self, session_id: str, paths: Sequence[str]) -> tuple[Kept, ...]:
        """The directories of a session for these paths; what is there stays as it is. File work. Raises OSError."""
        if not paths:
            return ()
        session = self._place / f"{_SESSION}{session_id}"
        session.mkdir(mode=0o700, exist_ok=True)
        with self._making:
            return tuple(self._made(session, path) for path in paths)

    def _made(self, session: Path, path: str) -> Kept:
        place = session / hashlib.sha256(path.encode()).hexdigest()
        if not place.exists():
            # Whole at once: a daemon that is killed in between leaves nothing with another owner.
            making = session / f"{_MAKING}{os.getpid()}-{place.name}"
            remove_tree(making)
            making.mkdir(mode=0o755)
            making.chmod(0o755)
            if self._owner is not None:
                os.chown(making, self._owner, self._owner)
            os.rename(making, place)
        found = place.stat()
        return Kept(path, os.fspath(place), found.st_dev, found.st_ino, (found.st_uid, found.st_gid))

    async def drop(self, session_id: str) -> Path | None:
        """Puts all that a session has out of reach, to be removed by `remove`; None: it has nothing. Raises OSError."""
        return await asyncio.to_thread(self._drop, f"{_SESSION}{session_id}")

    def _drop(self, name: str) -> Path | None:
        # Never an earlier daemon's name, whose tree may be under removal just now: in containers all have one pid.
        gone = self._place / f"{_GONE}{secrets.token_hex(8)}"
        try:
            os.rename(self._place / name, gone)
        except FileNotFoundError:
            return None
        return gone

    async def remove(self, gone: Path) -> None:
        """Raises OSError; the next start tries again."""
        async with self._removing:
            await asyncio.to_thread(remove_tree, gone)

    async def left(self, is_open: Callable[[str], Awaitable[bool]]) -> list[Path]:
        """After a start: what is of no open session, put out of reach. Raises ConfigurationError where it cannot be."""
        found = []
        try:
            for each in await asyncio.to_thread(lambda: sorted(self._place.iterdir())):
                if each.name.startswith(_GONE):
                    found.append(each)
                elif not each.name.startswith(_SESSION) or not await is_open(each.name.removeprefix(_SESSION)):
                    gone = await asyncio.to_thread(self._drop, each.name)
                    found += [gone] if gone is not None else []
        except OSError as error:
            raise ConfigurationError(f"{self._place}: what ended sessions kept cannot be removed: {error}") from error
        return found
