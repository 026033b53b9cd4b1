"""Mounts of one worker: a /proc and a /tmp of its own, and the workspace at its own path."""

import os

from stockade_worker import kernel, trees

_FLAGS = kernel.MS_NOSUID | kernel.MS_NODEV


def own_proc() -> None:
    """/proc of the worker's own pid namespace, over the template's."""
    kernel.mount("proc", "/proc", "proc", _FLAGS | kernel.MS_NOEXEC)


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
