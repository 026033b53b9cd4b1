"""One worker: one call's process tree, from the daemon's side."""

import asyncio
import logging
import os
import signal
import socket
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

from stockade_daemon.errors import InfrastructureFailure, SandboxFailure, ToolFailure
from stockade_daemon.sandbox import channel as channels
from stockade_daemon.sandbox import pidfds
from stockade_daemon.sandbox.accounting import Account, Exit, account
from stockade_daemon.sandbox.cgroup_files import Figures, since
from stockade_daemon.sandbox.cgroups import Cgroups, Group
from stockade_daemon.sandbox.channel import ChannelClosed, FrameChannel
from stockade_daemon.sandbox.differing import Differing
from stockade_daemon.sandbox.mounter import Mounter
from stockade_daemon.sandbox.sampling import Sampled
from stockade_daemon.sandbox.scratch import Scratch
from stockade_daemon.values import Layer, Limits
from stockade_worker.frames import BrokenFrame, Frame

_log = logging.getLogger(__name__)
# A body's frame: a header of this many bytes, a blob of this many. An edit's replacement is bounded by the arguments.
_MAX_HEADER = 1 << 20
_MAX_BLOB = 16 << 20
_MAX_FACTS = 16384
_OOM_INTERVAL_S = 0.1


@dataclass(slots=True)
class Ends:
    """Both sides of a worker's descriptors before it exists; whoever makes them closes what is left."""

    control: tuple[socket.socket, socket.socket] = field(default_factory=socket.socketpair)
    requests: tuple[socket.socket, socket.socket] = field(default_factory=socket.socketpair)
    stdout: tuple[int, int] = field(default_factory=lambda: os.pipe2(os.O_CLOEXEC))
    stderr: tuple[int, int] = field(default_factory=lambda: os.pipe2(os.O_CLOEXEC))

    def inner(self) -> tuple[int, ...]:
        return self.control[1].fileno(), self.requests[1].fileno(), self.stdout[1], self.stderr[1]

    def give_to(self, uid: int) -> None:
        """Lets a worker of another host uid open its own output by name (/dev/stderr)."""
        for _, end in (self.stdout, self.stderr):
            os.fchown(end, uid, uid)

    def close_inner(self) -> None:
        self.control[1].close()
        self.requests[1].close()
        os.close(self.stdout[1])
        os.close(self.stderr[1])

    def close_outer(self) -> None:
        self.control[0].close()
        self.requests[0].close()
        os.close(self.stdout[0])
        os.close(self.stderr[0])


@dataclass(frozen=True, slots=True)
class Cover:
    """How a worker's view of the workspace differs from it."""

    differing: Differing = field(default_factory=Differing)  # when the view was made
    layer: Scratch | None = None  # the directory that makes it so


