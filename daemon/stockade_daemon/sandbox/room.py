"""A room: one session's template, and the workers prepared from it."""

import asyncio
import errno
import logging
import os
from collections import defaultdict
from collections.abc import Callable
from contextlib import AsyncExitStack, suppress
from dataclasses import dataclass, replace
from typing import TypeAlias

from stockade_daemon.errors import SandboxFailure
from stockade_daemon.sandbox import covers, differing, in_place
from stockade_daemon.sandbox import layers as layer_rules
from stockade_daemon.sandbox.cgroups import Cgroups
from stockade_daemon.sandbox.channel import ChannelClosed
from stockade_daemon.sandbox.differing import Differing, Hidden
from stockade_daemon.sandbox.mounter import IN_PLACE, Mounter
from stockade_daemon.sandbox.plan import Plan, plan
from stockade_daemon.sandbox.scratch import Scratch, ScratchRoom
from stockade_daemon.sandbox.session_scratch import Kept
from stockade_daemon.sandbox.template import Template
from stockade_daemon.sandbox.uids import UidAllotment
from stockade_daemon.sandbox.worker import Cover, Ends, Worker
from stockade_daemon.values import Access, Profile

_log = logging.getLogger(__name__)
# Makes the directories that a session keeps, in a thread. Raises OSError.
Keeping: TypeAlias = Callable[[tuple[str, ...]], tuple[Kept, ...]]
_ENDING_S = 1.0  # how much later than its workers a template may end
_TRIES = 5  # to cover names in directories that somebody moves
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
        uids: UidAllotment,
        cgroups: Cgroups,
        hidden: Hidden,
        session_id: str,
        keeping: Keeping,
    ) -> None:
        self._key = key
        self._session_id = session_id
        self._profile = profile
        self._place = place
        self._mounter = mounter
        self._scratch = scratch
        self._uids = uids
        self._cgroups = cgroups
        self._hidden = hidden
        self._keeping = keeping
        self._kept = 0  # how many directories the mounter keeps for the session's scratch
        self._unkept = ""  # why it cannot
        self._owner: tuple[int, int] | None = None  # of the workspace, where it looks like the worker
        self._uid: int | None = None
        self._template: Template | None = None
        self._stack = AsyncExitStack()
        # One template for each room, however many calls want a worker at once.
        self._starting = asyncio.Lock()
        self._prepared: dict[Access, list[Worker]] = defaultdict(list)
        self._mode = 0o755
        self._closed = False
        self._generation = 0
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
        for attempt in (1, 2):
            template = self._template
            if template is not None and self._generation != self._mounter.generation:
                await self.retire(template)  # its mounts went with the mounter that made them
            try:
                template = await self._started()
                return await self._spawn(template, access, job=job)
            except ChannelClosed as error:
                if self._closed:
                    raise SandboxFailure("SANDBOX_FAILED", "the session is closing; nothing was run") from error
                # Somebody ended the zygote, or the mounter and with it all zygotes; nothing of this call has run, so a
                # new one may be tried.
                _log.warning("the template of room %s is gone: %s", self._key, error)
                await self.retire(template)
                if attempt == 2:
                    raise SandboxFailure(
                        "SANDBOX_FAILED",
                        f"the process that workers are cloned from failed twice ({error}); nothing was run. "
                        "Look at the host's log, then repeat the call",
                    ) from error
        raise AssertionError("the second attempt returns or raises")

    async def _started(self) -> Template:
        async with self._starting:
            if self._closed:
                raise SandboxFailure("SANDBOX_FAILED", "the session is closing; nothing was run")
            if self._template is None:
                async with AsyncExitStack() as stack:
                    self._generation = self._mounter.generation
                    self._uid = self._uids.take()
                    stack.callback(self._uids.give_back, self._uid)
                    made = await self._planned(stack)
                    self._template = await stack.enter_async_context(Template.start(self._mounter, made))
                    self._stack = stack.pop_all()
            return self._template

    async def _planned(self, stack: AsyncExitStack) -> Plan:
        if self._in_place:
            return in_place.plan(self._profile, host_uid=self._uid)
        if self._place is not None:
            await self._attach(self._place, stack)
            await self._keep_scratch()
        workspace = (self._place.inside or self._place.path) if self._place is not None else None
        return plan(self._profile, workspace=workspace, host_uid=self._uid)

    async def _attach(self, place: Place, stack: AsyncExitStack) -> None:
        """Has the mounter keep the workspace; its owner looks like the worker where the two differ on the host."""
        found = await asyncio.to_thread(os.stat, place.path)
        self._mode = found.st_mode
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

    async def _spawn(self, template: Template, access: Access, *, job: bool) -> Worker:
        scratch: Scratch | None = None
        mounts: tuple[int, ...] = ()
        pidfd = -1
        cover = Cover()
        ends = Ends()
        try:
            if access is not Access.NONE and self._place is not None:
                cover = await self._cover(access, self._place, job=job)
                request = {
                    "key": self._key,
                    "cover": str(cover.layer.path) if cover.layer is not None else None,
                    "scratch": self._numbers(cover.differing.points),
                }
                if access is Access.OVERLAY:
                    made = self._scratch.make(self._place.path, mode=self._mode, uid=self._uid, ids=self._ids)
                    scratch = made.above(cover.layer)
                    mounts = await self._mounter.make("overlay", {**request, "layers": str(scratch.path)})
                else:
                    mounts = await self._mounter.make("view", request)
            if self._uid is not None and not self._in_place:  # there nothing can be opened by such a name
                ends.give_to(self._uid)
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
            if isinstance(error, OSError) and self._generation != self._mounter.generation:
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
        try:
            in_group = await worker.join(self._cgroups)
            await worker.go()
            facts = await worker.ready()
            if self._in_place:
                worker.hold_body(facts.get("pid"))
            worker.layers = layer_rules.held(
                facts,
                namespaces_of_this_process(),
                own_uid=self._uid is not None,
                overlay=scratch is not None,
                cgroup=in_group,
                network=self._profile.network,
                in_place=self._in_place,
                uid=self._uid,
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

    def _numbers(self, points: tuple[bytes, ...]) -> list[int]:
        """Which of the kept directories go to these points. Raises SandboxFailure where none are kept."""
        if points and self._unkept:
            raise SandboxFailure("SANDBOX_UNAVAILABLE", self._unkept)
        return [self._profile.scratch.index(each.decode()) for each in points]

    async def _cover(self, access: Access, place: Place, *, job: bool) -> Cover:
        """The layer that hides what is to be hidden now, and has the mount points. Raises SandboxFailure, OSError."""
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
                    ids=self._ids,
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

    def _ids(self, uid: int, gid: int) -> tuple[int, int]:
        """What the owner of a file of the workspace is for workers (worker/idmap.py)."""
        if self._owner is None or self._uid is None:
            return uid, gid
        swapped = [
            self._uid if each == owner else owner if each == self._uid else each
            for each, owner in zip((uid, gid), self._owner, strict=True)
        ]
        return swapped[0], swapped[1]

    async def close(self) -> None:
        """Retires for good: what is still being made meanwhile is ended as well."""
        self._closed = True
        await self.retire()

    async def retire(self, template: Template | None = None) -> None:
        """Ends the prepared workers and the template; the next call starts them again. Safe to repeat.

        With `template`, only where that one is still the room's: two calls may notice its death, and the second must
        not end what the first has started in its place.
        """
        async with self._starting:
            if template is not None and self._template is not template:
                return
            workers = [worker for kind in self._prepared.values() for worker in kind]
            self._prepared.clear()
            for worker in workers:
                await worker.close()
            self._template = None
            stack, self._stack = self._stack, AsyncExitStack()
            await stack.aclose()
