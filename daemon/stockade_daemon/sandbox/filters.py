"""Compiling system-call filters with libseccomp: two programs, because one cannot say both things.

The first is an allow list by number. The second allows everything and refuses by argument: libseccomp drops an argument
rule for a call that is allowed without condition, and cannot express "masked value differs" in an allow list. The
kernel takes the strictest answer of the two.
"""

import contextlib
import errno
import functools
import os
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from typing import IO

import pyseccomp

from stockade_daemon.sandbox.syscalls import ABSENT, FAMILIES, GROUPS, IN_PLACE_GROUPS, NOT_IN_PLACE, REFUSED

_CLONE_NAMESPACES = 0x7E020000 | 0x80  # every CLONE_NEW* of clone(2), and CLONE_NEWTIME
_MODE_OF = {  # call: index of its mode argument
    "chmod": 1, "fchmod": 1, "fchmodat": 2, "mkdir": 1, "mkdirat": 2, "mknod": 1, "mknodat": 2, "creat": 1,
}  # fmt: skip
_OPENING = {"open": (1, 2), "openat": (2, 3)}  # call: indices of its flags and of its mode
_CREATING = (0o100, 0o20000000)  # O_CREAT, __O_TMPFILE: without one of them the mode is whatever lay in the register
_TERMINAL = (0x5412, 0x541C, 0x5423)  # TIOCSTI, TIOCLINUX, TIOCSETD: typing into somebody's terminal
# In place, requests by call. ioctl: a terminal's attributes and size, how much can be read, blocking and close-on-exec.
# fcntl: copies of a descriptor, its flags, a file's seals. Others change files that are only open for reading, lock
# them or watch them (ioctl_fs_flags(2), fcntl(2)).
_HARMLESS = {
    "ioctl": (0x5401, 0x5413, 0x541B, 0x5421, 0x5450, 0x5451),
    "fcntl": (0, 1, 2, 3, 4, 1030, 1034),
}
_PR_SET_PDEATHSIG = 1
_SOCK_STREAM = 1
_SOCK_SEQPACKET = 5
_S_IFMT = 0o170000
_S_IFCHR = 0o020000
_S_IFBLK = 0o060000
_S_IFIFO = 0o010000
_S_IFSOCK = 0o140000
_LAST_FAMILY = 64  # above AF_MAX
_NEW_LISTENER = 1 << 3  # SECCOMP_FILTER_FLAG_NEW_LISTENER
_UNAME_QUERY = 0xFFFFFFFF  # personality(2): ask, do not set


@dataclass(frozen=True, slots=True)
class Programs:
    """Two arrays of struct sock_filter, to be loaded in this order."""

    allow: bytes
    arguments: bytes

    @property
    def blob(self) -> bytes:
        """Both, as a zygote is sent them."""
        return self.allow + self.arguments


@functools.lru_cache(maxsize=64)
def compiled(groups: tuple[str, ...], *, in_place: bool = False) -> Programs:
    """The filters of a set of groups of syscalls.GROUPS; `in_place`: of a worker in the host's own view.

    Raises OSError where libseccomp refuses a rule.
    """
    if in_place:
        groups = tuple(group for group in groups if group in IN_PLACE_GROUPS)
    return Programs(_allow(groups, in_place=in_place), _arguments(groups, in_place=in_place))


def _allow(groups: tuple[str, ...], *, in_place: bool) -> bytes:
    rules = _filter(pyseccomp.ERRNO(errno.ENOSYS))
    refused = {*REFUSED, *NOT_IN_PLACE} if in_place else set(REFUSED)
    allowed = {name for group in groups for name in GROUPS[group]}
    if in_place:
        allowed -= refused
        for name, requests in _HARMLESS.items():
            for request in requests:
                _add(rules, pyseccomp.ALLOW, name, pyseccomp.Arg(1, pyseccomp.MASKED_EQ, 0xFFFFFFFF, request))
    for name in sorted(allowed - set(ABSENT)):
        _add(rules, pyseccomp.ALLOW, name)
    for name in sorted(refused - allowed):
        if name not in _HARMLESS or not in_place:
            _add(rules, pyseccomp.ERRNO(errno.EPERM), name)
    # A process may ask for its personality and set the plain one; others relax protections.
    for value in (0, _UNAME_QUERY):
        _add(rules, pyseccomp.ALLOW, "personality", pyseccomp.Arg(0, pyseccomp.EQ, value))
    return _exported(rules)