class Worker:
    """A sealed sandbox that waits for its one job. `close` ends it, whatever it is doing."""

    def __init__(
        self, ends: Ends, pidfd: int, *, limits: Limits, scratch: Scratch | None, cover: Cover, view: int | None = None
    ) -> None:
        """`view`: its mount of the workspace where it is for looking; from here on the worker's to close."""
        self.layers: tuple[Layer, ...] = ()  # known once it is ready
        self.scratch = scratch
        self.cover = cover
        self.stdout = ends.stdout[0]
        self.stderr = ends.stderr[0]
        self.requests = FrameChannel(ends.requests[0], max_header=_MAX_HEADER, max_blob=_MAX_BLOB)
        self._control = FrameChannel(ends.control[0], max_header=_MAX_FACTS)
        self._limits = limits
        self._group: Group | None = None
        self._idle = Figures()  # of the group before it has its job
        self._over = False  # it was killed because a look saw more memory than it may use
        self._pidfd = pidfd
        self._body: int | None = None  # a second pidfd, see hold_body
        self._view = view
        self._following: int | None = None  # closed to have the view followed no longer
        self._sampled = Sampled(_host_pid(pidfd))
        self._loop = asyncio.get_running_loop()
        self._gone = asyncio.Event()
        self._closed = False
        self._loop.add_reader(pidfd, self._ended)

    @property
    def host_pid(self) -> int:
        """Of its pid 1, as this process's pid namespace has it; -1 where it has ended."""
        return self._sampled.pid

    async def follow(self, mounter: Mounter) -> None:
        """Has its view of the workspace, if it has one for looking, show what others change there from now on.

        Raises OSError, ChannelClosed.
        """
        if self._view is None or self._following is not None:
            return
        theirs, ours = os.pipe2(os.O_CLOEXEC)
        try:
            await mounter.ask("follow", {}, (self._view, theirs))
        except BaseException:
            os.close(ours)
            raise
        finally:
            os.close(theirs)
        self._following = ours

    async def join(self, cgroups: Cgroups) -> Layer:
        """Puts it into a control group of its own, before it goes on; says whether the limits are in force."""
        failure = ""
        try:
            self._group = await asyncio.to_thread(cgroups.admit, self._sampled.pid, self._limits)
        except OSError as error:
            failure = f"the worker could not be put into a control group: {error}"
            _log.warning("%s", failure)
        return cgroups.layer(self._group, failure)

    async def go(self) -> None:
        """Lets it finish entering and make the body's process, which belongs to its group."""
        with suppress(ChannelClosed):  # a worker that is gone already has left its last words, or none
            await self._control.send({"type": "go"})

    async def ready(self) -> Mapping[str, Any]:
        """Waits until the sandbox is sealed; returns what the kernel says of it.

        Raises SandboxFailure that names the step that failed.
        """
        try:
            async with asyncio.timeout(channels.PATIENCE_S):
                frame = await self._control.receive()
        except (ChannelClosed, BrokenFrame) as error:
            raise SandboxFailure("SANDBOX_FAILED", f"a worker ended before its sandbox was sealed: {error}") from error
        except TimeoutError as error:
            raise SandboxFailure(
                "SANDBOX_FAILED",
                f"a worker was not sealed within {channels.PATIENCE_S:g} s and was ended; nothing was run. "
                "The host may be overloaded, or somebody stopped the process: look at it, then repeat the call",
            ) from error
        if frame.type != "ready":
            step = frame.header.get("step")
            raise SandboxFailure(
                "SANDBOX_UNAVAILABLE", f"a worker cannot enter its sandbox at {step}: {frame.header.get('message')}"
            )
        facts = frame.header["facts"]
        if not isinstance(facts, dict):
            raise SandboxFailure("SANDBOX_FAILED", "a worker reported no facts")
        if self._group is not None:
            self._idle = self._group.figures()
        return facts

    def hold_body(self, pid: object) -> None:
        """Takes hold of the body's process as well. Without a pid namespace killing init kills nobody else but by a
        death signal, which would be a promise with one leg.

        Raises SandboxFailure where `pid`, as the worker says it, is no child of its init.
        """
        body = -1
        try:
            if type(pid) is int:
                body = os.pidfd_open(pid)
                # Asked after it is held: a number that was given out again is another parent's child.
                if _parent(pid) == self._sampled.pid:
                    self._body = body
                    self._loop.add_reader(body, self._body_ended)
                    return
        except OSError:
            pass
        if body != -1:
            os.close(body)
        raise SandboxFailure("SANDBOX_FAILED", "a worker's body ended before its sandbox was sealed")

    async def exited(self) -> Exit:
        """Waits for the end of the body's first process.

        Raises InfrastructureFailure when the worker was ended from outside, so that nothing reported its end.
        """
        try:
            frame = await self._control.receive()
            return _exit(frame)
        except (ChannelClosed, BrokenFrame) as error:
            raise InfrastructureFailure(
                "TOOL_OUTCOME_UNKNOWN",
                "the worker was ended from outside (killed, or the host ran out of memory); effects: none (proven). "
                "Look at the host's log, then repeat the call",
            ) from error

    async def last_words(self, seconds: float) -> Exit | None:
        """The end of the body's first process where it is reported soon; None where it is not."""
        try:
            async with asyncio.timeout(seconds):
                return await self.exited()
        except (TimeoutError, InfrastructureFailure):
            return None

    async def watch(self) -> None:
        """Ends all of it over its memory while it has its job, where the kernel does not: that kills one process in a
        group of version 1, and none without a group."""
        if self._group is None or not self._group.knows_memory:
            await self._sampled.until_over(self._limits.memory_mb * 1024 * 1024)
            self._over = True
        else:
            await asyncio.sleep(_OOM_INTERVAL_S)  # most calls are over before the first look
            while not self._group.figures().oom_kills:  # noqa: ASYNC110 (a file of the kernel's has no event)
                await asyncio.sleep(_OOM_INTERVAL_S)
        self.kill()

    async def look(self, *, moved: bool = False) -> None:
        """A last look before it is killed, for what only living processes tell. `moved`: the bytes moved as well."""
        if not self._gone.is_set() and (moved or None in (self._idle.cpu_s, self._idle.peak_bytes)):
            await self._sampled.look()

    def account(self, ended: Exit | None) -> Account:
        """What it used and which limits it met. Final once it is gone."""
        counted = since(self._group.figures(), self._idle) if self._group is not None else None
        return account(counted, self._sampled, ended, self._limits, over=self._over)

    async def gone(self) -> None:
        """Waits until every process of the worker is gone: its pid namespace has ended (pidfd_open(2)); in place, init
        and body."""
        await self._gone.wait()

    @property
    def is_gone(self) -> bool:
        """Whether `gone` returns at once."""
        return self._gone.is_set()

    async def signal(self, number: int) -> bool:
        """Has its init send a signal to the body's process group. False: the worker is gone, and nobody was asked."""
        try:
            await self._control.send({"type": "signal", "number": number})
        except ChannelClosed:
            return False
        return True

    def alive(self) -> bool:
        return not self._closed and not pidfds.ended(self._pidfd)

    def kill(self) -> None:
        """Kills pid 1 of the worker's pid namespace; the kernel kills all the rest before pid 1 is reaped. In place it
        kills body and init."""
        if not self._closed:
            if self._body is not None:
                with suppress(ProcessLookupError):
                    signal.pidfd_send_signal(self._body, signal.SIGKILL)
            try:
                signal.pidfd_send_signal(self._pidfd, signal.SIGKILL)
            except ProcessLookupError:
                self._ended()

    def _ended(self) -> None:
        self._loop.remove_reader(self._pidfd)
        if self._body is None or pidfds.ended(self._body):
            self._gone.set()

    def _body_ended(self) -> None:
        assert self._body is not None
        self._loop.remove_reader(self._body)
        if pidfds.ended(self._pidfd):
            self._gone.set()

    async def close(self) -> None:
        """Ends the worker, waits until its whole tree is gone, and closes everything of it. Safe to repeat."""
        if self._closed:
            return
        self.kill()
        await self._gone.wait()
        self._closed = True
        self._loop.remove_reader(self._pidfd)
        os.close(self._pidfd)
        if self._body is not None:
            self._loop.remove_reader(self._body)
            os.close(self._body)
        self.requests.close()
        self._control.close()
        os.close(self.stdout)
        os.close(self.stderr)
        for descriptor in (self._following, self._view):
            if descriptor is not None:
                os.close(descriptor)
        if self._group is not None:
            await asyncio.to_thread(self._group.remove)
        for each in (self.scratch, self.cover.layer):
            if each is not None:
                await each.remove()


