"""The daemon's side of the mounter process: starting it, asking it, noticing its end."""

import asyncio
import errno
import logging
import os
import socket
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import Any, Final, Literal, TypeAlias

from stockade_daemon.errors import SandboxFailure
from stockade_daemon.sandbox import channel as channels
from stockade_daemon.sandbox import library, user_namespaces
from stockade_daemon.sandbox.channel import ChannelClosed, FrameChannel, NotSent
from stockade_worker.frames import BrokenFrame, Frame

_log = logging.getLogger(__name__)
Mode: TypeAlias = Literal["root", "user", "in-place"]
IN_PLACE: Final = "in-place"
_BOOT = "import sys; sys.path.insert(0, sys.argv[2]); from stockade_worker.mounter import main; main()"


class NamespacesRefused(SandboxFailure):
    """The host does not let the mounter, or what it starts, have namespaces."""


class Mounter:
    """Makes mounts and starts templates. One request at a time; the process answers each within a millisecond or so.

    A mounter that ended (somebody killed it) is started again by the request that notices; what it had made is gone
    with it, templates and their workers included, so that request fails and its caller begins anew.
    """

    def __init__(self, place: Path, mode: Mode, worker: int | None) -> None:
        self.mode = mode
        self._place = place
        self._worker = worker
        self._process = AsyncExitStack()
        self._channel: FrameChannel | None = None
        self.generation = 0  # counts starts: what an earlier process had made is gone
        # Keeps a request and its answer together, and a second start from beginning beside a first.
        self._asking = asyncio.Lock()

    @classmethod
    @asynccontextmanager
    async def start(cls, place: Path, *, mode: Mode, worker: int | None = None) -> AsyncIterator["Mounter"]:
        """Runs a mounter whose private mounts hang below the directory `place`. `worker`: a host uid that a daemon of
        root gives to workers, to try it with.

        Raises SandboxFailure(SANDBOX_UNAVAILABLE) with the reason and what to change where it cannot be started;
        NamespacesRefused where that is because the host gives it no namespaces.
        """
        mounter = cls(place, mode, worker)
        try:
            await mounter._launch()
            yield mounter
        finally:
            await mounter._process.aclose()

    async def ask(self, kind: str, arguments: dict[str, Any], descriptors: tuple[int, ...] = ()) -> Frame:
        """One request. Raises OSError with the mounter's errno and text; ChannelClosed when it had ended, or gave no
        answer for so long that it was."""
        async with self._asking:
            if self._channel is None:
                await self._launch()
            assert self._channel is not None
            try:
                frame = await self._channel.ask({"type": kind, **arguments}, descriptors)
            except NotSent as error:
                raise OSError(
                    errno.ENOBUFS, f"the host takes no more descriptors of this uid for now: {error}"
                ) from error
            except (ChannelClosed, BrokenFrame, TimeoutError) as error:
                why = "ended" if not isinstance(error, TimeoutError) else f"was silent for {channels.PATIENCE_S:g} s"
                _log.warning("the mounter %s (%s); another one is started", why, error or kind)
                await self._launch()
                raise ChannelClosed(f"the mounter {why}") from error
        if frame.type == "error":
            raise OSError(int(frame.header["errno"]), str(frame.header["message"]))
        return frame

    async def _launch(self) -> None:
        """Starts the process, after ending one that is there. Raises SandboxFailure."""
        self._channel = None
        self.generation += 1
        await self._process.aclose()
        async with AsyncExitStack() as stack:
            channel = await self._run(stack)
            self._process = stack.pop_all()
        self._channel = channel

    async def _run(self, stack: AsyncExitStack) -> FrameChannel:
        ours, theirs = socket.socketpair()
        with theirs:
            channel = stack.enter_context(FrameChannel(ours, with_descriptors=True))
            # Started from the main thread: the mounter dies when the thread that started it does.
            process = await asyncio.create_subprocess_exec(
                library.executable(), "-I", "-S", "-B", "-c", _BOOT,
                str(theirs.fileno()), str(library.source().parent),
                stdin=asyncio.subprocess.DEVNULL, stdout=asyncio.subprocess.DEVNULL,
                stderr=None if os.environ.get("STOCKADE_DEBUG") else asyncio.subprocess.DEVNULL,
                pass_fds=(theirs.fileno(),), env={"LC_ALL": "C.UTF-8"}, start_new_session=True, cwd="/",
            )  # fmt: skip
            stack.push_async_callback(_end, process, channel)
        try:
            start = {
                "type": "start", "mode": self.mode, "place": str(self._place), "parent": os.getpid(),
                "worker": self._worker,
            }  # fmt: skip
            async with asyncio.timeout(channels.PATIENCE_S):
                await channel.send(start)
                frame = await channel.receive()
        except (ChannelClosed, BrokenFrame) as error:
            raise SandboxFailure("SANDBOX_UNAVAILABLE", f"the mounter ended while it started: {error}") from error
        except TimeoutError as error:
            raise SandboxFailure(
                "SANDBOX_UNAVAILABLE", f"the mounter did not start within {channels.PATIENCE_S:g} s; look at the host"
            ) from error
        if frame.type != "ready":
            failure = unavailable(frame.header)
            if frame.header.get("step") != "namespaces":
                raise failure
            raise NamespacesRefused(failure.code, failure.message)
        return channel

    async def make(self, kind: str, arguments: dict[str, Any]) -> tuple[int, ...]:
        """A request that is answered with descriptors, which the caller closes."""
        return (await self.ask(kind, arguments)).descriptors


async def _end(process: asyncio.subprocess.Process, channel: FrameChannel) -> None:
    """Ends a mounter: it ends by itself at the end of its stream, and its templates with it."""
    channel.close()
    try:
        async with asyncio.timeout(5):
            await process.wait()
    except TimeoutError:
        process.kill()
        await process.wait()


def unavailable(failed: dict[str, Any]) -> SandboxFailure:
    """Why this host gives no sandbox, with what can be done about it."""
    step = failed.get("step", "namespaces")
    if step == "interpreter":
        return SandboxFailure(
            "SANDBOX_UNAVAILABLE",
            f"{library.executable()} cannot be run inside ({failed['message']}): the profile's [filesystem] system "
            "leaves out what it needs; /usr, /lib and /lib64 are usual",
        )
    if step == "legible":
        return SandboxFailure(
            "SANDBOX_UNAVAILABLE",
            f"{failed['message']}, which workers run from: open it to every uid with "
            f"`{library.opened(str(failed['directory']))}`",
        )
    if step == "interpreter in place":
        return SandboxFailure(
            "SANDBOX_UNAVAILABLE",
            f"without user namespaces a worker runs Python where the host has it ({failed['message']}): install Python "
            "and Stockade where every uid may read them, such as /usr and /opt",
        )
    remedy = "`stockade doctor` asks this host about each layer"
    if step in ("namespaces", "clone"):
        remedy = f"Every worker needs user namespaces: {user_namespaces.here()}"
    return SandboxFailure(
        "SANDBOX_UNAVAILABLE", f"this host refuses a sandbox at {step}: {failed['message']}. {remedy}"
    )
