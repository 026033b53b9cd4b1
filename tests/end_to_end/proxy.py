"""A proxy between a client and a daemon, both on Unix sockets, that a test makes worse than any network."""

import asyncio
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager, suppress
from pathlib import Path

_PIECE = 64 * 1024
_HEADER = 9  # bytes of an HTTP/2 frame before its payload: length in three, type, flags, stream (RFC 9113, 4.1)
_PING, _ACK = 6, 1


class Proxy:
    """Made by `between`."""

    def __init__(self, daemon: Path, socket: Path, begins_after_s: float) -> None:
        self._begins_after_s = begins_after_s
        self.address = f"unix:{socket}"
        self.connections = 0  # taken so far
        self.cuts = 0  # connections that were cut
        self.passed = 0  # bytes that came from the daemon
        self.sent = 0  # bytes that went to it
        self.pings = 0  # of the client's, that the daemon has answered
        self.pinged = asyncio.Event()  # set at each
        self._due: int | None = None  # bytes that may still pass before all is cut
        self._due_from_daemon = False
        self._daemon = daemon
        self._open: set[_Connection] = set()

    def cut(self) -> None:
        """Ends all connections of this moment, in the middle of whatever they carry."""
        for each in list(self._open):
            each.abort()
            self.cuts += 1

    def cut_after(self, count: int, *, from_daemon: bool) -> None:
        """Cuts when so many more bytes have passed in that direction and another one comes, which does not pass."""
        self._due, self._due_from_daemon = count, from_daemon

    def call_off(self) -> bool:
        """No cut is due any more; whether one was."""
        was, self._due = self._due, None
        return was is not None

    def silence(self) -> None:
        """Connections of this moment stay open and carry nothing more. New ones are well."""
        for each in self._open:
            each.carries.clear()

    @contextmanager
    def cutting_every(self, seconds: float) -> Iterator[None]:
        """Cuts again and again while the block runs."""
        loop = asyncio.get_running_loop()
        due: asyncio.TimerHandle

        def tick() -> None:
            nonlocal due
            self.cut()
            due = loop.call_later(seconds, tick)

        due = loop.call_later(seconds, tick)
        try:
            yield
        finally:
            due.cancel()

    async def take(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.connections += 1
        begins = asyncio.Event()
        asyncio.get_running_loop().call_later(self._begins_after_s, begins.set)
        try:
            await begins.wait()
            behind = await asyncio.open_unix_connection(str(self._daemon), limit=_PIECE)
        except BaseException as error:
            writer.transport.abort()
            if isinstance(error, OSError):
                return
            raise
        connection = _Connection((writer, behind[1]))
        self._open.add(connection)
        try:
            with suppress(OSError):
                async with asyncio.TaskGroup() as ways:
                    ways.create_task(self._carry(connection, reader, behind[1], counted=False))
                    ways.create_task(self._carry(connection, behind[0], writer, counted=True))
        except* OSError:
            pass
        finally:
            self._open.discard(connection)
            connection.abort()

    async def _carry(
        self, connection: "_Connection", source: asyncio.StreamReader, sink: asyncio.StreamWriter, *, counted: bool
    ) -> None:
        frames = _Frames()
        while piece := await source.read(_PIECE):
            if counted:
                self.passed += len(piece)
                if answered := frames.answered_pings(piece):
                    self.pings += answered
                    self.pinged.set()
            else:
                self.sent += len(piece)
            await connection.carries.wait()
            if self._due is not None and self._due_from_daemon == counted:
                if len(piece) > self._due:
                    sink.write(piece[: self._due])
                    self._due = None
                    self.cut()
                    return
                self._due -= len(piece)
            sink.write(piece)
            await sink.drain()
        connection.abort()


class _Frames:
    """The HTTP/2 frames of one way, as their bytes come."""

    def __init__(self) -> None:
        self._header = b""
        self._left = 0  # bytes of a payload that are still to come

    def answered_pings(self, piece: bytes) -> int:
        found, at = 0, 0
        while at < len(piece):
            if self._left:
                step = min(self._left, len(piece) - at)
                self._left -= step
                at += step
                continue
            step = _HEADER - len(self._header)
            self._header += piece[at : at + step]
            at += step
            if len(self._header) == _HEADER:
                self._left = int.from_bytes(self._header[:3], "big")
                found += self._header[3] == _PING and self._header[4] & _ACK
                self._header = b""
        return found


class _Connection:
    def __init__(self, ends: tuple[asyncio.StreamWriter, asyncio.StreamWriter]) -> None:
        self._ends = ends
        self.carries = asyncio.Event()
        self.carries.set()

    def abort(self) -> None:
        for each in self._ends:
            each.transport.abort()
        self.carries.set()  # whoever waits finds a dead transport


@asynccontextmanager
async def between(daemon: Path, socket: Path, *, begins_after_s: float = 0.0) -> AsyncIterator[Proxy]:
    """A proxy on `socket` to the daemon's; its connections are cut at the end. Each is taken at once, and carries
    nothing for the first `begins_after_s` seconds."""
    proxy = Proxy(daemon, socket, begins_after_s)
    taking: set[asyncio.Task[None]] = set()

    def take(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.create_task(proxy.take(reader, writer))
        taking.add(task)

    server = await asyncio.start_unix_server(take, str(socket), limit=_PIECE)
    try:
        yield proxy
    finally:
        server.close()
        proxy.cut()
        await server.wait_closed()
        for task in taking:
            task.cancel()  # one that has not begun yet
        for end in await asyncio.gather(*taking, return_exceptions=True):
            if isinstance(end, Exception):
                raise end
