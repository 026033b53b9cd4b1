"""A room: one session's template, and the workers prepared from it."""

import asyncio
import logging
import os
from collections import defaultdict
from contextlib import AsyncExitStack
from dataclasses import replace

from stockade_daemon.errors import SandboxFailure
from stockade_daemon.sandbox import covers, differing, in_place
from stockade_daemon.sandbox import layers as layer_rules
from stockade_daemon.sandbox.attached import Attached, Keeping, Place
from stockade_daemon.sandbox.cgroups import Cgroups
from stockade_daemon.sandbox.channel import ChannelClosed
from stockade_daemon.sandbox.differing import Differing, Hidden
from stockade_daemon.sandbox.mounter import IN_PLACE, Mounter
from stockade_daemon.sandbox.plan import Plan, plan
from stockade_daemon.sandbox.scratch import Scratch, ScratchRoom
from stockade_daemon.sandbox.shelf import Shelf, Started
from stockade_daemon.sandbox.worker import Cover, Ends, Worker
from stockade_daemon.values import Access, Profile

_log = logging.getLogger(__name__)
_ENDING_S = 1.0  # how much later than its workers a template may end
_TRIES = 5  # to cover names in directories that somebody moves


def namespaces_of_this_process() -> dict[str, int]:
    names = ("user", "mnt", "pid", "net", "ipc", "uts", "cgroup", "time_for_children")
    return {name: os.stat(f"/proc/self/ns/{name}").st_ino for name in names if os.path.exists(f"/proc/self/ns/{name}")}


