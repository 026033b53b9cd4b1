"""The daemon's side of the mounter process: starting it, asking it, noticing its end."""

import asyncio
import os
import socket
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, Literal

from stockade_daemon.errors import SandboxFailure
from stockade_daemon.sandbox import library
from stockade_daemon.sandbox.channel import ChannelClosed, FrameChannel
from stockade_worker.frames import BrokenFrame, Frame

_BOOT = "import sys; sys.path.insert(0, sys.argv[2]); from stockade_worker.mounter import main; main()"


class Mounter:
    """Makes mounts and starts templates. One request at a time; the process answers each within a millisecond or so."""

    def __init__(self, channel: FrameChannel, mode: Literal["root", "user"]) -> None:
        self.mode = mode
        self._channel = channel
        self._number = 0
        # Keeps a request and its answer together.
        self._asking = asyncio.Lock()

    @classmethod
    @asynccontextmanager
    async def start(cls, place: Path, *, mode: Literal["root", "user"]) -> AsyncIterator["Mounter"]:
        """Runs a mounter whose private mounts hang below the directory `place`.

        Raises SandboxFailure(SANDBOX_UNAVAILABLE) with the reason and what to change where the host refuses.
        """
        ours, theirs = socket.socketpair()
        with FrameChannel(ours, with_descriptors=True) as channel:
            with theirs:
                # Started from the main thread: the mounter dies when the thread that started it does.
                process = await asyncio.create_subprocess_exec(
                    library.executable(), "-I", "-S", "-B", "-c", _BOOT,
                    str(theirs.fileno()), str(library.source().parent),
                    stdin=asyncio.subprocess.DEVNULL, stdout=asyncio.subprocess.DEVNULL,
                    stderr=None if os.environ.get("STOCKADE_DEBUG") else asyncio.subprocess.DEVNULL,
                    pass_fds=(theirs.fileno(),), env={"LC_ALL": "C.UTF-8"}, start_new_session=True, cwd="/",
                )  # fmt: skip
            try:
                await channel.send({"type": "start", "mode": mode, "place": str(place), "parent": os.getpid()})
                frame = await channel.receive()
                if frame.type != "ready":
                    raise unavailable(frame.header)
                yield cls(channel, mode)
            except (ChannelClosed, BrokenFrame) as error:
                raise SandboxFailure("SANDBOX_UNAVAILABLE", f"the mounter ended unexpectedly: {error}") from error
            finally:
                channel.close()  # the mounter ends at the end of its stream, and its templates with it
                try:
                    async with asyncio.timeout(5):
                        await process.wait()
                except TimeoutError:
                    process.kill()
                    await process.wait()

    async def ask(self, kind: str, arguments: dict[str, Any], descriptors: tuple[int, ...] = ()) -> Frame:
        """One request. Raises OSError with the mounter's errno and text, SandboxFailure when it is gone."""
        async with self._asking:
            self._number += 1
            try:
                await self._channel.send({"type": kind, "id": self._number, **arguments}, descriptors=descriptors)
                while True:
                    frame = await self._channel.receive()
                    if frame.header.get("id") == self._number:
                        break
                    for descriptor in frame.descriptors:  # the answer to a request that was given up
                        os.close(descriptor)
            except (ChannelClosed, BrokenFrame) as error:
                raise SandboxFailure(
                    "SANDBOX_UNAVAILABLE", "the mounter has ended; restart the daemon to get workers again"
                ) from error
        if frame.type == "error":
            raise OSError(int(frame.header["errno"]), str(frame.header["message"]))
        return frame

    async def make(self, kind: str, arguments: dict[str, Any]) -> int:
        """A request that is answered with one descriptor, which the caller closes."""
        frame = await self.ask(kind, arguments)
        return frame.descriptors[0]


def unavailable(failed: dict[str, Any]) -> SandboxFailure:
    """Why this host gives no sandbox, with what can be done about it."""
    step = failed.get("step", "namespaces")
    return SandboxFailure(
        "SANDBOX_UNAVAILABLE",
        f"this host refuses a sandbox at {step}: {failed['message']}. An ordinary user needs unprivileged user "
        "namespaces: check /proc/sys/user/max_user_namespaces, kernel.unprivileged_userns_clone and "
        "kernel.apparmor_restrict_unprivileged_userns; a container has to allow them, or run the daemon as root "
        "with CAP_SYS_ADMIN",
    )


def mode_for(host_uids: object) -> Literal["root", "user"]:
    """root where the daemon can give workers another host uid, else user."""
    return "root" if host_uids is not None else "user"


__all__ = ["Mounter", "mode_for", "unavailable"]
assert sys.platform == "linux", "Stockade needs Linux"
