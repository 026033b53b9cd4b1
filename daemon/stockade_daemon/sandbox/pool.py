"""The pool: rooms by session, workers prepared ahead of need, an end for all of them."""

import asyncio
import logging
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path

from stockade_daemon.errors import ConfigurationError, SandboxFailure
from stockade_daemon.sandbox import uids
from stockade_daemon.sandbox.cgroups import Cgroups
from stockade_daemon.sandbox.mounter import IN_PLACE, Mounter, NamespacesRefused
from stockade_daemon.sandbox.room import Hidden, Place, Room
from stockade_daemon.sandbox.scratch import ScratchRoom
from stockade_daemon.sandbox.survey import Survey, survey
from stockade_daemon.sandbox.worker import Worker
from stockade_daemon.values import Access, Layer, Profile

_log = logging.getLogger(__name__)
_IDLE_S = 60.0  # a template that long without a call is ended: it is about as much memory as a worker


class Pool:
    """Gives workers to calls. Everything in it runs on one event loop."""

    def __init__(
        self,
        mounter: Mounter,
        scratch: ScratchRoom,
        allotment: uids.UidAllotment,
        cgroups: Cgroups,
        tasks: asyncio.TaskGroup,
    ) -> None:
        self._mounter = mounter
        self._scratch = scratch
        self._uids = allotment
        self._cgroups = cgroups
        self._tasks = tasks
        self._rooms: dict[str, Room] = {}
        self._number = 0
        self._closing = False

    @classmethod
    @asynccontextmanager
    async def start(cls, state: Path, *, cgroups: bool = True) -> AsyncIterator["Pool"]:
        """A pool whose private directories lie in `state`. At the end no worker, template or mounter is left.

        `cgroups` is false in tests that show how things are without control groups.
        """
        places = {name: state / name for name in ("mounts", "scratch")}
        for place in places.values():
            try:
                place.mkdir(mode=0o700, exist_ok=True)
            except OSError as error:
                raise ConfigurationError(
                    f"{place}: cannot be made: {error.strerror}; move it away, or choose another --state"
                ) from error
        scratch = ScratchRoom(places["scratch"])
        await asyncio.to_thread(scratch.clean)
        async with (
            Cgroups.start(wanted=cgroups) as groups,
            _mounter(places["mounts"]) as (mounter, host_uids),
            asyncio.TaskGroup() as tasks,
        ):
            pool = cls(mounter, scratch, uids.UidAllotment(host_uids), groups, tasks)
            sweeper = tasks.create_task(pool._retire_idle())
            try:
                yield pool
            finally:
                pool._closing = True
                sweeper.cancel()
                # All at once: each waits for processes to be gone, and there may be hundreds.
                async with asyncio.TaskGroup() as closing:
                    for session_id in list(pool._rooms):
                        closing.create_task(pool.close_room(session_id))

    def open_room(self, session_id: str, profile: Profile, place: Place | None, *, hidden: Hidden = None) -> None:
        """Makes room for a session. Nothing is started before its first call.

        `hidden` looks for the names of the place that views must not show, each time that one is made.
        """
        if session_id not in self._rooms:
            self._number += 1
            self._rooms[session_id] = Room(
                self._number,
                profile,
                place,
                mounter=self._mounter,
                scratch=self._scratch,
                uids=self._uids,
                cgroups=self._cgroups,
                hidden=hidden,
            )

    async def close_room(self, session_id: str) -> None:
        room = self._rooms.pop(session_id, None)
        if room is not None:
            await room.close()

    @asynccontextmanager
    async def worker(self, session_id: str, access: Access) -> AsyncIterator[Worker]:
        """A worker for one call. Afterwards it is ended in the background and another is prepared in its place.

        Raises SandboxFailure. A caller that needs what the worker wrote waits for `worker.gone()` itself. One that is
        cancelled while it waits for the worker goes at once; the worker is then for the next call.
        """
        room = self._rooms.get(session_id)
        if room is None or self._closing:
            raise SandboxFailure("SANDBOX_FAILED", "the session is closing; nothing was run")
        room.busy += 1
        try:
            # A task of its own, because what is half made must not be dropped: a process, mounts, a host uid.
            taking = self._tasks.create_task(_taken(room, access))
            try:
                worker = await asyncio.shield(taking)
            except asyncio.CancelledError:
                self._tasks.create_task(_keep(room, access, taking))
                raise
            if isinstance(worker, Exception):
                raise worker
            watching = self._tasks.create_task(_watched(worker))
            try:
                yield worker
            finally:
                watching.cancel()
                worker.kill()
                # Not awaited: the caller has what it wants, and a reply must not wait for a process to die.
                self._tasks.create_task(self._finish(session_id, room, worker, access))
        finally:
            room.busy -= 1

    async def probe(self, profile: Profile, access: Access = Access.NONE) -> tuple[Layer, ...]:
        """The layers that a worker of this profile really gets on this host, shown by making one; for other access than
        none, in an empty workspace.

        Raises SandboxFailure with the reason where it gets none.
        """
        name = f"probe:{profile.digest}:{access}"
        async with AsyncExitStack() as stack:
            place = None
            if access is not Access.NONE:
                path = await self._empty_directory(stack)
                found = await asyncio.to_thread(path.stat)
                place = Place(str(path), found.st_dev, found.st_ino)
            self.open_room(name, profile, place)
            stack.push_async_callback(self.close_room, name)
            async with self.worker(name, access) as worker:
                return worker.layers

    async def survey(self, workspaces: tuple[Path, ...]) -> Survey:
        """What the kernel gives to this daemon. `workspaces`: directories whose file systems are asked about too.

        Raises InfrastructureFailure where the program that asks cannot be run.
        """
        async with AsyncExitStack() as stack:
            place = await self._empty_directory(stack)
            return await survey(place, workspaces, self._uids.range, self._mounter.mode)

    async def _empty_directory(self, stack: AsyncExitStack) -> Path:
        """Of the daemon's own, on the file system of its state; removed at the end."""
        scratch = self._scratch.bare()
        stack.push_async_callback(scratch.remove)
        return scratch.path

    async def _finish(self, session_id: str, room: Room, worker: Worker, access: Access) -> None:
        try:
            await worker.close()
            if not self._closing and self._rooms.get(session_id) is room:
                await room.prepare(access)
        except Exception:
            if self._closing or self._rooms.get(session_id) is not room:
                return  # nobody is there any more to want the next worker
            # The next call that needs a worker meets the fault itself, and says so in its result.
            _log.exception("preparing the next worker failed")

    async def _retire_idle(self) -> None:
        loop = asyncio.get_running_loop()
        while True:
            await asyncio.sleep(_IDLE_S / 4)
            for room in list(self._rooms.values()):
                if not room.busy and loop.time() - room.used > _IDLE_S:
                    try:
                        await room.retire()
                    except Exception:
                        # One session's scratch that cannot be removed must not end the others; the next start tries.
                        _log.exception("a session at rest could not be put away")


