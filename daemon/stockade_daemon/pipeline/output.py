"""A command's output: bytes with offsets, kept up to a cap, readable while they come and afterwards.

Where they are kept says kept_bytes.py. What comes after the cap is read and dropped, but for the last of it, which
stays in memory: an end often says more than a beginning.
"""

import asyncio
import fcntl
import logging
import os
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from stockade_daemon.pipeline import edges
from stockade_daemon.pipeline.arrival import Arrival
from stockade_daemon.pipeline.kept_bytes import KeptBytes

_log = logging.getLogger(__name__)
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


class Output:
    """One stream of one call. Written by one task, read by any number.

    A call may be tried again: what a further attempt prints stands behind what those before have printed, and counts,
    head and tail are of the last one.
    """

    def __init__(self, bytes_: KeptBytes, arrival: Arrival, part: int, *, cap: int) -> None:
        """cap: bytes that are kept of an attempt. Both streams of a call share the first two; `part` is which it is."""
        self._bytes = bytes_
        self._arrival = arrival
        self._part = part
        self._most = cap
        self._cap = cap
        self._tail = b""  # where something was dropped: the last bytes of all
        self.on_past: Callable[[], None] | None = None  # called when the cap is passed, once
        self.full = False  # the disk took no more: what was dropped was not dropped for the cap
        self.size = 0  # bytes kept
        self.begin = 0  # where the last attempt begins
        self.dropped = 0  # bytes read and not kept, of the last attempt
        self.ended = False  # no more will come of this attempt
        self.closed = False  # nor of another one
        self._changed = asyncio.Event()

    @staticmethod
    def nowhere() -> "Output":
        """One that keeps nothing."""
        arrival = Arrival()
        return Output(KeptBytes((Path(os.devnull),) * 3, arrival), arrival, 0, cap=0)

    def narrow(self, cap: int) -> None:
        """Lowers the cap, before anything was written. A higher one changes nothing."""
        self._most = self._cap = min(self._most, cap)

    def again(self) -> None:
        """Another attempt begins."""
        self.begin, self._cap = self.size, self.size + self._most
        self.dropped, self._tail, self.full, self.ended = 0, b"", False, False

    def went_on(self, size: int) -> None:
        """So many bytes are kept of an attempt that has ended, in an earlier daemon."""
        self.size, self._cap, self.ended = size, size, True

    @property
    def kept(self) -> int:
        """Bytes that are kept of the last attempt."""
        return self.size - self.begin

    @property
    def total(self) -> int:
        """Bytes that came of the last attempt."""
        return self.kept + self.dropped

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
        try:
            await self._bytes.add(self._part, kept, self.size)
        except OSError as error:
            # A full disk costs the rest of the output, not the command: what is kept stays readable.
            _log.warning("output is no longer kept: %s", error)
            self._cap, self.full = self.size, True
            return False
        self.size += len(kept)
        self._arrival.add(self._part, len(kept))
        self._wake()
        return True

    async def _drop(self, data: bytes) -> None:
        if not self.dropped:
            self._tail = await self.read(max(self.begin, self.size - TAIL), TAIL)
            if self.on_past is not None and not self.full:
                self.on_past()
        self.dropped += len(data)
        self._tail = data[-TAIL:] if len(data) >= TAIL else (self._tail + data)[-TAIL:]

    async def read(self, offset: int, size: int) -> bytes:
        """Up to `size` bytes from `offset`; empty at the present end."""
        size = max(0, min(size, self.size - offset))
        return await self._bytes.read(self._part, offset, size)

    async def more(self, offset: int) -> bool:
        """Waits until there is something at `offset`; False when there never will be."""
        while self.size <= offset and not self.closed:
            await self._changed.wait()
        return self.size > offset

    def end(self) -> None:
        """No more will come of this attempt."""
        if not self.ended:
            self.ended = True
            self._arrival.end()

    def close(self) -> None:
        """No more will come at all."""
        self.end()
        self.closed = True
        self._wake()

    def _wake(self) -> None:
        changed, self._changed = self._changed, asyncio.Event()
        changed.set()

    async def excerpt(self, most: int) -> Excerpt:
        """Head and tail of all that came of the last attempt, `most` bytes of them, 2 * TAIL at most."""
        half, origin = most // 2, self.begin
        if self.total <= min(most, self.kept):
            return Excerpt(await self.read(origin, self.total), b"", 0)
        head = edges.head(await self.read(origin, min(half, self.kept)))
        begin = max(len(head), self.total - half)  # of the tail
        before = min(edges.LONGEST, begin - len(head))
        if self.dropped:
            last = self._tail[-(self.total - begin + before) :]
        else:
            last = await self.read(origin + begin - before, half + before)
        tail = edges.tail(last, len(last) - (self.total - begin))
        return Excerpt(head, tail, self.total - len(head) - len(tail))


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
