"""Whether two versions of a git index say the same but for what stat(2) says of the files (gitformat-index(5)).

`git diff` writes down what it sees of them, and in a worker that is other inodes and another owner: nothing that was
asked for, and nothing that anybody would want to be asked about.
"""

import struct
from typing import Final

from stockade_daemon.gate.content import MAX_FILE_BYTES
from stockade_daemon.gate.effects.survey import bytes_at
from stockade_daemon.gate.effects.tree import Tree
from stockade_daemon.gate.effects.upper import Found

_HEAD: Final = struct.Struct(">4sII")  # signature, version, number of entries
_STAT: Final = 40  # bytes: ctime, mtime, device, inode, mode, uid, gid, size
_FIXED: Final = 62  # bytes of an entry before its name, without the extended flags
_EXTENDED: Final = 0x4000
_HASH: Final = 20  # SHA-1; another length of hashes makes the lengths of entries wrong, and then they are not the same


def is_refreshed(workspace: Tree, lower: bytes, upper: Tree, found: Found) -> bool:
    """Whether a changed file is an index that says the same. Raises OSError."""
    if found.path.split(b"/")[-2:] != [b".git", b"index"] or found.status.st_size > MAX_FILE_BYTES:
        return False
    return same_but_for_stat(bytes_at(workspace, lower), bytes_at(upper, found.path))


def same_but_for_stat(before: bytes, after: bytes) -> bool:
    """Of versions 2 and 3; any other, and what is no index, is the same only byte by byte."""
    if before == after:
        return True
    try:
        return _entries(before) == _entries(after)
    except (ValueError, struct.error):
        return False


def _entries(index: bytes) -> tuple[list[bytes], bytes]:
    """The entries without their stat data but for the mode, and what follows them but for the checksum."""
    signature, version, count = _HEAD.unpack_from(index)
    if signature != b"DIRC" or version not in (2, 3) or count * _FIXED > len(index):
        raise ValueError("no index of version 2 or 3")
    at = _HEAD.size
    found = []
    for _ in range(count):
        flags = int.from_bytes(index[at + 60 : at + 62], "big")
        start = at + _FIXED + (2 if version == 3 and flags & _EXTENDED else 0)
        end = index.index(b"\0", start)
        found.append(index[at + 24 : at + 28] + index[at + _STAT : end])
        at += (end - at + 8) & ~7  # one to eight NULs fill an entry up to a multiple of eight bytes
    if at > len(index) - _HASH:
        raise ValueError("an index that is cut off")
    return found, index[at:-_HASH]
