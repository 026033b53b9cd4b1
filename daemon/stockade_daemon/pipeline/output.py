"""A command's output: bytes with offsets, kept up to a cap, readable while they come and afterwards.

The first 64 KiB stay in memory; more goes to a private file, so that a long output costs no memory.
"""

import asyncio
import hashlib
import logging
import os
from pathlib import Path
from typing import Final

from stockade_daemon.errors import InfrastructureFailure

_log = logging.getLogger(__name__)
SMALL: Final = 64 * 1024
PARTS: Final = ("stdout", "stderr")


def file_of(outputs: Path, session_id: str, call_id: str, part: str) -> Path:
    """Where an output lies that is too long for memory. Ids may be longer than a file's name."""
    name = hashlib.sha256(f"{session_id}/{call_id}".encode()).hexdigest()
    return outputs / f"{name}.{part}"


class Output:
    """One stream of one call. Written by one task, read by any number."""

    def __init__(self, path: Path, *, cap: int) -> None:
        self._path = path
        self._cap = cap
        self._memory = bytearray()
        self._file: int | None = None
        self.size = 0  # bytes kept
        self.dropped = 0  # bytes read and not kept
        self.closed = False
        self._changed = asyncio.Event()

    def narrow(self, cap: int) -> None:
        """Lowers the cap, before anything was written. A higher one changes nothing."""
        self._cap = min(self._cap, cap)

    def again(self) -> "Output":
        """A new output in place of this one, which is closed: for another attempt of the same call."""
        self.close()
        return Output(self._path, cap=self._cap)

    async def append(self, data: bytes) -> None:
        """Keeps what fits under the cap."""
        kept = data[: self._cap - self.size]
        self.dropped += len(data) - len(kept)
        if kept:
            if self._file is None and self.size + len(kept) <= SMALL:
                self._memory += kept
            else:
                try:
                    await asyncio.to_thread(self._write, kept)
                except OSError as error:
                    # A full disk costs the rest of the output, not the command: what is kept stays readable.
                    _log.warning("%s: output is no longer kept: %s", self._path, error)
                    self._cap = self.size
                    self.dropped += len(kept)
                    return
            self.size += len(kept)
            self._wake()

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
        self.closed = True
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

    async def text(self, most: int) -> tuple[str, bool]:
        """Head and tail as text, about `most` bytes of them, and whether something is left out.

        Where output was dropped there is no tail: the end of what was kept is not the end of what was printed. Bytes
        that are not UTF-8 become U+FFFD; the raw ones stay readable by offset.
        """
        if self.dropped:
            head = await self.read(0, most)
            total = self.size + self.dropped
            return f"{_decoded(head)}\n[cut here: {len(head)} of {total} bytes are shown, {self.size} were kept]", True
        if self.size <= most:
            return _decoded(await self.read(0, self.size)), False
        half = most // 2
        head, tail = await self.read(0, half), await self.read(self.size - half, half)
        return f"{_decoded(head)}\n[{self.size - 2 * half} bytes left out]\n{_decoded(tail)}", True

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


def _decoded(data: bytes) -> str:
    return data.decode("utf-8", "replace")


class Pump:
    """Reads a pipe into an output. Keeps draining past the cap, so that the writer never blocks."""

    def __init__(self, descriptor: int, output: Output) -> None:
        os.set_blocking(descriptor, False)
        self._descriptor = descriptor
        self._output = output
        self._woken = asyncio.Event()
        self._enough = False

    async def run(self) -> None:
        """Ends with the pipe, or, once `finish` was called, as soon as nothing is in it."""
        try:
            while True:
                try:
                    data = os.read(self._descriptor, 1 << 16)
                except BlockingIOError:
                    if self._enough:
                        return
                    await self._readable()
                    continue
                if not data:
                    return
                await self._output.append(data)
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
