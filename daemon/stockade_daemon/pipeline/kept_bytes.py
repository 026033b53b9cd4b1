"""Where the bytes of one call's output are: in memory while both streams are short, else in private files.

A file for each stream, and one for the order in which their bytes arrived, all from the same moment on: after a kill of
the daemon the view of both is the one that was read before. What does not fit on the disk is cut back, so that whatever
comes next stands at the offset that it is told to have.
"""

import asyncio
import errno
import hashlib
import os
from array import array
from collections.abc import Coroutine
from contextlib import suppress
from pathlib import Path
from typing import Any, Final

from stockade_daemon.pipeline.arrival import STREAMS, Arrival

SMALL: Final = 64 * 1024  # bytes of a stream that need no file
ORDER: Final = "order"
FILES: Final = (*STREAMS, ORDER)  # parts that may have a file; that of the order has what Arrival.ends gives
_ORDER: Final = len(STREAMS)
_RUN: Final = array("Q").itemsize  # bytes


def file_of(outputs: Path, session_id: str, call_id: str, part: str) -> Path:
    """Where a part of an output lies that has a file. Ids may be longer than a file's name."""
    name = hashlib.sha256(f"{session_id}/{call_id}".encode()).hexdigest()
    return outputs / f"{name}.{part}"


class KeptBytes:
    """Of one call. Written by one task at a time, read by any number. Streams are told by their index in STREAMS."""

    def __init__(self, paths: tuple[Path, Path, Path], arrival: Arrival) -> None:
        """paths: of the files for FILES, each made when it gets its first byte."""
        self._paths = paths
        self._arrival = arrival
        self._memory = tuple(bytearray() for _ in STREAMS)
        self._files: dict[int, int] = {}  # descriptors, by index in FILES
        self._noted = 0  # runs of the order that are in its file
        self._lost = False  # they are in files that could not be opened, and stay as they are
        self.in_files = False

    def small(self, part: int) -> bytes:
        """All of a stream, where it is in memory."""
        return bytes(self._memory[part])

    async def add(self, part: int, data: bytes, at: int) -> None:
        """Keeps `data` at the end of a stream, which is `at`. Raises OSError where there is no room; all is then as it
        was before."""
        if not self.in_files and at + len(data) <= SMALL:
            self._memory[part].extend(data)
        else:
            await _finished(asyncio.to_thread(self._write, part, data, at))

    async def to_files(self) -> None:
        """Has what there is outlive the daemon. Raises OSError."""
        if not self.in_files:
            await _finished(asyncio.to_thread(self._begin))

    def _write(self, part: int, data: bytes, at: int) -> None:
        if self._lost:
            raise OSError(errno.EIO, "what an earlier daemon kept cannot be gone on with")
        if not self.in_files:
            self._begin()
        try:
            self._put(part, data, at)
            # After the bytes themselves, and before anybody is told of them.
            self._note(part, len(data))
        except OSError:
            self._cut(part, at)
            self._cut(_ORDER, self._noted * _RUN)
            raise

    def _begin(self) -> None:
        """What was in memory until now goes into files: the order first, for where it names bytes that a daemon which
        was killed had not come to, its view ends."""
        try:
            self._note(0, 0)
            for part, content in enumerate(self._memory):
                self._put(part, content, 0)
        except OSError:
            # What is in memory is still the whole of it.
            self._noted = 0
            for which, file in self._files.items():
                os.close(file)
                self._paths[which].unlink(missing_ok=True)
            self._files.clear()
            raise
        self.in_files = True

    def _note(self, part: int, count: int) -> None:
        """Has the file of the order know all runs that there are when so many more bytes are in the view. That the last
        one grows need not be noted: it goes on to the end of its stream. Nor need a first one that is alone."""
        begin = max(0, self._noted - 1)
        ends = self._arrival.ends(begin, part, count)
        if begin + len(ends) > max(1, self._noted):
            self._put(_ORDER, ends.tobytes(), begin * _RUN)
            self._noted = begin + len(ends)

    def _put(self, which: int, data: bytes | bytearray, at: int) -> None:
        if not data:
            return
        if which not in self._files:
            flags = os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC
            self._files[which] = os.open(self._paths[which], flags, 0o600)
        view = memoryview(data)
        while view:
            written = os.pwrite(self._files[which], view, at)
            view, at = view[written:], at + written

    def _cut(self, which: int, size: int) -> None:
        if which in self._files:
            with suppress(OSError):
                os.ftruncate(self._files[which], size)

    def reopen(self) -> tuple[int, int]:
        """Goes on with the files that an earlier daemon has left: the streams' sizes in bytes.

        Raises OSError. Nothing can be read or added then, the files keep what they have, and `in_files` says that there
        are some: whoever reads once the call is settled finds it.
        """
        try:
            for which, path in enumerate(self._paths):
                with suppress(FileNotFoundError):
                    self._files[which] = os.open(path, os.O_RDWR | os.O_CLOEXEC)
                    self.in_files = True
            sizes = [os.fstat(self._files[part]).st_size if part in self._files else 0 for part in range(len(STREAMS))]
            order = order_in(self._paths[_ORDER]) or b""
        except OSError:
            self._lost = self.in_files = True
            for file in self._files.values():
                os.close(file)
            self._files.clear()
            raise
        out, err = sizes
        self._noted = len(order) // _RUN
        self._arrival.restore(order, (out, err))
        return out, err

    async def read(self, part: int, offset: int, size: int) -> bytes:
        """Up to `size` bytes of a stream from `offset`."""
        if not self.in_files:
            return bytes(self._memory[part][offset : offset + size])
        if part not in self._files:
            return b""
        # A descriptor of this read's own: the call may be settled, and its files closed, before a thread is free.
        file = os.dup(self._files[part])
        try:
            return await asyncio.to_thread(os.pread, file, size, offset)
        finally:
            os.close(file)

    async def sync(self) -> None:
        """Makes what is in files survive a power cut. Raises OSError."""
        if self._files:
            await asyncio.to_thread(_sync, tuple(self._files.values()), self._paths[0].parent)

    def close(self) -> None:
        """Closes the files; their bytes stay on the disk."""
        if self.in_files:
            for file in self._files.values():
                os.close(file)
            self._files.clear()
            for each in self._memory:
                each.clear()


async def _finished(work: Coroutine[Any, Any, None]) -> None:
    """Does it to its end also where the task is cancelled: a thread goes on, and a descriptor that was closed meanwhile
    may by then be another file's."""
    task = asyncio.ensure_future(work)
    try:
        await asyncio.shield(task)
    finally:
        while not task.done():
            with suppress(asyncio.CancelledError):
                await asyncio.wait([task])


def order_in(path: Path) -> bytes | None:
    """What the file of an order has; None where there is none. Raises OSError."""
    try:
        data = path.read_bytes()
    except FileNotFoundError:
        return None
    return data[: len(data) - len(data) % _RUN]


def _sync(files: tuple[int, ...], directory: Path) -> None:
    for file in files:
        os.fsync(file)
    above = os.open(directory, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(above)  # the files' names
    finally:
        os.close(above)
