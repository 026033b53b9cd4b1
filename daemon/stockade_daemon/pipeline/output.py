"""A command's output: bytes with offsets, kept up to a cap, readable while they come and afterwards.

The first 64 KiB stay in memory; more goes to a private file, so that a long output costs no memory. What comes after
the cap is read and dropped, but for the last of it, which stays in memory: an end often says more than a beginning.
"""

import asyncio
import fcntl
import hashlib
import logging
import os
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from stockade_daemon.errors import InfrastructureFailure
from stockade_daemon.pipeline import edges
from stockade_daemon.pipeline.arrival import STREAMS, Arrival

_log = logging.getLogger(__name__)
SMALL: Final = 64 * 1024
PARTS: Final = STREAMS
TAIL: Final = 32 * 1024 + edges.LONGEST  # bytes of the end that stay where the cap was passed
# Between two reads of what is only dropped. A writer that never ends would keep the loop from everybody else.
_PACE_S: Final = 0.002
_WIDE: Final = 1024 * 1024  # of a pipe that is read so seldom, where this user may have it as large


@dataclass(frozen=True, slots=True)
class Excerpt:
    """Head and tail of a stream, cut between characters; all of it where nothing is left out."""

    head: bytes
    tail: bytes
    left_out: int  # bytes between the two


def file_of(outputs: Path, session_id: str, call_id: str, part: str) -> Path:
    """Where an output lies that is too long for memory. Ids may be longer than a file's name."""
    name = hashlib.sha256(f"{session_id}/{call_id}".encode()).hexdigest()
    return outputs / f"{name}.{part}"


class Output:
    """One stream of one call. Written by one task, read by any number."""

    def __init__(self, path: Path, *, cap: int, arrival: Arrival | None = None, part: int = 0) -> None:
        """arrival: of this stream, the one with the index `part`, and the other one of the call; None: nobody asks."""
        self._path = path
        self._cap = cap
        self._arrival = arrival or Arrival()
        self._part = part
        self._memory = bytearray()
        self._file: int | None = None
        self._tail = b""  # where something was dropped: the last bytes of all
        self.on_past: Callable[[], None] | None = None  # called when the cap is passed, once
        self.full = False  # the disk took no more: what was dropped was not dropped for the cap
        self.size = 0  # bytes kept
        self.dropped = 0  # bytes read and not kept
        self.closed = False
        self._changed = asyncio.Event()

    def narrow(self, cap: int) -> None:
        """Lowers the cap, before anything was written. A higher one changes nothing."""
        self._cap = min(self._cap, cap)

    def restore(self, small: bytes | None, dropped: int) -> None:
        """What an earlier daemon has read, to its end. `small`: as the property had it; None: it lies in the file."""
        if small is None:
            try:
                self._file = os.open(self._path, os.O_RDONLY | os.O_CLOEXEC)
                self.size = os.fstat(self._file).st_size
            except OSError as error:
                # It costs the output, not what the command did.
                _log.warning("%s: what an earlier daemon kept cannot be read any more: %s", self._path, error)
        else:
            self._memory += small
            self.size = len(small)
        self.dropped = dropped
        self.closed = True

    async def append(self, data: bytes) -> None:
        """Keeps what fits under the cap."""
        async with self._arrival.turn:
            kept = data[: self._cap - self.size]
            if kept and not await self._keep(kept):
                kept = b""
            if len(kept) < len(data):
                await self._drop(data[len(kept) :])

    async def _keep(self, kept: bytes) -> bool:
        """Whether there was room for it."""
        if self._file is None and self.size + len(kept) <= SMALL:
            self._memory += kept
        else:
            try:
                await asyncio.to_thread(self._write, kept)
            except OSError as error:
                # A full disk costs the rest of the output, not the command: what is kept stays readable.
                _log.warning("%s: output is no longer kept: %s", self._path, error)
                self._cap, self.full = self.size, True
                return False
        self.size += len(kept)
        self._arrival.add(self._part, len(kept))
        self._wake()
        return True

    async def _drop(self, data: bytes) -> None:
        if not self.dropped:
            self._tail = await self.read(max(0, self.size - TAIL), TAIL)
            if self.on_past is not None and not self.full:
                self.on_past()
        self.dropped += len(data)
        self._tail = data[-TAIL:] if len(data) >= TAIL else (self._tail + data)[-TAIL:]

    def _write(self, data: bytes) -> None:
        if self._file is None:
            file = os.open(self._path, os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600)
            try:
                _write_all(file, self._memory)
            except OSError:
                # What is in memory is still the whole of it.
                os.close(file)
                self._path.unlink()
                raise
            self._file = file
        _write_all(self._file, data)

    async def read(self, offset: int, size: int) -> bytes:
        """Up to `size` bytes from `offset`; empty at the present end."""
        size = max(0, min(size, self.size - offset))
        if self._file is None:
            return bytes(self._memory[offset : offset + size])
        # A descriptor of this read's own: the call may be settled, and its file closed, before a thread is free.
        file = os.dup(self._file)
        try:
            return await asyncio.to_thread(os.pread, file, size, offset)
        finally:
            os.close(file)

    async def more(self, offset: int) -> bool:
        """Waits until there is something at `offset`; False when there never will be."""
        while self.size <= offset and not self.closed:
            await self._changed.wait()
        return self.size > offset

    def end(self) -> None:
        """No more will come."""
        if not self.closed:
            self.closed = True
            self._arrival.end()
        self._wake()

    def _wake(self) -> None:
        changed, self._changed = self._changed, asyncio.Event()
        changed.set()

    async def sync(self) -> None:
        """Makes what is kept survive a power cut, as far as it is in a file. Raises OSError."""
        if self._file is not None:
            await asyncio.to_thread(_sync, self._file, self._path.parent)

    @property
    def small(self) -> bytes | None:
        """All of it, where it never needed a file."""
        return bytes(self._memory) if self._file is None else None

    async def excerpt(self, most: int) -> Excerpt:
        """Head and tail of all that came, `most` bytes of them, 2 * TAIL at most."""
        total, half = self.size + self.dropped, most // 2
        if total <= min(most, self.size):
            return Excerpt(await self.read(0, total), b"", 0)
        head = edges.head(await self.read(0, min(half, self.size)))
        begin = max(len(head), total - half)  # of the tail
        before = min(edges.LONGEST, begin - len(head))
        if self.dropped:
            last = self._tail[-(total - begin + before) :]
        else:
            last = await self.read(begin - before, half + before)
        tail = edges.tail(last, len(last) - (total - begin))
        return Excerpt(head, tail, total - len(head) - len(tail))

    def close(self) -> None:
        """Closes the file; its bytes stay on the disk."""
        self.end()
        if self._file is not None:
            os.close(self._file)
            self._file = None
            self._memory.clear()