@asynccontextmanager
async def _mounter(place: Path) -> AsyncIterator[tuple[Mounter, uids.UidRange | None]]:
    """The best mounter that the host lets us have, and the host uids that go with it. Raises SandboxFailure."""
    async with AsyncExitStack() as stack:
        host_uids = uids.available()
        try:
            worker = None if host_uids is None else host_uids.first
            best = Mounter.start(place, mode="user" if worker is None else "root", worker=worker)
            mounter = await stack.enter_async_context(best)
        except NamespacesRefused as refusal:
            _log.warning(
                "%s Until then commands are refused, and functions run in place: under profiles that do not "
                "require the missing layers, kept by Landlock, the system-call filter and limits alone",
                refusal.message.removesuffix(".") + ".",
            )
            host_uids = uids.available(in_place=True)
            mounter = await stack.enter_async_context(Mounter.start(place, mode=IN_PLACE))
        yield mounter, host_uids


async def _taken(room: Room, access: Access) -> Worker | Exception:
    """Returned, not raised: in a task group that would end everything else."""
    try:
        return await room.take(access)
    except Exception as error:
        return error


async def _keep(room: Room, access: Access, taking: asyncio.Task[Worker | Exception]) -> None:
    """A worker whose call has gone is for the next one; that one also meets the fault if there is none."""
    taken = await taking
    if isinstance(taken, Worker):
        try:
            await room.keep(access, taken)
        except Exception:
            _log.exception("a worker that nobody wanted could not be put away")


async def _watched(worker: Worker) -> None:
    """A worker whose limits cannot be watched any more is ended, and nobody else."""
    try:
        await worker.watch()
    except Exception:
        _log.exception("a worker could not be watched")
        worker.kill()
