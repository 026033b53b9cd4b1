"""The view of both streams of a settled call: from the ledger, or from the files that its output needed."""

import asyncio
import os
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path

from stockade_daemon.pipeline.arrival import STREAMS, Arrival
from stockade_daemon.pipeline.kept_bytes import ORDER, order_in


class Both:
    """Made by `settled`."""

    def __init__(self, arrival: Arrival, streams: tuple[bytes | int, bytes | int]) -> None:
        self._arrival = arrival
        self._streams = streams  # bytes, or a descriptor

    async def read(self, offset: int, size: int) -> tuple[str, bytes]:
        """Up to `size` bytes from `offset`, all of one stream, and which; none at the end. Raises OSError."""
        run = self._arrival.at(offset)
        if run is None:
            return "", b""
        stream, size = self._streams[run.part], min(size, run.size)
        if isinstance(stream, bytes):
            return STREAMS[run.part], stream[run.offset : run.offset + size]
        return STREAMS[run.part], await asyncio.to_thread(os.pread, stream, size, run.offset)


@asynccontextmanager
async def settled(
    kept: Callable[[str], Awaitable[bytes | None]], file_of: Callable[[str], Path]
) -> AsyncIterator[Both]:
    """kept: what the ledger has of a part; file_of: where a part lies that is too long for it. Raises OSError."""
    async with AsyncExitStack() as files:
        out, err = [await _stream(files, await kept(part), file_of(part)) for part in STREAMS]
        sizes = (_size(out), _size(err))
        order = await kept(ORDER)
        if order is None:
            order = await asyncio.to_thread(order_in, file_of(ORDER))
        yield Both(Arrival.restored(order, sizes), (out, err))


async def _stream(files: AsyncExitStack, kept: bytes | None, path: Path) -> bytes | int:
    if kept is not None:
        return kept
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    except FileNotFoundError:
        return b""
    files.callback(os.close, descriptor)
    return descriptor


def _size(stream: bytes | int) -> int:
    return len(stream) if isinstance(stream, bytes) else os.fstat(stream).st_size