def _arguments(groups: tuple[str, ...], *, in_place: bool) -> bytes:
    rules = _filter(pyseccomp.ALLOW)
    refuse = pyseccomp.ERRNO(errno.EPERM)
    if in_place:
        _in_place(rules)
    for flag in (1 << bit for bit in range(32) if _CLONE_NAMESPACES >> bit & 1):
        _add(rules, refuse, "clone", pyseccomp.Arg(0, pyseccomp.MASKED_EQ, flag, flag))
    for bit in (0o4000, 0o2000):  # S_ISUID, S_ISGID
        for name, index in _MODE_OF.items():
            _add(rules, refuse, name, pyseccomp.Arg(index, pyseccomp.MASKED_EQ, bit, bit))
        for name, (flags, mode) in _OPENING.items():
            for flag in _CREATING:
                creating = pyseccomp.Arg(flags, pyseccomp.MASKED_EQ, flag, flag)
                _add(rules, refuse, name, creating, pyseccomp.Arg(mode, pyseccomp.MASKED_EQ, bit, bit))
    # Devices never. Named pipes and sockets only where processes of the call may talk to each other by name: a program
    # on the host that walks the workspace could hang on one.
    special = (_S_IFCHR, _S_IFBLK, *(() if "ipc_local" in groups else (_S_IFIFO, _S_IFSOCK)))
    for name, index in (("mknod", 1), ("mknodat", 2)):
        for kind in special:
            _add(rules, refuse, name, pyseccomp.Arg(index, pyseccomp.MASKED_EQ, _S_IFMT, kind))
    for request in _TERMINAL:
        # The kernel looks at the low 32 bits only, so the rule must as well.
        _add(rules, refuse, "ioctl", pyseccomp.Arg(1, pyseccomp.MASKED_EQ, 0xFFFFFFFF, request))
    _add(rules, refuse, "seccomp", pyseccomp.Arg(1, pyseccomp.MASKED_EQ, _NEW_LISTENER, _NEW_LISTENER))
    families = {family for group in groups for family in FAMILIES.get(group, ())}
    unsupported = pyseccomp.ERRNO(errno.EAFNOSUPPORT)
    for family in range(_LAST_FAMILY):
        if family not in families:
            _add(rules, unsupported, "socket", pyseccomp.Arg(0, pyseccomp.MASKED_EQ, 0xFFFFFFFF, family))
        if family != 1:  # socketpair(2) is for Unix sockets
            _add(rules, unsupported, "socketpair", pyseccomp.Arg(0, pyseccomp.MASKED_EQ, 0xFFFFFFFF, family))
    for name in ("socket", "socketpair"):
        _add(rules, unsupported, name, pyseccomp.Arg(0, pyseccomp.GE, _LAST_FAMILY))
    # Raw sockets see other traffic of the namespace and need no honest program.
    _add(rules, refuse, "socket", pyseccomp.Arg(1, pyseccomp.MASKED_EQ, 0xF, 3))
    return _exported(rules)


def _in_place(rules: pyseccomp.SyscallFilter) -> None:
    """What a process may do to others of its uid, to their files or by their names, and Landlock does not hold."""
    refuse = pyseccomp.ERRNO(errno.EPERM)
    # Limits of another process and questions about it; the death signal that ends a body with its init.
    for name in ("prlimit64", "getpgid", "getsid", "sched_getaffinity"):
        _add(rules, refuse, name, pyseccomp.Arg(0, pyseccomp.NE, 0))
    _add(rules, refuse, "prctl", pyseccomp.Arg(0, pyseccomp.MASKED_EQ, 0xFFFFFFFF, _PR_SET_PDEATHSIG))
    # A datagram socket of a pair can send to any other by name or path; one of a connection cannot.
    for kind in range(16):
        if kind not in (_SOCK_STREAM, _SOCK_SEQPACKET):
            _add(rules, refuse, "socketpair", pyseccomp.Arg(1, pyseccomp.MASKED_EQ, 0xF, kind))


def _filter(default: int) -> pyseccomp.SyscallFilter:
    rules = pyseccomp.SyscallFilter(default)
    # Foreign architectures (i386 by int 0x80, x32 numbers): no honest program comes that way, and a retry must not be.
    rules.set_attr(pyseccomp.Attr.ACT_BADARCH, pyseccomp.KILL_PROCESS)
    # A binary tree: half the loading time. Before libseccomp 2.5 there is none: correct, only slower.
    with contextlib.suppress(OSError, ValueError, AttributeError):
        rules.set_attr(pyseccomp.Attr.CTL_OPTIMIZE, 2)
    return rules


def _add(rules: pyseccomp.SyscallFilter, action: int, name: str, *arguments: pyseccomp.Arg) -> None:
    try:
        number = pyseccomp.resolve_syscall(pyseccomp.system_arch(), name)
    except (OSError, ValueError):
        return
    if number < 0:
        return  # not on this machine, or newer than this libseccomp: the default action answers
    rules.add_rule(action, number, *arguments)


def _exported(rules: pyseccomp.SyscallFilter) -> bytes:
    exporter: Callable[[IO[bytes]], None] = rules.export_bpf
    with tempfile.TemporaryFile() as out:
        exporter(out)
        return os.pread(out.fileno(), 1 << 20, 0)
