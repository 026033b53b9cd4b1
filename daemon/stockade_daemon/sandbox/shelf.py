"""Templates whose session is over, kept for a moment: the next session of the same principal that wants the same one
has it at once.

Most of what a short session costs is its template: an interpreter, and a root that is built for it. Nothing of a
session is in it. Whatever a call wrote went into mounts of its own worker, which are gone with it, and the session's
workspace is attached to the mounter, not to the template.
"""

import asyncio
import hashlib
import json
from collections import deque
from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field
from typing import Final

from stockade_daemon.sandbox.mounter import Mounter
from stockade_daemon.sandbox.plan import Plan
from stockade_daemon.sandbox.template import Template
from stockade_daemon.sandbox.uids import UidAllotment

_MOST: Final = 8  # each is about as much memory as a worker
_IDLE_S: Final = 10.0
# What a template shows of single files of the host is as old as it is itself.
_AGE_S: Final = 300.0


@dataclass(frozen=True, slots=True)
class Started:
    """A template with what it was started from, and a stack that ends it."""

    template: Template
    uid: int | None
    generation: int  # of the mounter
    likeness: bytes  # equal for templates that may stand for each other; empty where none may
    born: float  # of the loop's clock
    stack: AsyncExitStack


@dataclass(slots=True)
class Shelf:
    """Runs on one event loop. Whoever takes a template ends it, or puts it back."""

    mounter: Mounter
    uids: UidAllotment
    closing: bool = False  # nobody comes any more
    _kept: deque[tuple[float, Started]] = field(default_factory=deque)  # by when they came, the oldest first

    @classmethod
    @asynccontextmanager
    async def open(cls, mounter: Mounter, uids: UidAllotment) -> AsyncIterator["Shelf"]:
        """At the end every template on it is ended."""
        shelf = cls(mounter, uids)
        try:
            yield shelf
        finally:
            await shelf.clear()

    async def get(self, whose: str, planned: Callable[[int | None], Plan], *, fresh: bool) -> Started:
        """One that is like what is planned, or a new one. `planned` gives the plan with that uid; `fresh`: a new one.

        Raises OSError, SandboxFailure, ChannelClosed, as planning and Template.start do.
        """
        # What a plan says differs with whether there is a uid, not with which.
        like = likeness(whose, planned(self.uids.of_nobody)) if whose else b""
        while not fresh and like and (found := self._out(like)) is not None:
            if self._sound(found):
                return found
            await found.stack.aclose()
        async with AsyncExitStack() as stack:
            generation, uid = self.mounter.generation, self.uids.take()
            stack.callback(self.uids.give_back, uid)
            template = await stack.enter_async_context(Template.start(self.mounter, planned(uid)))
            return Started(template, uid, generation, like, asyncio.get_running_loop().time(), stack.pop_all())

    def _out(self, likeness: bytes) -> Started | None:
        # The latest first, so that those which nobody needs any more get old.
        for each in reversed(self._kept):
            if each[1].likeness == likeness:
                self._kept.remove(each)
                return each[1]
        return None

    async def put(self, started: Started) -> None:
        """Keeps one that has no worker any more; ends it where it cannot stand for another."""
        now = asyncio.get_running_loop().time()
        if self.closing or not started.likeness or now - started.born > _AGE_S or not self._sound(started):
            await started.stack.aclose()
            return
        self._kept.append((now, started))
        if len(self._kept) > _MOST:
            await self._kept.popleft()[1].stack.aclose()

    async def tidy(self) -> None:
        """Ends those that nobody has wanted for a while."""
        now = asyncio.get_running_loop().time()
        while self._kept and now - self._kept[0][0] > _IDLE_S:
            await self._kept.popleft()[1].stack.aclose()

    async def clear(self) -> None:
        """Ends all of them, at once: each waits for its processes to be gone."""
        async with asyncio.TaskGroup() as ending:
            while self._kept:
                ending.create_task(self._kept.popleft()[1].stack.aclose())

    def _sound(self, started: Started) -> bool:
        return started.generation == self.mounter.generation and started.template.alive()


def likeness(whose: str, plan: Plan) -> bytes:
    """Of a plan without the uid, which a template brings along.

    Empty, so that no other session has it, for templates with secrets, and with mounts of the profile: these are read
    and looked up when it starts, and the next session is to have what is there by then. So for those in place, whose
    workers are kept apart by less. `whose` is a principal: nothing
    that a kernel counts by uid passes from one to another. It is empty for who shares with nobody.
    """
    if not whose or plan.start["readable"] is not None or plan.root.get("secrets") or plan.root.get("mounts"):
        return b""
    root = {key: value for key, value in plan.root.items() if key != "host_uid"}
    text = json.dumps([whose, root, plan.start], sort_keys=True, ensure_ascii=False, default=str)
    return hashlib.sha256(text.encode("utf-8", "surrogateescape") + b"\0" + plan.blob).digest()
