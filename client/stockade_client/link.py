"""One channel to a daemon, and the rule for asking again.

Every request of the protocol is safe to repeat: mutations carry an id that the client chose, streams a
cursor. So when the daemon goes away in the middle, the same request is sent again until it answers or
patience ends. A private daemon never comes back at its address: it is given patience for as long as somebody listens
there, when it was the connection alone that ended. Nor is a daemon that was
waited for in vain by those who only want to take back what they began.
"""

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Iterator
from contextlib import AbstractAsyncContextManager, asynccontextmanager, contextmanager
from types import TracebackType
from typing import TYPE_CHECKING, Final, Generic, Protocol, Self, TypeVar

import grpc
from grpc import aio

from stockade.v1.approvals_pb2_grpc import ApprovalsStub
from stockade.v1.calls_pb2_grpc import CallsStub
from stockade.v1.catalog_pb2_grpc import CatalogStub
from stockade.v1.daemon_pb2_grpc import DaemonStub
from stockade.v1.events_pb2_grpc import EventsStub
from stockade.v1.profiles_pb2_grpc import ProfilesStub
from stockade.v1.sessions_pb2_grpc import SessionsStub
from stockade_client import wire
from stockade_client.addresses import answers, network, socket_path
from stockade_client.errors import Misused, NoAnswer
from stockade_client.local_token import LocalToken
from stockade_client.tls import Tls

if TYPE_CHECKING:
    # These exist in the stubs' types only: the same classes, over an asynchronous channel.
    from stockade.v1.approvals_pb2_grpc import ApprovalsAsyncStub
    from stockade.v1.calls_pb2_grpc import CallsAsyncStub
    from stockade.v1.catalog_pb2_grpc import CatalogAsyncStub
    from stockade.v1.daemon_pb2_grpc import DaemonAsyncStub
    from stockade.v1.events_pb2_grpc import EventsAsyncStub
    from stockade.v1.profiles_pb2_grpc import ProfilesAsyncStub
    from stockade.v1.sessions_pb2_grpc import SessionsAsyncStub

PATIENCE_S: Final = 10.0  # a daemon that is restarted is back within this
FIRST_PAUSE_S: Final = 0.05
LONGEST_PAUSE_S: Final = 1.0
QUIET_S: Final = 1.0
ANSWER_S: Final = 15.0  # beyond the time that a request asks the daemon to wait
ALIVE_S: Final = 5.0  # a connection that carries nothing any more is given up within twice of it
MESSAGE_BYTES: Final = 4 * 1024 * 1024

_OPTIONS: Final[list[tuple[str, int]]] = [
    ("grpc.max_send_message_length", MESSAGE_BYTES),
    ("grpc.max_receive_message_length", MESSAGE_BYTES),
    # A proxy of the environment is for hosts, not for a socket of ours.
    ("grpc.enable_http_proxy", 0),
    # grpc's own backoff between connection attempts grows to two minutes; Patience decides here.
    ("grpc.initial_reconnect_backoff_ms", 100),
    # Not a pause, whatever its name says, but how long a connection may take until the daemon greets: seconds on a busy
    # machine, where an attempt that was given up would be taken for a daemon that is not there.
    ("grpc.min_reconnect_backoff_ms", 10_000),
    ("grpc.max_reconnect_backoff_ms", 1000),
    # While a request waits, a connection that is silent for ALIVE_S is asked whether it lives, and has ALIVE_S to
    # answer: grpc does both in threads of its own, however busy the program is. The last is for the pings that grpc
    # sends for its own purposes: while one is on its way none of ours is sent.
    ("grpc.keepalive_time_ms", int(ALIVE_S * 1000)),
    ("grpc.keepalive_timeout_ms", int(ALIVE_S * 1000)),
    ("grpc.http2.max_pings_without_data", 0),
    ("grpc.http2.ping_timeout_ms", int(ALIVE_S * 1000)),
    # Channels of one process would share one connection, and with it one another's backoff.
    ("grpc.use_local_subchannel_pool", 1),
]

Item = TypeVar("Item")
Request = TypeVar("Request", contravariant=True)
Response = TypeVar("Response", covariant=True)


class Method(Protocol[Request, Response]):
    """A unary method of a stub."""

    def __call__(
        self, request: Request, /, *, timeout: float | None = ..., metadata: aio.Metadata | None = ...
    ) -> Awaitable[Response]: ...


