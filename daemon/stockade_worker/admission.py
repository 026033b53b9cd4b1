"""A body begins in the worker's control group: its process is not made before the daemon has put the worker there.

The cgroup namespace comes after: what a process sees as the root of control groups is where it was at that moment
(cgroup_namespaces(7)).
"""

import os
import socket

from stockade_worker import kernel
from stockade_worker.frames import Channel


def wait(control: int) -> None:
    """Waits for the daemon's word on the control channel; ends this process where the daemon is gone."""
    end = socket.socket(fileno=control)
    try:
        frame = Channel(end).receive()
    finally:
        end.detach()
    if frame is None:
        os._exit(0)
    if frame.type != "go":
        raise OSError(0, f"the daemon said {frame.type!r} before it said go")


def own_view() -> None:
    """A cgroup namespace, in which the worker's group is the root and no other exists."""
    kernel.unshare(kernel.CLONE_NEWCGROUP)
