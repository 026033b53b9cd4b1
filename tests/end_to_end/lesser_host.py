"""Runs a command on a host that gives less: `python -m tests.end_to_end.lesser_host LACK… -- COMMAND…`.

The kernel refuses, not the product: a system-call filter or namespaces stand around the command and all that it starts.
Nothing of the product knows of it.
"""

import errno
import os
import sys
from collections.abc import Callable
from pathlib import Path

import pyseccomp

from stockade_worker import kernel

CGROUPS = "/sys/fs/cgroup"


def landlock() -> None:
    """A kernel without Landlock."""
    _refuse(errno.ENOSYS, "landlock_create_ruleset", "landlock_add_rule", "landlock_restrict_self")


def landlock_off() -> None:
    """A kernel that has Landlock and did not switch it on at boot."""
    _refuse(errno.EOPNOTSUPP, "landlock_create_ruleset", "landlock_add_rule", "landlock_restrict_self")


def user_namespaces() -> None:
    """What a container's filter does."""
    rules = pyseccomp.SyscallFilter(pyseccomp.ALLOW)
    flag = kernel.CLONE_NEWUSER
    for name in ("clone", "unshare"):
        rules.add_rule(pyseccomp.ERRNO(errno.EPERM), name, pyseccomp.Arg(0, pyseccomp.MASKED_EQ, flag, flag))
    rules.add_rule(pyseccomp.ERRNO(errno.ENOSYS), "clone3")
    rules.load()


def user_namespaces_by_setting() -> None:
    """user.max_user_namespaces is counted in each user namespace: in one of our own it can be 0."""
    _own(kernel.CLONE_NEWUSER)
    Path("/proc/sys/user/max_user_namespaces").write_text("0")


def time_namespaces() -> None:
    """A kernel without them, as far as unshare tells."""
    rules = pyseccomp.SyscallFilter(pyseccomp.ALLOW)
    flag = kernel.CLONE_NEWTIME
    rules.add_rule(pyseccomp.ERRNO(errno.EINVAL), "unshare", pyseccomp.Arg(0, pyseccomp.MASKED_EQ, flag, flag))
    rules.load()


def overlay() -> None:
    """A kernel that knows no file system by open descriptors but what is needed first: fsopen is refused."""
    _refuse(errno.ENODEV, "fsopen")


def cgroups_read_only() -> None:
    _own_mounts()
    kernel.mount_setattr(kernel.AT_FDCWD, CGROUPS, set_=kernel.MOUNT_ATTR_RDONLY)


def no_cgroups() -> None:
    """An ordinary user's is only covered: what the host has mounted it cannot take away."""
    _own_mounts()
    if os.geteuid() == 0:
        for line in reversed(Path("/proc/self/mounts").read_text().splitlines()):
            _, point, kind, _ = line.split(" ", 3)
            if kind in ("cgroup", "cgroup2"):
                kernel.umount2(point)
    else:
        kernel.mount("nothing", CGROUPS, "tmpfs", 0)


def space() -> None:
    """A file system for temporary files that holds next to nothing."""
    _own_mounts()
    kernel.mount("little", os.environ["TMPDIR"], "tmpfs", 0, "size=512k")


def _refuse(number: int, *names: str) -> None:
    rules = pyseccomp.SyscallFilter(pyseccomp.ALLOW)
    for name in names:
        rules.add_rule(pyseccomp.ERRNO(number), name)
    rules.load()


def _own(flags: int) -> None:
    """Namespaces, with a user namespace in which the caller is who it was."""
    uid, gid = os.geteuid(), os.getegid()
    kernel.unshare(flags)
    for name, text in (("setgroups", "deny"), ("uid_map", f"{uid} {uid} 1"), ("gid_map", f"{gid} {gid} 1")):
        Path("/proc/self", name).write_text(text)


def _own_mounts() -> None:
    if os.geteuid() == 0:
        kernel.unshare(kernel.CLONE_NEWNS)
    else:
        _own(kernel.CLONE_NEWUSER | kernel.CLONE_NEWNS)
    kernel.mount(None, "/", None, kernel.MS_REC | kernel.MS_PRIVATE)


LACKS: dict[str, Callable[[], None]] = {
    each.__name__: each
    for each in (
        landlock, landlock_off, user_namespaces, user_namespaces_by_setting, time_namespaces, overlay,
        cgroups_read_only, no_cgroups, space,
    )
}  # fmt: skip

if __name__ == "__main__":
    where = sys.argv.index("--")
    for lack in sys.argv[1:where]:
        LACKS[lack]()
    os.execv(sys.argv[where + 1], sys.argv[where + 1 :])