class Patience:
    """Growing pauses of one request, up to a total; good news starts it afresh. Its link hears of both."""

    def __init__(self, link: "Link") -> None:
        self._link = link
        self._left = link.patience_s
        self._quiet_s = 0.0  # of waiting that nobody is told of
        self._pause = FIRST_PAUSE_S

    def begin_quietly(self) -> None:
        """The daemon has said that it stops: whoever has what he came for leaves now, and is not told that it went."""
        self._quiet_s = QUIET_S

    def renew(self) -> None:
        """The daemon answered: the next trouble gets the full time again."""
        self._link.answers()
        self._quiet_s = 0.0
        self._left = self._link.patience_s
        self._pause = FIRST_PAUSE_S

    async def pause(self, *, spent_s: float = 0.0) -> bool:
        """Waits a while and returns True, or False at once when there is no patience left. `spent_s` was waited
        already, for an answer that did not come."""
        self._left -= spent_s
        if self._left <= 0 or (self._link.private and not await asyncio.to_thread(answers, self._link.path)):
            self._link.gone = True
            return False
        if self._quiet_s <= 0:
            self._link.is_waited_for()
        pause = min(self._pause, self._left)
        self._left -= pause
        self._quiet_s -= pause
        self._pause = min(self._pause * 2, LONGEST_PAUSE_S)
        await asyncio.sleep(pause)
        return True


class Link:
    """A channel with its stubs. Made by `opened`; usable from the event loop that made it."""

    def __init__(
        self, address: str, channel: aio.Channel, token: str | None, local: LocalToken | None, tls: Tls | None
    ) -> None:
        self.address = address
        self.patience_s = PATIENCE_S
        self.version = ""  # of the daemon, once it has said so
        self.features: frozenset[str] = frozenset()  # the optional abilities that the daemon has named
        self.heartbeats = False  # whether the daemon sends them on streams of events
        self.most_arguments = 0  # bytes of a call's; what is longer is left out. 0: the daemon does not know that
        self.path = socket_path(address) if network(address) is None else ""
        self.private = False  # a daemon that was started for its client's lifetime, and does not come back
        self.closed = False  # by whoever opened it
        self.gone = False  # it was waited for in vain, and has not answered since
        self.on_away: Callable[[], None] | None = None  # called once for each absence that is waited out
        self.on_back: Callable[[], None] | None = None  # called once at the end of each
        self._away = False
        self._token = token
        self._tls = tls
        self._local = local if token is None else None
        self.metadata = _metadata(token)  # of the next request; `authorize` renews it
        self.daemon: DaemonAsyncStub = DaemonStub(channel)
        self.catalog: CatalogAsyncStub = CatalogStub(channel)
        self.profiles: ProfilesAsyncStub = ProfilesStub(channel)
        self.sessions: SessionsAsyncStub = SessionsStub(channel)
        self.calls: CallsAsyncStub = CallsStub(channel)
        self.events: EventsAsyncStub = EventsStub(channel)
        self.approvals: ApprovalsAsyncStub = ApprovalsStub(channel)

    async def ask(
        self,
        method: Method[Request, Response],
        request: Request,
        what: str,
        *,
        wait_s: float = 0.0,
        patient: bool = True,
        afterwards: str = wire.AFTERWARDS,
    ) -> Response:
        """The daemon's answer. `what` finishes "asked to …"; `wait_s` is how long the request lets it wait.

        Without `patient` a daemon that is away is not waited for. `afterwards` tells what to do once it is gone.

        Raises a RequestRefused, NoAnswer when patience ends, Incompatible, Misused once the connection is closed, or
        DaemonError for a fault of the daemon.
        """
        patience = self.patience()
        renewed = False
        while True:
            await self.authorize()
            try:
                with self.used(what):
                    response = await method(request, timeout=wait_s + ANSWER_S, metadata=self.metadata)
            except aio.AioRpcError as error:
                if is_away(error) and patient and await patience.pause():
                    continue
                if not renewed and self.unknown(error):
                    renewed = True
                    continue
                failure = wire.error_of(error, what, afterwards, version=self.version)
                if isinstance(failure, NoAnswer):
                    self.gone = True
                raise failure from error
            self.answers()
            return response

    def need(self, feature: str, what: str) -> None:
        """Raises Incompatible where the daemon has not named the feature, which asking to `what` relies on."""
        if feature not in self.features:
            raise wire.lacking(what, self.version)

    async def authorize(self) -> None:
        """Before each request: sees to it that `metadata` has what proves who is calling. Raises NotPermitted."""
        if self._local is not None:
            self.metadata = _metadata(await self._local.current())

    def unknown(self, error: aio.AioRpcError) -> bool:
        """Whether the daemon does not know the token any more, and another one is to be had."""
        return self._local is not None and error.code() is grpc.StatusCode.UNAUTHENTICATED and self._local.forget()

    @contextmanager
    def used(self, what: str) -> Iterator[None]:
        """Around each use of the channel: raises Misused where that is closed, or is being closed by another task,
        which grpc has look like the end of the task that waits. `what` finishes "asked to …"."""
        try:
            if self.closed:
                raise aio.UsageError
            yield
        except (aio.UsageError, asyncio.CancelledError) as error:
            if not self.closed or (isinstance(error, asyncio.CancelledError) and is_cancelled()):
                raise
            raise Misused(
                f"the connection is closed, asked to {what}; do it inside of the block of `connect`, or connect again: "
                "what the daemon has recorded is still there"
            ) from None

    def again(self) -> AbstractAsyncContextManager["Link"]:
        """Another connection to the same daemon, for when this one is dead and nobody has said so."""
        return opened(self.address, self._token, self._tls)

    def patience(self) -> Patience:
        return Patience(self)

    def answers(self) -> None:
        """The daemon is there."""
        was_away, self.gone, self._away = self._away, False, False
        if was_away and self.on_back is not None:
            self.on_back()

    def is_waited_for(self) -> None:
        """The daemon is away, and some request waits for it."""
        if not self._away:
            self._away = True
            if self.on_away is not None:
                self.on_away()


