"""Mounts of one worker: a /proc and a /tmp of its own, and the workspace at its own path."""

import contextlib
import functools
import os
import stat

from stockade_worker import kernel, trees
from stockade_worker.root import EMPTY_DIRECTORY, EMPTY_FILE

_FLAGS = kernel.MS_NOSUID | kernel.MS_NODEV
# What /proc says about the host and no program inside needs. Whatever only root may read needs no cover: the worker is
# nobody on the host.
_COVERED = (
    "acpi", "asound", "bus", "cmdline", "config.gz", "driver", "fs", "interrupts", "iomem", "ioports", "irq",
    "kallsyms", "key-users", "keys", "latency_stats", "modules", "mtrr", "sched_debug", "scsi", "slabinfo", "softirqs",
    "timer_list", "timer_stats", "vmallocinfo",
)  # fmt: skip
# Limits of the worker's own user namespace (namespaces(7), inotify(7)). Without the second, one call could take all of
# the inotify instances that its host uid has.
_NAMESPACE_LIMITS = {"max_user_namespaces": 0, "max_inotify_instances": 64}


@functools.cache
def covers() -> tuple[tuple[str, str], ...]:
    """What is put over what in a worker's /proc. Asked once, in the template: its workers inherit the answer."""
    found = []
    for name in _COVERED:
        path = f"/proc/{name}"
        with contextlib.suppress(OSError):
            mode = os.stat(path).st_mode
            if mode & stat.S_IROTH:
                found.append((EMPTY_DIRECTORY if stat.S_ISDIR(mode) else EMPTY_FILE, path))
    return tuple(found)


def own_proc() -> None:
    """/proc of the worker's own pid namespace, over the template's: without the host's secrets, /proc/sys read-only."""
    kernel.mount("proc", "/proc", "proc", _FLAGS | kernel.MS_NOEXEC)
    for source, path in covers():
        kernel.mount(source, path, None, kernel.MS_BIND)
    for name, value in _NAMESPACE_LIMITS.items():
        # A second wall behind the filter: a kernel without the setting has only the first.
        with contextlib.suppress(OSError), open(f"/proc/sys/user/{name}", "w", encoding="ascii") as limit:
            limit.write(str(value))
    tree = kernel.open_tree("/proc/sys")
    try:
        kernel.mount_setattr(tree, "", set_=kernel.MOUNT_ATTR_RDONLY)
        kernel.move_mount(tree, "/proc/sys")
    finally:
        os.close(tree)


def private_tmp(size_kb: int, inodes: int, keep: tuple[str, ...]) -> None:
    """/tmp, /var/tmp and /dev/shm as directories of one new tmpfs, so that one limit holds all.

    `keep`: mounts of the profile that lie below them; they are there again afterwards.
    """
    kept = trees.again(keep)
    kernel.mount("tmp", "/tmp", "tmpfs", _FLAGS, f"mode=755,size={size_kb}k,nr_inodes={inodes}")
    for name, target in (("shm", "/dev/shm"), ("var-tmp", "/var/tmp"), ("tmp", "/tmp")):
        if os.path.islink(target):  # a profile that shows the host's /var, where /var/tmp leads somewhere else
            continue
        source = f"/tmp/{name}"
        os.mkdir(source)
        os.chmod(source, 0o1777)
        tree = kernel.open_tree(source)
        try:
            kernel.move_mount(tree, target)
        finally:
            os.close(tree)
    for each in kept:
        trees.attach(each)


def attach_workspace(tree: int, path: str) -> None:
    """Puts the mount that the mounter made at the workspace's own path, and goes there.

    Below /tmp or /dev/shm the mount point has to be made now; elsewhere the template made it before its root became
    read-only.
    """
    os.makedirs(path, exist_ok=True)
    kernel.move_mount(tree, path)
    os.close(tree)
    os.chdir(path)


def attach_scratch(tree: int, workspace: str, path: str) -> None:
    """Puts a directory that the session keeps at its path in the workspace, whose mount has a mount point for it.

    Reached by descriptors and through no link: below the workspace others choose the names.
    """
    flags = os.O_PATH | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
    held = os.open(workspace, flags)
    try:
        for part in path.split("/"):
            deeper = os.open(part, flags, dir_fd=held)
            os.close(held)
            held = deeper
        kernel.move_mount(tree, held)
    finally:
        os.close(held)
        os.close(tree)
