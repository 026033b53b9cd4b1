"""What git tracks at a path, as the index of the repository says that it lies in (gitformat-index(5)).

Commands see nothing of what the workspace has at a scratch path. What git tracks there it would take for deleted, and
the next `git commit --all` says so to everybody.
"""

import struct
from collections.abc import Iterator
from typing import Final

from stockade_daemon.errors import Refusal
from stockade_daemon.gate.content import take
from stockade_daemon.gate.names import encoded, joined
from stockade_daemon.gate.paths import resolve
from stockade_daemon.gate.publish import settled
from stockade_daemon.gate.workspace import Workspace

_HEAD: Final = struct.Struct(">4sII")  # signature, version, number of entries
_FIXED: Final = 62  # bytes of an entry before its name, without the extended flags
_EXTENDED: Final = 0x4000


def tracked(workspace: Workspace, path: str) -> bytes | None:
    """The first name at or below the path that is in the index of a repository around it, as far as that lies in the
    workspace; None where there is none, or nothing can be read of it. Blocks."""
    parts = encoded(path).split(b"/")
    for depth in range(len(parts)):
        repository, below = b"/".join(parts[:depth]), b"/".join(parts[depth:])
        for name in names(_content(workspace, joined(repository, b".git/index"))):
            if name == below or name.startswith(below + b"/"):
                return joined(repository, name)
    return None


def names(index: bytes) -> Iterator[bytes]:
    """The names in an index of version 2, 3 or 4, as far as it is one."""
    if len(index) < _HEAD.size:
        return
    signature, version, count = _HEAD.unpack_from(index)
    if signature != b"DIRC" or version not in (2, 3, 4):
        return
    at, before = _HEAD.size, b""
    for _ in range(count):
        flags = int.from_bytes(index[at + _FIXED - 2 : at + _FIXED], "big")
        start, cut = at + _FIXED + (2 if version > 2 and flags & _EXTENDED else 0), 0
        if version == 4:
            cut, start = _number(index, start)
        end = index.find(b"\0", start)
        if end < 0:
            return
        name = index[start:end]
        if version == 4:  # the end of the name before is cut off, and this put in its place
            name, at = before[: len(before) - cut] + name, end + 1
        else:
            at += (end - at + 8) & ~7  # one to eight NULs fill an entry up to a multiple of eight bytes
        before = name
        yield name


def _number(index: bytes, at: int) -> tuple[int, int]:
    """A number as pack files have offsets (gitformat-pack(5)), and where it ends."""
    value = -1
    while at < len(index):
        byte, at = index[at], at + 1
        value = (value + 1) << 7 | byte & 127
        if not byte & 128:
            break
    return value, at


def _content(workspace: Workspace, path: bytes) -> bytes:
    def look() -> bytes:
        with resolve(workspace, path) as place:
            return b"" if place.status is None else take(place, as_text=False).content

    try:
        return settled(look, path)
    except (Refusal, OSError, ValueError):
        return b""
