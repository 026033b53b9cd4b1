"""Giving up every privilege, for good (capabilities(7))."""

import os

from stockade_worker import kernel

# SECBIT_NOROOT, NO_SETUID_FIXUP, NO_CAP_AMBIENT_RAISE with their locks, and KEEP_CAPS locked off.
_SECUREBITS = 0x1 | 0x2 | 0x4 | 0x8 | 0x20 | 0x40 | 0x80


def become(uid: int) -> None:
    """Takes this uid and gid, for good, and no supplementary groups. Needs CAP_SETUID and CAP_SETGID."""
    os.setgroups([])
    os.setresgid(uid, uid, uid)
    os.setresuid(uid, uid, uid)


def drop_capabilities() -> None:
    """Empties the bounding, ambient, inheritable, permitted and effective sets and locks the secure bits."""
    os.setresgid(1000, 1000, 1000)
    os.setresuid(1000, 1000, 1000)
    lock()
    clear()


def lock() -> None:
    """Locks the secure bits and empties the bounding set. Needs CAP_SETPCAP."""
    kernel.prctl(kernel.PR_SET_SECUREBITS, _SECUREBITS)
    for number in range(64):
        try:
            kernel.prctl(kernel.PR_CAPBSET_DROP, number)
        except OSError:
            break  # EINVAL: one past the kernel's last capability


def clear() -> None:
    """Empties the ambient, inheritable, permitted and effective sets."""
    kernel.prctl(kernel.PR_CAP_AMBIENT, kernel.PR_CAP_AMBIENT_CLEAR_ALL)
    kernel.clear_capabilities()


def no_new_privileges() -> None:
    """No set-id bit and no file capability counts from here on; also what lets us load filters."""
    kernel.prctl(kernel.PR_SET_NO_NEW_PRIVS, 1)
