"""Everything about a file that is not its bytes: owner, group, mode, extended attributes and with them POSIX ACLs."""

import errno
import os
import stat
from contextlib import suppress
from typing import Final

from stockade_daemon.gate.names import shown

_USUAL_MASK: Final = 0o022  # where the kernel does not say (before Linux 4.7)

# Names that the file system makes up or that belong to one inode or to its bytes; copying them is refused or wrong.
_NOT_COPIED = ("security.capability", "security.evm", "security.ima", "system.nfs4_acl")


def can_keep_owner(status: os.stat_result) -> bool:
    """Whether this process may give a new file the same owner and group (chown(2))."""
    if os.geteuid() == 0:
        return True
    return status.st_uid == os.geteuid() and (status.st_gid == os.getegid() or status.st_gid in os.getgroups())


def writable(directory: int, name: bytes, status: os.stat_result) -> bool:
    """Whether the file may be written: by the kernel's rules, and for everybody by having a write bit at all.

    A replacement needs no right to the file itself, so a read-only file would not stop it; and root is never stopped.
    """
    return bool(status.st_mode & 0o222) and os.access(name, os.W_OK, dir_fd=directory)


def takes_names(directory: int) -> bool:
    """Whether names may be made and removed in the directory: by the same rules as `writable` has for files."""
    return bool(os.fstat(directory).st_mode & 0o222) and os.access(f"/proc/self/fd/{directory}", os.W_OK | os.X_OK)


def new_mode(most: int) -> int:
    """The mode of something new: `most` without what the daemon's umask takes away (umask(2)), and never writable for
    everybody, as a daemon that was started carelessly would have it."""
    with open("/proc/self/status", encoding="ascii", errors="replace") as lines:
        mask = next((int(line.split()[1], 8) for line in lines if line.startswith("Umask:")), _USUAL_MASK)
    return most & ~mask & ~0o002


def carry(source: int, status: os.stat_result, target: int) -> list[str]:
    """Gives the open file `target` the attributes of `source`; returns the names of those that were lost.

    Raises OSError where owner, group or mode cannot be kept.
    """
    # Owner first: changing it clears the set-id bits that the mode may hold.
    os.fchown(target, status.st_uid, status.st_gid)
    lost = carry_extended(source, target)
    os.fchmod(target, kept_mode(status))
    return lost + lost_bits(status)


def kept_mode(status: os.stat_result) -> int:
    """The mode of changed content: without the set-id bits, which were given to other bytes (write(2) drops them too).

    A set-group-id bit without group execution is no such bit, but an old sign for locking; it stays.
    """
    mode = stat.S_IMODE(status.st_mode) & ~stat.S_ISUID
    return mode & ~stat.S_ISGID if mode & stat.S_IXGRP else mode


def lost_bits(status: os.stat_result) -> list[str]:
    """What changed content loses of its mode, for the list of attributes that were lost."""
    return ["its set-id bits"] if kept_mode(status) != stat.S_IMODE(status.st_mode) else []


def like_directory(directory: int, target: int, mode: int) -> None:
    """The attributes of something new: `mode`, and for a root daemon the owner of the directory that it is made in."""
    if os.geteuid() == 0:
        above = os.fstat(directory)
        with suppress(OSError):  # an owner that our user namespace does not map: root's it stays
            os.fchown(target, above.st_uid, above.st_gid)
    os.fchmod(target, mode)


def carry_extended(source: int, target: int) -> list[str]:
    """Gives the open `target` the extended attributes of `source`; names of those lost. Raises OSError."""
    lost = []
    wanted = _extended(source)
    # A directory's default ACL puts an ACL on the new file that the old one did not have.
    for name in _extended(target).keys() - wanted.keys():
        with suppress(OSError):
            os.removexattr(target, name)
    present = _extended(target)
    for name, value in wanted.items():
        if present.get(name) == value or name in _NOT_COPIED:
            continue
        try:
            os.setxattr(target, name, value)
        except OSError:
            lost.append(shown(os.fsencode(name)))
    return lost


def _extended(descriptor: int) -> dict[str, bytes]:
    try:
        names = os.listxattr(descriptor)
    except OSError as error:
        if error.errno in (errno.ENOTSUP, errno.ENOSYS):
            return {}
        raise
    values = {}
    for name in names:
        with suppress(OSError):  # one we may list and not read, or gone by now
            values[name] = os.getxattr(descriptor, name)
    return values