def _host_pid(pidfd: int) -> int:
    """The pid of a pidfd, as this process's pid namespace has it (pidfd_open(2)); -1 where it has ended."""
    with open(f"/proc/self/fdinfo/{pidfd}", encoding="ascii") as lines:
        return next((int(line.split()[1]) for line in lines if line.startswith("Pid:")), -1)


def _parent(pid: int) -> int:
    """Raises OSError where there is no such process (proc_pid_stat(5))."""
    with open(f"/proc/{pid}/stat", encoding="utf-8", errors="replace") as file:
        return int(file.read().rpartition(")")[2].split()[1])


def _exit(frame: Frame) -> Exit:
    """Checks what init says: it is ours, but it lives among what we do not trust."""
    header = frame.header
    code, number = header.get("exit_code"), header.get("signal")
    cpu_s, max_rss_kb = header.get("cpu_s"), header.get("max_rss_kb")
    read, written = header.get("read_bytes"), header.get("written_bytes")
    if (
        frame.type != "exited"
        or not (code is None or (type(code) is int and 0 <= code <= 255))
        or not (number is None or (type(number) is int and 0 < number <= 64))
        or (code is None) == (number is None)
        or not (isinstance(cpu_s, int | float) and cpu_s >= 0)
        or not (type(max_rss_kb) is int and max_rss_kb >= 0)
        or not (type(read) is int and read >= 0)
        or not (type(written) is int and written >= 0)
    ):
        raise ToolFailure("INVALID_TOOL_OUTPUT", "the worker's init sent something that is no report of an exit")
    return Exit(code, number, float(cpu_s), max_rss_kb * 1024, read, written)
