"""The template zygote: pid 1 of a sandbox that is already built; workers are cloned from it, one for each call.

(Where the host refuses user namespaces it is an ordinary process, see enter_in_place.py.)

One thread, no secrets, no grpc. It enters a user namespace of its own, so that its mounts are locked for the workers,
which live in nested ones: not even with every capability of their namespace can they lift "read-only". When it dies,
everything in its pid namespace is dead at once, without any death signal having to arrive.
"""

import gc
import importlib
import os
import select
import signal
import socket
import sys

from stockade_worker import enter, enter_in_place, init, kernel, mounts, userns
from stockade_worker.frames import Channel, Frame
from stockade_worker.mounter import INSIDE_UID
from stockade_worker.plan import WorkerPlan

WORKER_NAMESPACES = (
    kernel.CLONE_NEWUSER | kernel.CLONE_NEWNS | kernel.CLONE_NEWPID | kernel.CLONE_NEWIPC | kernel.CLONE_NEWUTS
)


def namespaces(network: str) -> int:
    """The flags of clone(2) for a worker."""
    return WORKER_NAMESPACES if network == "host" else WORKER_NAMESPACES | kernel.CLONE_NEWNET


def _enter_namespaces(hostname: str, network: str) -> None:
    uid, gid = os.getuid(), os.getgid()
    # Not a new pid namespace: this process is pid 1 of one since the mounter cloned it.
    kernel.unshare(namespaces(network) & ~kernel.CLONE_NEWPID | kernel.CLONE_NEWCGROUP)
    userns.map_single(INSIDE_UID, uid, gid)
    socket.sethostname(hostname)


def _spawn(channel: Channel, frame: Frame, plan: WorkerPlan) -> None:
    """Clones one worker and hands its pidfd to the daemon."""
    number = frame.header["id"]
    try:
        ours = os.getpid()
        pid = kernel.clone(namespaces(plan.network) if plan.readable is None else 0)
        if pid == 0:
            signal.set_wakeup_fd(-1)
            if plan.readable is not None:
                enter_in_place.become_worker(plan, frame.descriptors, parent=ours)
            init.main(enter.contain(plan, frame.header, frame.descriptors), plan)
        pidfd = os.pidfd_open(pid)
    except OSError as error:
        channel.send({"type": "error", "id": number, "errno": error.errno or 0, "message": str(error)})
        return
    finally:
        for descriptor in frame.descriptors:
            os.close(descriptor)
    try:
        channel.send({"type": "spawned", "id": number}, descriptors=(pidfd,))
    except OSError as error:
        # The kernel takes no more descriptors for now (unix(7)): this worker is given up, and no other.
        signal.pidfd_send_signal(pidfd, signal.SIGKILL)
        channel.send({"type": "error", "id": number, "errno": error.errno or 0, "message": str(error)})
    finally:
        os.close(pidfd)


def _reap() -> None:
    """Collects ended workers, and what they left to pid 1."""
    while True:
        try:
            pid, _ = os.waitpid(-1, os.WNOHANG)
        except ChildProcessError:
            return
        if pid == 0:
            return


def _serve(channel: Channel, plan: WorkerPlan) -> None:
    woken, wake = os.pipe2(os.O_CLOEXEC | os.O_NONBLOCK)
    signal.set_wakeup_fd(wake, warn_on_full_buffer=False)
    signal.signal(signal.SIGCHLD, lambda *_: None)  # a handler has to exist for the wake-up byte to be written
    poll = select.poll()
    poll.register(channel.fileno(), select.POLLIN)
    poll.register(woken, select.POLLIN)
    while True:
        for descriptor, _ in poll.poll():
            if descriptor == woken:
                os.read(woken, 4096)
                _reap()
                continue
            frame = channel.receive()
            if frame is None:
                return  # the daemon is gone: so is everything here
            if frame.type == "spawn":
                _spawn(channel, frame, plan)


def main() -> None:
    # The mounter's death must be ours. Set here, because changing the uid clears it, and again of no use to a worker.
    kernel.prctl(kernel.PR_SET_PDEATHSIG, signal.SIGKILL)
    channel = Channel(socket.socket(fileno=int(sys.argv[1])))
    os.set_inheritable(channel.fileno(), False)
    start = channel.receive()
    if start is None:
        return
    in_namespaces = start.header["readable"] is None
    step = "namespaces"
    try:
        if in_namespaces:
            _enter_namespaces(start.header["hostname"], start.header["network"])
        elif os.getppid() != int(sys.argv[2]):
            return  # the mounter died before the death signal was set
        else:
            # What a killed init leaves behind is ours to collect: in a container, nobody else may.
            kernel.prctl(kernel.PR_SET_CHILD_SUBREAPER, 1)
        step = "tools"
        for name in start.header["modules"]:
            importlib.import_module(name)
        plan = WorkerPlan.from_frame(start.header, start.blob)
        if in_namespaces:
            mounts.covers()
    except Exception as error:
        number = getattr(error, "errno", None) or 0
        channel.send({"type": "failed", "step": step, "errno": number, "message": str(error)})
        return
    gc.collect()
    gc.freeze()  # keep the collector from touching, and so copying, pages that workers share
    channel.send({"type": "ready"})
    _serve(channel, plan)