class Room:
    """Makes workers for one session. Its template starts with the first worker and ends when it has been idle."""

    def __init__(
        self,
        key: int,
        profile: Profile,
        place: Place | None,
        *,
        mounter: Mounter,
        scratch: ScratchRoom,
        cgroups: Cgroups,
        hidden: Hidden,
        session_id: str,
        keeping: Keeping,
        shelf: Shelf,
        whose: str = "",
    ) -> None:
        """`whose`: of a principal, whose other sessions may have its template later; empty: nobody has it later."""
        self._key = key
        self._profile = profile
        self._place = place
        self._mounter = mounter
        self._scratch = scratch
        self._cgroups = cgroups
        self._hidden = hidden
        self._attached = (
            None
            if place is None
            else Attached(key, profile, place, mounter=mounter, session_id=session_id, keeping=keeping)
        )
        self._shelf = shelf
        self._whose = whose
        self._started: Started | None = None
        self._stack = AsyncExitStack()  # of what this room has at the mounter
        self._making = 0  # workers that are being made
        self._none_made = asyncio.Event()  # set while there are none of these
        self._none_made.set()
        self._workers: set[Worker] = set()  # those that are there, or were until a moment ago
        # One template for each room, however many calls want a worker at once.
        self._starting = asyncio.Lock()
        self._prepared: dict[Access, list[Worker]] = defaultdict(list)
        self._closed = False
        self.used = asyncio.get_running_loop().time()
        self.busy = 0

    async def take(self, access: Access, *, follow: bool = False, job: bool = False) -> Worker:
        """A sealed worker that has had no job. `follow`: a view for looking shows what others change meanwhile. `job`:
        a command runs in it for which what is scratch has to be there, though its view be for looking.

        Raises SandboxFailure.
        """
        worker = await self._taken(access, job=job)
        if follow:
            try:
                await worker.follow(self._mounter)
            except BaseException as error:
                await worker.close()
                if isinstance(error, OSError | ChannelClosed):
                    raise SandboxFailure(
                        "SANDBOX_FAILED", f"a view of the workspace cannot be kept current: {error}; nothing was run"
                    ) from error
                raise
        return worker

    async def _taken(self, access: Access, *, job: bool) -> Worker:
        self.used = asyncio.get_running_loop().time()
        if job and access is Access.READ and self._profile.scratch:
            return await self._make(access, job=True)  # those that are prepared are for functions
        wanted = await self._differing(access) if self._prepared[access] else Differing()
        while self._prepared[access]:
            worker = self._prepared[access].pop()
            # What is hidden by name may have come since its view was made.
            if worker.alive() and worker.cover.differing == wanted:
                return worker
            await worker.close()
        return await self._make(access)

    async def prepare(self, access: Access) -> None:
        """Has one worker ready for the next call."""
        if not self._prepared[access]:
            await self.keep(access, await self._make(access))

    async def keep(self, access: Access, worker: Worker) -> None:
        """Has this worker, which had no job, ready for the next call; ends it where nobody can want it."""
        if self._closed or self._prepared[access]:
            await worker.close()
        else:
            self._prepared[access].append(worker)

    async def _differing(self, access: Access, *, job: bool = False) -> Differing:
        """How a view has to differ from the workspace now. Raises SandboxFailure."""
        scratch, hidden = self._profile.scratch, self._hidden
        if access is Access.NONE or self._place is None or not (scratch or hidden):
            return Differing()
        path, shown = self._place.path, job or access is Access.OVERLAY
        try:
            if differing.is_known(hidden, scratch):
                return differing.look(None, path, scratch, shown=shown)
            return await asyncio.to_thread(differing.look, hidden, path, scratch, shown=shown)
        except OSError as error:
            raise SandboxFailure(
                "SANDBOX_FAILED",
                f"what profile {self._profile.name} hides, or calls scratch, cannot be looked for, so nothing was run: "
                f"{error}",
            ) from error

    @property
    def _in_place(self) -> bool:
        return self._mounter.mode == IN_PLACE

    async def _make(self, access: Access, *, job: bool = False) -> Worker:
        if self._in_place:
            in_place.refuse(access)
        self._making += 1
        self._none_made.clear()
        try:
            return await self._made(access, job=job)
        finally:
            self._making -= 1
            if not self._making:
                self._none_made.set()

    async def _made(self, access: Access, *, job: bool) -> Worker:
        for attempt in (1, 2):
            started = self._started
            if started is not None and started.generation != self._mounter.generation:
                await self.retire(started)  # its mounts went with the mounter that made them
            try:
                started = await self._with_template(fresh=attempt > 1)
                return await self._spawn(started, access, job=job)
            except ChannelClosed as error:
                if self._closed:
                    raise SandboxFailure("SANDBOX_FAILED", "the session is closing; nothing was run") from error
                # Somebody ended the zygote, or the mounter and with it all zygotes; nothing of this call has run, so a
                # new one may be tried.
                _log.warning("the template of room %s is gone: %s", self._key, error)
                await self.retire(started)
                if attempt == 2:
                    raise SandboxFailure(
                        "SANDBOX_FAILED",
                        f"the process that workers are cloned from failed twice ({error}); nothing was run. "
                        "Look at the host's log, then repeat the call",
                    ) from error
        raise AssertionError("the second attempt returns or raises")

    async def _with_template(self, *, fresh: bool) -> Started:
        """`fresh`: none of another session's."""
        async with self._starting:
            if self._closed:
                raise SandboxFailure("SANDBOX_FAILED", "the session is closing; nothing was run")
            if self._started is None:
                async with AsyncExitStack() as stack, AsyncExitStack() as at_mounter:
                    started = await self._shelf.get(self._whose, self._planned, fresh=fresh)
                    stack.push_async_callback(started.stack.aclose)
                    if self._attached is not None and not self._in_place:
                        await self._attached.attach(started.uid, at_mounter)
                    self._started, self._stack = started, at_mounter.pop_all()
                    stack.pop_all()
            return self._started

    def _planned(self, uid: int | None) -> Plan:
        if self._in_place:
            return in_place.plan(self._profile, host_uid=uid)
        workspace = (self._place.inside or self._place.path) if self._place is not None else None
        return plan(self._profile, workspace=workspace, host_uid=uid)

    async def _spawn(self, started: Started, access: Access, *, job: bool) -> Worker:
        template, uid, attached = started.template, started.uid, self._attached
        scratch: Scratch | None = None
        mounts: tuple[int, ...] = ()
        pidfd = -1
        cover = Cover()
        ends = Ends()
        try:
            if access is not Access.NONE and attached is not None:
                cover = await self._cover(access, attached, job=job)
                request = {
                    "key": self._key,
                    "cover": str(cover.layer.path) if cover.layer is not None else None,
                    "scratch": attached.numbers(cover.differing.points),
                }
                if access is Access.OVERLAY:
                    made = self._scratch.make(attached.place.path, mode=attached.mode, uid=uid, ids=attached.ids)
                    scratch = made.above(cover.layer)
                    mounts = await self._mounter.make("overlay", {**request, "layers": str(scratch.path)})
                else:
                    mounts = await self._mounter.make("view", request)
            if uid is not None and not self._in_place:  # there nothing can be opened by such a name
                ends.give_to(uid)
            pidfd = await template.spawn(
                (*ends.inner(), *mounts),
                workspace=bool(mounts),
                writable=access is Access.OVERLAY,
                scratch=[path.decode() for path in cover.differing.points],
            )
        except BaseException as error:
            ends.close_inner()
            ends.close_outer()
            for each in (scratch, cover.layer):
                if each is not None:
                    await each.remove()
            if isinstance(error, OSError) and started.generation != self._mounter.generation:
                raise ChannelClosed("the mounter was started again meanwhile") from error
            if isinstance(error, OSError):
                raise SandboxFailure("SANDBOX_FAILED", f"a worker's workspace cannot be mounted: {error}") from error
            raise
        finally:
            # A view for looking is kept: it may have to be followed. An overlay's layers are to be let go of.
            looking = mounts[:1] if pidfd != -1 and access is Access.READ else ()
            for mount in mounts[len(looking) :]:
                os.close(mount)
        ends.close_inner()
        view = looking[0] if looking else None
        worker = Worker(ends, pidfd, limits=self._profile.limits, scratch=scratch, cover=cover, view=view)
        self._workers = {each for each in self._workers if not each.is_gone} | {worker}
        try:
            in_group = await worker.join(self._cgroups)
            await worker.go()
            facts = await worker.ready()
            if self._in_place:
                worker.hold_body(facts.get("pid"))
            worker.layers = layer_rules.held(
                facts,
                namespaces_of_this_process(),
                own_uid=uid is not None,
                overlay=scratch is not None,
                cgroup=in_group,
                network=self._profile.network,
                in_place=self._in_place,
                uid=uid,
            )
            lacking = layer_rules.missing(worker.layers, self._profile.required_layers)
            if lacking:
                reasons = "; ".join(f"{layer.name} ({layer.reason or 'not held'})" for layer in lacking)
                raise SandboxFailure(
                    "SANDBOX_UNAVAILABLE",
                    f"profile {self._profile.name} requires layers that this host does not give: {reasons}. "
                    "Use a profile that does not require them, or change the host: `stockade doctor` says how",
                )
        except BaseException as error:
            await worker.close()
            failed = isinstance(error, SandboxFailure) and error.code == "SANDBOX_FAILED"
            # Nothing of the call was sent yet. With its template gone, a fresh one may do better.
            if failed and await template.ended(_ENDING_S):
                raise ChannelClosed(f"it ended before a worker of it was sealed: {error}") from error
            raise
        return worker

    async def _cover(self, access: Access, attached: Attached, *, job: bool) -> Cover:
        """The layer that hides what is to be hidden now, and has the mount points. Raises SandboxFailure, OSError."""
        place = attached.place
        for _ in range(_TRIES):
            wanted = await self._differing(access, job=job)
            if not wanted:
                return Cover()
            layer = self._scratch.bare()
            try:
                made = await asyncio.to_thread(
                    covers.build,
                    layer.path,
                    place.path,
                    wanted.names,
                    wanted.points,
                    identity=(place.device, place.inode),
                    ids=attached.ids,
                )
            except BaseException:
                await layer.remove()
                raise
            if (made.names, made.points) == (wanted.names, wanted.points):
                return Cover(wanted, replace(layer, shown=made.shown))
            await layer.remove()  # somebody moved a directory meanwhile: what is back there now would be seen
        raise SandboxFailure(
            "SANDBOX_FAILED",
            f"what profile {self._profile.name} hides was moved about while it was being covered; nothing was run. "
            "Repeat the call when the workspace is at rest",
        )

    async def close(self) -> None:
        """Retires for good: what is still being made meanwhile is ended as well."""
        self._closed = True
        await self.retire()

    async def retire(self, started: Started | None = None) -> None:
        """Ends the prepared workers and the template; the next call starts them again. Safe to repeat. The template of
        a closed room goes to the shelf where nothing runs in it.

        With `started`, only where that one is still the room's: two calls may notice its death, and the second must
        not end what the first has started in its place.
        """
        async with self._starting:
            if started is not None and self._started is not started:
                return
            workers = [worker for kind in self._prepared.values() for worker in kind]
            self._prepared.clear()
            for worker in workers:
                await worker.close()
            had, self._started = self._started, None
            stack, self._stack = self._stack, AsyncExitStack()
            async with stack:  # the mounter forgets the workspace when nothing uses it any more
                if had is None:
                    return
                if not self._closed or not await self._is_empty():
                    await had.stack.aclose()
                    return
            await self._shelf.put(had)

    async def _is_empty(self) -> bool:
        """Whether nothing of this session runs, or soon will. Its last worker may have been killed a moment ago, and
        one for a next call may be half made: it is ended when it is whole."""
        if self.busy:
            return False
        try:
            async with asyncio.timeout(_ENDING_S):
                await self._none_made.wait()
                for worker in tuple(self._workers):
                    await worker.gone()
        except TimeoutError:
            return False
        return not (self.busy or self._making)
