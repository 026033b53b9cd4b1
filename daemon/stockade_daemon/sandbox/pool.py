"""The pool: rooms by session and profile, workers prepared ahead of need, an end for all of them."""

import asyncio
import logging
from collections import deque
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

from stockade_daemon.errors import ConfigurationError, SandboxFailure
from stockade_daemon.sandbox import bytecode, uids
from stockade_daemon.sandbox.attached import Place
from stockade_daemon.sandbox.cgroups import Cgroups
from stockade_daemon.sandbox.differing import Hidden
from stockade_daemon.sandbox.mounter import IN_PLACE, Mounter, NamespacesRefused
from stockade_daemon.sandbox.room import Room
from stockade_daemon.sandbox.scratch import ScratchRoom
from stockade_daemon.sandbox.session_scratch import SessionScratch
from stockade_daemon.sandbox.shelf import Shelf
from stockade_daemon.sandbox.survey import Survey, survey
from stockade_daemon.sandbox.worker import Worker
from stockade_daemon.values import Access, Layer, Profile

_log = logging.getLogger(__name__)
_IDLE_S = 60.0  # a template that long without a call is ended: it is about as much memory as a worker
_MOST_BESIDE = 4  # rooms of a session for calls under other profiles, kept for the next such call


@dataclass(slots=True)
class _Rooms:
    """One session's: that of its profile, and those of calls under another one."""

    session_id: str
    place: Place | None
    current: str  # the digest of the session's profile
    whose: str  # a principal's name, or empty
    by_digest: dict[str, Room] = field(default_factory=dict)
    past: deque[str] = field(default_factory=lambda: deque(maxlen=16))  # digests that no new call has, the latest ones

    @property
    def own(self) -> Room:
        return self.by_digest[self.current]


