"""Whether anybody opens, reads or changes anything in a directory, as inotify(7) tells."""

import ctypes
import os
import struct
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

_EVENTS: Final = {
    0x0001: "read",
    0x0002: "written",
    0x0004: "given other attributes",
    0x0020: "opened",
    0x0040: "moved away",
    0x0080: "moved in",
    0x0100: "made",
    0x0200: "removed",
    0x0400: "removed itself",
    0x4000: "too many events",
}
_WATCHED: Final = sum(_EVENTS) - 0x4000
_HEAD: Final = struct.Struct("iIII")

_libc = ctypes.CDLL(None, use_errno=True)


class Watch:
    """What happened in one directory since it began."""

    def __init__(self, descriptor: int) -> None:
        self._descriptor = descriptor

    def seen(self) -> list[str]:
        """In words, an event each; empty where nobody touched anything."""
        found: list[str] = []
        while True:
            try:
                data = os.read(self._descriptor, 65536)
            except BlockingIOError:
                return found
            while data:
                _, mask, _, length = _HEAD.unpack_from(data)
                name = data[_HEAD.size : _HEAD.size + length].rstrip(b"\0").decode(errors="replace")
                what = " and ".join(word for bit, word in _EVENTS.items() if mask & bit)
                found.append(f"{name or 'the directory'} was {what}")
                data = data[_HEAD.size + length :]


@contextmanager
def watched(directory: Path) -> Iterator[Watch]:
    """Watches the directory and what is directly in it. Raises OSError."""
    descriptor = _libc.inotify_init1(os.O_NONBLOCK | os.O_CLOEXEC)
    if descriptor < 0:
        raise OSError(ctypes.get_errno(), "inotify_init1")
    try:
        if _libc.inotify_add_watch(descriptor, os.fsencode(directory), _WATCHED) < 0:
            raise OSError(ctypes.get_errno(), "inotify_add_watch")
        yield Watch(descriptor)
    finally:
        os.close(descriptor)
