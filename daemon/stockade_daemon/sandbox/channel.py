"""The daemon's end of a frame stream: asynchronous, bounded, and deaf to descriptors unless they are expected."""

import array
import asyncio
import errno
import os
import socket
from types import TracebackType
from typing import Any, Self

from stockade_worker.frames import MAX_DESCRIPTORS, BrokenFrame, Decoder, Frame, encode

_MOST_WAITING = 16  # frames
# How long a process of ours may take for an answer that takes it milliseconds; after that it is taken for stuck, by a
# signal or by a file system that is gone, and is ended. Far more than an overloaded host needs.
PATIENCE_S = 15.0
# Of the host, and no fault of the other end: descriptors that are under way are counted by uid (unix(7)).
_FOR_NOW = {errno.ETOOMANYREFS, errno.ENOBUFS, errno.ENOMEM}


class ChannelClosed(Exception):
    """The other end is gone, or as good as gone."""


class NotSent(ChannelClosed):
    """Nothing of a frame was sent, because the kernel does not take its descriptors now; the channel is as it was."""


class FrameChannel:
    """One end of a socketpair. Frames that arrive wait in order; a broken stream raises BrokenFrame once read."""

    def __init__(
        self, end: socket.socket, *, with_descriptors: bool = False, max_header: int = 1 << 20, max_blob: int = 0
    ) -> None:
        end.setblocking(False)
        self._socket = end
        self._with_descriptors = with_descriptors
        self._decoder = Decoder(max_header=max_header, max_blob=max_blob)
        self._descriptors: list[int] = []
        self._frames: asyncio.Queue[Frame | Exception] = asyncio.Queue()
        self._asked = 0
        self._loop = asyncio.get_running_loop()
        self._reading = True
        self._paused = False
        # Two senders must not interleave their bytes.
        self._sending = asyncio.Lock()
        self._loop.add_reader(end.fileno(), self._readable)

    def _readable(self) -> None:
        try:
            data = self._take()
        except (BlockingIOError, InterruptedError):
            return
        except OSError:
            data = b""
        if not data:
            self._stop(ChannelClosed("the other end is gone"))
            return
        try:
            frames = self._decoder.feed(data)
        except BrokenFrame as error:
            for frame in error.before:
                self._frames.put_nowait(frame)
            self._stop(error)
            return
        for frame in frames:
            count = frame.header.get("descriptors", 0) if self._with_descriptors else 0
            given, self._descriptors = tuple(self._descriptors[:count]), self._descriptors[count:]
            self._frames.put_nowait(frame._replace(descriptors=given))
        # Frames that nobody has asked for yet must not fill the daemon's memory: let the socket's buffer be the limit.
        if self._frames.qsize() >= _MOST_WAITING:
            self._paused = True
            self._loop.remove_reader(self._socket.fileno())

    def _take(self) -> bytes:
        if not self._with_descriptors:
            # A plain recv makes the kernel drop any descriptor that the other end sends along.
            return self._socket.recv(1 << 18)
        size = socket.CMSG_SPACE(MAX_DESCRIPTORS * 4)
        data, ancillary, _, _ = self._socket.recvmsg(1 << 18, size, socket.MSG_CMSG_CLOEXEC)
        for level, kind, rights in ancillary:
            if level == socket.SOL_SOCKET and kind == socket.SCM_RIGHTS:
                numbers = array.array("i")
                numbers.frombytes(rights[: len(rights) - len(rights) % numbers.itemsize])
                self._descriptors.extend(numbers)
        return data

    def _stop(self, reason: Exception) -> None:
        if self._reading:
            self._reading = False
            self._loop.remove_reader(self._socket.fileno())
            self._frames.put_nowait(reason)

    async def receive(self) -> Frame:
        """The next frame. Raises ChannelClosed or BrokenFrame, and keeps raising it."""
        item = await self._frames.get()
        if self._paused and self._reading and self._frames.qsize() < _MOST_WAITING:
            self._paused = False
            self._loop.add_reader(self._socket.fileno(), self._readable)
        if isinstance(item, Exception):
            self._frames.put_nowait(item)
            raise item
        return item

    async def send(self, header: dict[str, Any], blob: bytes = b"", descriptors: tuple[int, ...] = ()) -> None:
        """Sends one frame. Raises ChannelClosed; NotSent where the kernel would not take its descriptors now."""
        if descriptors:
            header = {**header, "descriptors": len(descriptors)}
        data = encode(header, blob)
        try:
            async with self._sending:
                if descriptors:
                    # Nothing else is in the socket's buffer here: these frames answer requests one at a time.
                    rights = (socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", descriptors))
                    data = data[self._with_rights(data, rights) :]
                if data:
                    await self._loop.sock_sendall(self._socket, data)
        except OSError as error:
            raise ChannelClosed(str(error)) from error

    def _with_rights(self, data: bytes, rights: tuple[int, int, "array.array[int]"]) -> int:
        try:
            return self._socket.sendmsg([data], [rights])
        except OSError as error:
            if error.errno in _FOR_NOW:
                raise NotSent(str(error)) from error
            raise

    async def ask(self, header: dict[str, Any], descriptors: tuple[int, ...] = ()) -> Frame:
        """Sends one request and receives its answer, told by its id; the caller sees to it that there is one at a time.

        Raises ChannelClosed or BrokenFrame; TimeoutError where nothing came within PATIENCE_S.
        """
        async with asyncio.timeout(PATIENCE_S):
            self._asked += 1
            await self.send({**header, "id": self._asked}, descriptors=descriptors)
            while True:
                frame = await self.receive()
                if frame.header.get("id") == self._asked:
                    return frame
                for descriptor in frame.descriptors:  # the answer to a request that was given up
                    os.close(descriptor)

    def close(self) -> None:
        """Closes this end and whatever descriptors nobody took. Safe to repeat."""
        self._stop(ChannelClosed("closed"))
        while not self._frames.empty():
            item = self._frames.get_nowait()
            if isinstance(item, Frame):
                self._descriptors.extend(item.descriptors)
        self._frames.put_nowait(ChannelClosed("closed"))
        for descriptor in self._descriptors:
            os.close(descriptor)
        self._descriptors.clear()
        self._socket.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()