class Pool:
    """Gives workers to calls. Everything in it runs on one event loop."""

    def __init__(
        self,
        mounter: Mounter,
        scratch: ScratchRoom,
        kept: SessionScratch,
        shelf: Shelf,
        cgroups: Cgroups,
        tasks: asyncio.TaskGroup,
    ) -> None:
        self._mounter = mounter
        self._scratch = scratch
        self._kept = kept
        self._shelf = shelf
        self._cgroups = cgroups
        self._tasks = tasks
        self._sessions: dict[str, _Rooms] = {}
        self._number = 0
        self._closing = False

    @classmethod
    @asynccontextmanager
    async def start(cls, state: Path, *, cgroups: bool = True) -> AsyncIterator["Pool"]:
        """A pool whose private directories lie in `state`. At the end no worker, template or mounter is left.

        `cgroups` is false in tests that show how things are without control groups.
        """
        places = {name: state / name for name in ("mounts", "scratch", "session-scratch")}
        for place in places.values():
            try:
                place.mkdir(mode=0o700, exist_ok=True)
            except OSError as error:
                raise ConfigurationError(
                    f"{place}: cannot be made: {error.strerror}; move it away, or choose another --state"
                ) from error
        scratch = ScratchRoom(places["scratch"])
        await asyncio.to_thread(scratch.clean)
        await asyncio.to_thread(bytecode.prepare)
        async with (
            Cgroups.start(wanted=cgroups) as groups,
            _mounter(places["mounts"]) as (mounter, host_uids),
            Shelf.open(mounter, uids.UidAllotment(host_uids)) as shelf,
            asyncio.TaskGroup() as tasks,
        ):
            kept = SessionScratch(places["session-scratch"], shelf.uids.of_nobody)
            pool = cls(mounter, scratch, kept, shelf, groups, tasks)
            sweeper = tasks.create_task(pool._retire_idle())
            try:
                yield pool
            finally:
                pool._closing = shelf.closing = True
                sweeper.cancel()
                # All at once: each waits for processes to be gone, and there may be hundreds.
                async with asyncio.TaskGroup() as closing:
                    for session_id in list(pool._sessions):
                        closing.create_task(pool.close_room(session_id))

    def open_room(
        self, session_id: str, profile: Profile, place: Place | None, *, hidden: Hidden = None, whose: str = ""
    ) -> None:
        """Makes room for a session, under this profile from now on. Nothing is started before its first call.

        `whose`: of a principal, whose other sessions may have its templates when it is over; empty: nobody has.
        `hidden` looks for the names of the place that views must not show, each time that one is made. The room of
        another profile that the session had before is closed when its last call is over.
        """
        rooms = self._sessions.setdefault(session_id, _Rooms(session_id, place, profile.digest, whose))
        self._room(rooms, profile, hidden)
        if profile.digest != rooms.current:
            rooms.current = profile.digest
            rooms.past.extend(rooms.by_digest)
            while profile.digest in rooms.past:
                rooms.past.remove(profile.digest)
            for digest in list(rooms.by_digest):
                self._leave(rooms, digest)

    async def close_room(self, session_id: str, *, for_good: bool = False) -> None:
        """Closes all rooms of a session. `for_good`: it does not come back, and what it kept as scratch goes."""
        rooms = self._sessions.pop(session_id, None)
        if rooms is not None:
            async with AsyncExitStack() as stack:
                for room in rooms.by_digest.values():
                    stack.push_async_callback(room.close)
        if for_good:
            try:
                gone = await self._kept.drop(session_id)
            except OSError:
                _log.exception("what session %s kept stays until the next start", session_id)
            else:
                self._removed([gone] if gone is not None else [])

    async def tidy(self, is_open: Callable[[str], Awaitable[bool]]) -> None:
        """After a start: what sessions kept that are open no more goes. Raises ConfigurationError."""
        self._removed(await self._kept.left(is_open))

    def _removed(self, gone: Sequence[Path]) -> None:
        # Nobody waits: it may be a million files, and the names are free already.
        for each in gone:
            self._tasks.create_task(_removed(self._kept, each))

    @asynccontextmanager
    async def worker(
        self,
        session_id: str,
        access: Access,
        *,
        profile: Profile | None = None,
        hidden: Hidden = None,
        follow: bool = False,
        job: bool = False,
    ) -> AsyncIterator[Worker]:
        """A worker for one call. Afterwards it is ended in the background and another is prepared in its place.

        `profile` and `hidden` are the call's, where they need not be the session's of now. The room of an earlier one
        is closed when the last call in it is over; that of a narrower one stays for a while, as others may want it.
        `follow`: where the worker's view of the workspace is for looking, it goes on to show what others change. `job`:
        what is scratch is there for it all the same.

        Raises SandboxFailure. A caller that needs what the worker wrote waits for `worker.gone()` itself. One that is
        cancelled while it waits for the worker goes at once; the worker is then for the next call.
        """
        rooms = self._sessions.get(session_id)
        if rooms is None or self._closing:
            raise SandboxFailure("SANDBOX_FAILED", "the session is closing; nothing was run")
        digest = rooms.current if profile is None else profile.digest
        room = rooms.own if profile is None else self._room(rooms, profile, hidden)
        room.busy += 1
        try:
            # A task of its own, because what is half made must not be dropped: a process, mounts, a host uid.
            taking = self._tasks.create_task(_taken(room, access, follow=follow, job=job))
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
                self._tasks.create_task(self._finish(session_id, digest, room, worker, access))
        finally:
            room.busy -= 1
            self._leave(rooms, digest)

    def _room(self, rooms: _Rooms, profile: Profile, hidden: Hidden) -> Room:
        room = rooms.by_digest.get(profile.digest)
        if room is None:
            self._number += 1
            room = rooms.by_digest[profile.digest] = Room(
                self._number,
                profile,
                rooms.place,
                mounter=self._mounter,
                scratch=self._scratch,
                cgroups=self._cgroups,
                hidden=hidden,
                session_id=rooms.session_id,
                keeping=partial(self._kept.make, rooms.session_id),
                shelf=self._shelf,
                whose=rooms.whose,
            )
        return room

    def _leave(self, rooms: _Rooms, digest: str) -> None:
        """Has a room closed that has no call, where none can come; or the longest unused beside the session's own,
        where there are many."""
        beside = [each for each, room in rooms.by_digest.items() if each != rooms.current and not room.busy]
        if digest in beside and digest in rooms.past:
            self._close(rooms, digest)
        elif len(beside) > _MOST_BESIDE:
            self._close(rooms, min(beside, key=lambda each: rooms.by_digest[each].used))

    def _close(self, rooms: _Rooms, digest: str) -> None:
        self._tasks.create_task(_closed(rooms.by_digest.pop(digest)))

    def _has_calls_to_come(self, session_id: str, digest: str, room: Room) -> bool:
        rooms = self._sessions.get(session_id)
        return rooms is not None and rooms.by_digest.get(digest) is room and digest not in rooms.past

    async def probe(self, profile: Profile, access: Access = Access.NONE) -> tuple[Layer, ...]:
        """The layers that a worker of this profile really gets on this host, shown by making one; for other access than
        none, in an empty workspace.

        Raises SandboxFailure with the reason where it gets none.
        """
        self._number += 1
        name = f"probe:{self._number}"  # of its own: several may be under way
        async with AsyncExitStack() as stack:
            place = None
            if access is not Access.NONE:
                path = await self._empty_directory(stack)
                found = await asyncio.to_thread(path.stat)
                place = Place(str(path), found.st_dev, found.st_ino)
            self.open_room(name, profile, place)
            stack.push_async_callback(self.close_room, name, for_good=True)
            async with self.worker(name, access) as worker:
                return worker.layers

    async def survey(self, workspaces: tuple[Path, ...]) -> Survey:
        """What the kernel gives to this daemon. `workspaces`: directories whose file systems are asked about too.

        Raises InfrastructureFailure where the program that asks cannot be run.
        """
        async with AsyncExitStack() as stack:
            place = await self._empty_directory(stack)
            return await survey(place, workspaces, self._shelf.uids.range, self._mounter.mode)

    async def _empty_directory(self, stack: AsyncExitStack) -> Path:
        """Of the daemon's own, on the file system of its state; removed at the end."""
        scratch = self._scratch.bare()
        stack.push_async_callback(scratch.remove)
        return scratch.path

    async def _finish(self, session_id: str, digest: str, room: Room, worker: Worker, access: Access) -> None:
        try:
            await worker.close()
            if not self._closing and self._has_calls_to_come(session_id, digest, room):
                await room.prepare(access)
        except Exception as error:
            if self._closing or not self._has_calls_to_come(session_id, digest, room):
                return  # nobody is there any more to want the next worker
            # The next call that needs a worker meets the fault itself, and says so in its result.
            worded = isinstance(error, SandboxFailure)
            _log.error("preparing the next worker failed: %s", error, exc_info=not worded)

    async def _retire_idle(self) -> None:
        loop = asyncio.get_running_loop()
        while True:
            await asyncio.sleep(_IDLE_S / 4)
            await self._shelf.tidy()
            found = [(rooms, *each) for rooms in self._sessions.values() for each in rooms.by_digest.items()]
            for rooms, digest, room in found:
                if not room.busy and loop.time() - room.used > _IDLE_S:
                    if digest != rooms.current and rooms.by_digest.get(digest) is room:
                        self._close(rooms, digest)
                        continue
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


async def _taken(room: Room, access: Access, *, follow: bool, job: bool) -> Worker | Exception:
    """Returned, not raised: in a task group that would end everything else."""
    try:
        return await room.take(access, follow=follow, job=job)
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


async def _removed(kept: SessionScratch, gone: Path) -> None:
    try:
        await kept.remove(gone)
    except OSError:
        _log.exception("what a session kept could not be removed; the next start tries again")


async def _closed(room: Room) -> None:
    try:
        await room.close()
    except Exception:
        _log.exception("a room that nobody needs any more could not be put away")


async def _watched(worker: Worker) -> None:
    """A worker whose limits cannot be watched any more is ended, and nobody else."""
    try:
        await worker.watch()
    except Exception:
        _log.exception("a worker could not be watched")
        worker.kill()
