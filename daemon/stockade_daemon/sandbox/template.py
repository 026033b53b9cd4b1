"""A template: the process that one session's workers are cloned from."""

import asyncio
import os
import signal
import socket
from collections.abc import AsyncIterator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager, suppress

from stockade_daemon.errors import SandboxFailure
from stockade_daemon.sandbox import channel as channels
from stockade_daemon.sandbox import pidfds
from stockade_daemon.sandbox.channel import ChannelClosed, FrameChannel, NotSent
from stockade_daemon.sandbox.mounter import Mounter, unavailable
from stockade_daemon.sandbox.plan import Plan
from stockade_worker.frames import BrokenFrame


class Template:
    """A running zygote; `spawn` clones a worker."""

    def __init__(self, channel: FrameChannel, pidfd: int) -> None:
        self._channel = channel
        self._pidfd = pidfd
        self._over = False  # its descriptors are being closed
        # Keeps a request and its answer together.
        self._spawning = asyncio.Lock()

    @classmethod
    @asynccontextmanager
    async def start(cls, mounter: Mounter, plan: Plan) -> AsyncIterator["Template"]:
        """Starts a zygote by `plan`; at the end its whole pid namespace is gone.

        Raises SandboxFailure with the failing step and its reason.
        """
        async with AsyncExitStack() as stack:
            ours, theirs = socket.socketpair()
            channel = stack.enter_context(FrameChannel(ours, with_descriptors=True))
            with theirs:
                try:
                    frame = await mounter.ask("template", {"plan": plan.root}, (theirs.fileno(),))
                except OSError as error:
                    raise unavailable({"step": "clone", "message": str(error)}) from error
            pidfd = frame.descriptors[0]
            stack.push_async_callback(_end, channel, pidfd)
            # The zygote may have failed before it could read this; then its last words are what counts.
            with suppress(ChannelClosed):
                await channel.send(plan.start, plan.blob)
            try:
                async with asyncio.timeout(channels.PATIENCE_S):
                    answer = await channel.receive()
            except (ChannelClosed, BrokenFrame) as error:
                raise SandboxFailure("SANDBOX_FAILED", f"the template ended while it started: {error}") from error
            except TimeoutError as error:
                raise ChannelClosed(f"the template did not start within {channels.PATIENCE_S:g} s") from error
            if answer.type != "ready":
                if answer.header.get("step") == "mounts":
                    raise SandboxFailure(
                        "SANDBOX_FAILED", f"profile {plan.profile} mounts {answer.header.get('message')}"
                    )
                if answer.header.get("step") == "secrets":
                    raise SandboxFailure(
                        "SANDBOX_FAILED", f"profile {plan.profile} gives a secret from {answer.header.get('message')}"
                    )
                raise unavailable(answer.header)
            made = cls(channel, pidfd)
            try:
                yield made
            finally:
                made._over = True

    def alive(self) -> bool:
        """Whether it goes on, for all one sees."""
        return not self._over and not pidfds.ended(self._pidfd)

    async def ended(self, within_s: float) -> bool:
        """Whether it has ended, or does so within that many seconds. Its workers are gone a moment before itself: pid 1
        of a pid namespace ends last (pid_namespaces(7))."""
        if self._over:
            return True
        loop = asyncio.get_running_loop()
        gone = asyncio.Event()
        # A descriptor of its own: the other may be closed meanwhile, or watched by another.
        pidfd = os.dup(self._pidfd)
        loop.add_reader(pidfd, gone.set)
        try:
            async with asyncio.timeout(within_s):
                await gone.wait()
        except TimeoutError:
            return False
        finally:
            loop.remove_reader(pidfd)
            os.close(pidfd)
        return True

    async def spawn(
        self, ends: tuple[int, ...], *, workspace: bool, writable: bool, scratch: Sequence[str] = ()
    ) -> int:
        """Clones a worker with these descriptors (control, requests, stdout, stderr, then the workspace's mount, then
        those that go into it at the paths `scratch`).

        Returns its pidfd, which the caller closes. Raises ChannelClosed when the zygote is gone or silent,
        SandboxFailure when it cannot clone.
        """
        async with self._spawning:
            try:
                request = {"type": "spawn", "workspace": workspace, "writable": writable, "scratch": list(scratch)}
                frame = await self._channel.ask(request, ends)
            except NotSent as error:
                # The template is sound, and other calls have workers of it.
                raise SandboxFailure(
                    "SANDBOX_FAILED",
                    f"the host takes no more descriptors of this uid for now ({error}); nothing was run. "
                    "Repeat the call",
                ) from error
            except TimeoutError as error:
                raise ChannelClosed(f"the template was silent for {channels.PATIENCE_S:g} s") from error
        if frame.type != "spawned":
            raise SandboxFailure("SANDBOX_UNAVAILABLE", f"a worker cannot be cloned: {frame.header.get('message')}")
        return frame.descriptors[0]


async def _end(channel: FrameChannel, pidfd: int) -> None:
    """Ends a zygote: closing its channel asks, SIGKILL insists. Waits until its pid namespace is gone."""
    loop = asyncio.get_running_loop()
    gone = asyncio.Event()
    loop.add_reader(pidfd, gone.set)
    try:
        channel.close()
        try:
            async with asyncio.timeout(2):
                await gone.wait()
        except TimeoutError:
            signal.pidfd_send_signal(pidfd, signal.SIGKILL)
            await gone.wait()
    finally:
        loop.remove_reader(pidfd)
        os.close(pidfd)
