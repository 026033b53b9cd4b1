"""Id-mapped mounts: the workspace's owner looks like the worker, on one mount, without a chown (mount_setattr(2))."""

import errno
import os
from typing import NoReturn

from stockade_worker import kernel

_LARGEST = (1 << 32) - 2  # uid_t -1 means "no change" and cannot be mapped


def swap(tree: int, owner_uid: int, owner_gid: int, worker: int) -> None:
    """Id-maps the detached mount `tree` so that the owner's files appear as `worker`'s and the other way round.

    Every other id stays what it is; swapping, not merging, keeps the map one to one, as the kernel wants it. Needs
    CAP_SYS_ADMIN in the file system's user namespace, and a file system that knows id-mapped mounts.
    """
    namespace = _namespace(_extents(owner_uid, worker), _extents(owner_gid, worker))
    try:
        kernel.mount_setattr(tree, "", set_=kernel.MOUNT_ATTR_IDMAP, userns=namespace)
    finally:
        os.close(namespace)


def _extents(owner: int, worker: int) -> str:
    if owner == worker:
        return f"0 0 {_LARGEST + 1}\n"
    low, high = sorted((owner, worker))
    ranges = [
        (0, 0, low),
        (low, high, 1),
        (low + 1, low + 1, high - low - 1),
        (high, low, 1),
        (high + 1, high + 1, _LARGEST - high),
    ]
    return "".join(f"{first} {second} {count}\n" for first, second, count in ranges if count > 0)


def _namespace(uids: str, gids: str) -> int:
    """A user namespace with these uid and gid maps, as a descriptor. A child makes it and waits until it is let go."""
    made, making = os.pipe2(os.O_CLOEXEC)
    waiting, held = os.pipe2(os.O_CLOEXEC)
    child = os.fork()
    if child == 0:
        _hold(making, waiting)
    os.close(making)
    os.close(waiting)
    try:
        number = os.read(made, 1)
        if number != b"\0":
            raise OSError(number[0] if number else 0, "cannot make a user namespace for an id map")
        for name, extents in (("uid_map", uids), ("gid_map", gids)):
            descriptor = os.open(f"/proc/{child}/{name}", os.O_WRONLY | os.O_CLOEXEC)
            try:
                os.write(descriptor, extents.encode())
            finally:
                os.close(descriptor)
        return os.open(f"/proc/{child}/ns/user", os.O_RDONLY | os.O_CLOEXEC)
    finally:
        os.close(made)
        os.close(held)
        os.waitpid(child, 0)


def _hold(making: int, waiting: int) -> NoReturn:
    """The child: ends when its parent lets go of the pipe, or dies, which lets go of it too.

    It keeps nothing else of its parent's open, so it cannot hold back the end of a stream that somebody waits for.
    """
    try:
        os.dup2(making, 3)
        os.dup2(waiting, 4)
        kernel.close_range(5, 2**31 - 1)
        try:
            kernel.unshare(kernel.CLONE_NEWUSER)
        except OSError as error:
            os.write(3, bytes([error.errno or errno.EPERM]))
            os._exit(1)
        os.write(3, b"\0")
        os.close(3)
        os.read(4, 1)
    finally:
        os._exit(0)
