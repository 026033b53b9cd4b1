"""What a directory of the workspace looks like, given to the one that stands for it in a layer of an overlay.

An overlay takes mode and extended attributes of a directory from the uppermost layer that has it. So the root of an
upper directory, and whatever a cover repeats, show a command what they were given, which need not be what the workspace
has: its file system may hold more, and others may change it meanwhile. What a command changed is told by comparing with
what it was shown.
"""

import errno
import hashlib
import os
import stat
import struct
from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import Final, NamedTuple

# Owner and group as the workspace's file system has them, to what they are for workers.
Ids = Callable[[int, int], tuple[int, int]]

_ACL: Final = "system.posix_acl_access"
_DEFAULT_ACL: Final = "system.posix_acl_default"
# linux/posix_acl_xattr.h: a version, then entries of tag, permissions and id.
_VERSION: Final = struct.Struct("<I")
_ENTRY: Final = struct.Struct("<HHI")
_USER: Final = 0x02
_GROUP: Final = 0x08


class Shown(NamedTuple):
    """What a command was shown of a directory."""

    mode: int  # permission bits
    attributes: str  # digest of its extended attributes of users


def digest(attributes: Mapping[str, bytes]) -> str:
    """Of extended attributes: SHA-256, lower-case hex."""
    found = hashlib.sha256()
    for name, value in sorted(attributes.items()):
        text = os.fsencode(name)
        found.update(b"%d %d %b%b" % (len(text), len(value), text, value))
    return found.hexdigest()


def attributes(descriptor: int) -> dict[str, bytes]:
    """The extended attributes that a layer repeats, of what is open (O_PATH will do): those of users, and POSIX ACLs.

    One that this process may not read is left out. Raises OSError.
    """
    place = f"/proc/self/fd/{descriptor}"
    try:
        names = os.listxattr(place)
    except OSError as error:
        if error.errno in (errno.ENOTSUP, errno.ENOSYS, errno.EACCES, errno.EPERM):
            return {}
        raise
    found = {}
    for name in names:
        if name.startswith("user.") or name in (_ACL, _DEFAULT_ACL):
            with suppress(OSError):  # also one that is gone by now
                found[name] = os.getxattr(place, name)
    return found


def give(directory: bytes, wanted: Mapping[str, bytes], *, marks: str, ids: Ids) -> None:
    """Gives them to a directory of ours, but for those that an overlay would take for its own, which begin with
    `marks`. What its file system does not hold it does not get. To be followed by chmod: an ACL changes the mode."""
    for name, value in wanted.items():
        if not name.startswith(marks):
            with suppress(OSError):
                os.setxattr(directory, name, _for_workers(value, ids) if name == _ACL else value)


def shown(directory: bytes, *, marks: str) -> Shown:
    """What such a directory shows. Raises OSError."""
    held = os.open(directory, os.O_PATH | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
    try:
        found = {name: value for name, value in attributes(held).items() if name.startswith("user.")}
        mode = stat.S_IMODE(os.fstat(held).st_mode)
        return Shown(mode, digest({name: value for name, value in found.items() if not name.startswith(marks)}))
    finally:
        os.close(held)


def _for_workers(acl: bytes, ids: Ids) -> bytes:
    """An ACL with users and groups as workers are. One for new files stays as it is: they carry it to the workspace."""
    if (len(acl) - _VERSION.size) % _ENTRY.size:
        return acl
    entries = []
    for tag, permissions, number in _ENTRY.iter_unpack(acl[_VERSION.size :]):
        uid, gid = ids(number, number)
        known = uid if tag == _USER else gid if tag == _GROUP else number
        entries.append((tag, permissions, known))
    # The kernel wants entries of one tag in any order, but the tags in theirs; none was changed.
    return acl[: _VERSION.size] + b"".join(_ENTRY.pack(*entry) for entry in entries)