@asynccontextmanager
async def opened(address: str, token: str | None, tls: Tls | None = None) -> AsyncIterator[Link]:
    """A link to `address`, closed with all its streams at the end.

    Raises NoDaemon for an unusable address, InvalidRequest for unusable certificates.
    """
    local = None
    place = network(address)
    if place is None:
        path = socket_path(address)
        local = LocalToken(path)
        made = aio.insecure_channel(f"unix:{path}", options=_OPTIONS)
    elif place.tls:
        made = aio.secure_channel(place.target, (tls or Tls()).credentials(), options=_OPTIONS)
    else:
        made = aio.insecure_channel(place.target, options=_OPTIONS)
    async with made as channel:
        link = Link(address, channel, token, local, tls)
        try:
            yield link
        finally:
            link.closed = True


class Stream(Generic[Item]):
    """Items as they come: an async iterator that is also a context manager.

    Iterated to its end it closes itself. Whoever may stop earlier holds it in `async with`: a stream of grpc
    that is merely dropped stays alive in the daemon. One task at a time iterates, else Misused is raised; for a task
    that does so while another one closes the stream, it is over.
    """

    def __init__(self, source: AsyncGenerator[Item, None]) -> None:
        self._source = source
        self._reading: asyncio.Future[Item] | None = None
        self._closed = False

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> Item:
        if self._reading is not None:
            raise Misused("another task is iterating over this stream; give each task a stream of its own")
        # A task of its own, so that whoever closes the stream can end the reading, and not the reader.
        self._reading = asyncio.ensure_future(anext(self._source))
        try:
            return await self._reading
        except asyncio.CancelledError:
            if self._closed and not is_cancelled():
                raise StopAsyncIteration from None
            raise
        finally:
            self._reading = None

    async def aclose(self) -> None:
        """Ends the stream in the daemon too. Safe to repeat."""
        self._closed = True
        if self._reading is not None:
            self._reading.cancel()
            await asyncio.wait([self._reading])
        await self._source.aclose()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.aclose()


def is_cancelled() -> bool:
    """Whether somebody wants the running task to end; grpc says the same of its own calls when their channel closes."""
    task = asyncio.current_task()
    return task is not None and task.cancelling() > 0


def _metadata(token: str | None) -> aio.Metadata:
    return aio.Metadata(("authorization", f"Bearer {token}")) if token else aio.Metadata()


def is_away(error: aio.AioRpcError) -> bool:
    """Whether the daemon is away and may come back."""
    code: grpc.StatusCode = error.code()
    return code in wire.AWAY
