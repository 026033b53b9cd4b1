"""What a room has at the mounter: its workspace and the directories that its session keeps as scratch."""

import asyncio
import errno
import logging
import os
from collections.abc import Callable
from contextlib import AsyncExitStack, suppress
from dataclasses import dataclass
from typing import TypeAlias

from stockade_daemon.errors import SandboxFailure
from stockade_daemon.sandbox.channel import ChannelClosed
from stockade_daemon.sandbox.mounter import Mounter
from stockade_daemon.sandbox.session_scratch import Kept
from stockade_daemon.values import Profile

_log = logging.getLogger(__name__)
# Makes the directories that a session keeps, in a thread. Raises OSError.
Keeping: TypeAlias = Callable[[tuple[str, ...]], tuple[Kept, ...]]
# Where id-mapped mounts are not to be had: an old kernel, a file system that does not know them, a user namespace,
# or no further user namespace (ENOSPC), for which the template then has better words.
_NO_IDMAP = {errno.EINVAL, errno.EPERM, errno.EOPNOTSUPP, errno.ENOSYS, errno.ENOSPC}


@dataclass(frozen=True, slots=True)
class Place:
    """A workspace directory and its identity."""

    path: str
    device: int
    inode: int
    inside: str = ""  # where workers have it; empty: at the same path


class Attached:
    """The workspace and the scratch of one room, as the mounter has them while a template of it is there."""

    def __init__(
        self, key: int, profile: Profile, place: Place, *, mounter: Mounter, session_id: str, keeping: Keeping
    ) -> None:
        self.place = place
        self.mode = 0o755  # of the workspace's directory
        self._key = key
        self._profile = profile
        self._mounter = mounter
        self._session_id = session_id
        self._keeping = keeping
        self._kept = 0  # how many directories the mounter keeps for the session's scratch
        self._unkept = ""  # why it cannot
        self._uid: int | None = None  # the worker's
        self._owner: tuple[int, int] | None = None  # of the workspace, where it looks like the worker

    async def attach(self, uid: int | None, stack: AsyncExitStack) -> None:
        """Has the mounter keep both for workers of this uid, until the stack is closed. Raises SandboxFailure."""
        self._uid = uid
        await self._attach(self.place, stack)
        await self._keep_scratch()

    async def _attach(self, place: Place, stack: AsyncExitStack) -> None:
        """Has the mounter keep the workspace; its owner looks like the worker where the two differ on the host."""
        found = await asyncio.to_thread(os.stat, place.path)
        self.mode = found.st_mode
        owner = None if self._uid is None else [found.st_uid, found.st_gid]
        request = {"key": self._key, "path": place.path, "device": place.device, "inode": place.inode}
        try:
            await self._mounter.ask("workspace", {**request, "owner": owner, "worker": self._uid})
            self._owner = None if owner is None else (found.st_uid, found.st_gid)
        except OSError as error:
            if owner is None or error.errno not in _NO_IDMAP:
                raise SandboxFailure(
                    "SANDBOX_FAILED", f"the workspace cannot be mounted for workers: {error}"
                ) from error
            _log.warning("%s cannot be id-mapped (%s): workers see its files as somebody else's", place.path, error)
            await self._mounter.ask("workspace", {**request, "owner": None, "worker": None})
            self._owner = None
        stack.push_async_callback(self._forget)

    async def _keep_scratch(self) -> None:
        """Has the mounter keep the session's scratch as well, owned by the worker of now."""
        before, self._kept, self._unkept = self._unkept, 0, ""
        if not self._profile.scratch:
            return
        try:
            for number, each in enumerate(await asyncio.to_thread(self._keeping, self._profile.scratch)):
                request = {"key": self._key, "number": number, "path": each.place}
                request |= {"device": each.device, "inode": each.inode, "worker": self._uid}
                await self._mounter.ask("scratch", {**request, "owner": None if self._uid is None else each.owner})
                self._kept += 1
        except OSError as error:
            # Functions do without.
            self._unkept = (
                f"profile {self._profile.name} has `filesystem.scratch`, and the directories for it cannot be mounted: "
                f"{error}. A daemon of root needs a state directory on a file system that knows id-mapped mounts "
                "(ext4, xfs, btrfs, tmpfs): choose another --state, or take the key out of the profile"
            )
            if self._unkept != before:
                _log.warning("session %s: %s", self._session_id, self._unkept)

    async def _forget(self) -> None:
        # A mounter that was started again has nothing to forget.
        with suppress(OSError, ChannelClosed):
            await self._mounter.ask("forget", {"key": self._key, "scratch": list(range(self._kept))})

    def numbers(self, points: tuple[bytes, ...]) -> list[int]:
        """Which of the kept directories go to these points. Raises SandboxFailure where none are kept."""
        if points and self._unkept:
            raise SandboxFailure("SANDBOX_UNAVAILABLE", self._unkept)
        return [self._profile.scratch.index(each.decode()) for each in points]

    def ids(self, uid: int, gid: int) -> tuple[int, int]:
        """What the owner of a file of the workspace is for workers (worker/idmap.py)."""
        if self._owner is None or self._uid is None:
            return uid, gid
        swapped = [
            self._uid if each == owner else owner if each == self._uid else each
            for each, owner in zip((uid, gid), self._owner, strict=True)
        ]
        return swapped[0], swapped[1]