def _write_all(descriptor: int, data: bytes | bytearray) -> None:
    view = memoryview(data)
    while view:
        view = view[os.write(descriptor, view) :]


def _sync(file: int, directory: Path) -> None:
    os.fsync(file)
    above = os.open(directory, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(above)  # the file's name
    finally:
        os.close(above)


class Pump:
    """Reads a pipe into an output. Keeps draining past the cap, so that the writer never blocks."""

    def __init__(self, descriptor: int, output: Output) -> None:
        os.set_blocking(descriptor, False)
        self._descriptor = descriptor
        self._output = output
        self._woken = asyncio.Event()
        self._enough = False
        self._most = 1 << 16

    async def run(self) -> None:
        """Ends with the pipe, or, once `finish` was called, as soon as nothing is in it."""
        try:
            while True:
                try:
                    data = os.read(self._descriptor, self._most)
                except BlockingIOError:
                    if self._enough:
                        return
                    await self._readable()
                    continue
                if not data:
                    return
                await self._output.append(data)
                # A writer that is as fast as this reader would keep the loop from everybody else.
                if not self._output.dropped:
                    await asyncio.sleep(0)
                    continue
                if self._most < _WIDE:
                    self._most = _WIDE
                    with suppress(OSError):
                        fcntl.fcntl(self._descriptor, fcntl.F_SETPIPE_SZ, _WIDE)
                await asyncio.sleep(_PACE_S)
        finally:
            self._output.end()

    def finish(self) -> None:
        """What counts has been written: the end of the writers' processes, which takes milliseconds, need not be
        waited for."""
        self._enough = True
        self._woken.set()

    async def _readable(self) -> None:
        loop = asyncio.get_running_loop()
        self._woken.clear()
        loop.add_reader(self._descriptor, self._woken.set)
        try:
            await self._woken.wait()
        finally:
            loop.remove_reader(self._descriptor)


async def synced(*outputs: Output) -> None:
    """Has what they keep survive a power cut. Raises InfrastructureFailure."""
    try:
        for output in outputs:
            await output.sync()
    except OSError as error:
        raise InfrastructureFailure(
            "FS_IO_ERROR", f"the output of the call cannot be synced to the disk: {error.strerror}"
        ) from error
