"""Sessions and calls for a thread."""

from typing import TypeVar

from stockade_client import calls, session
from stockade_client.calls import Part, Piece
from stockade_client.following import HEARTBEAT_S
from stockade_client.results import CallResult, Json, JsonInput
from stockade_client.sync.face import Face, waiting
from stockade_client.sync.streams import Stream
from stockade_client.values import Event, SessionInfo

T = TypeVar("T")


class Call(Face[calls.Call]):
    """A handle on one call; see stockade_client.Call."""

    result = waiting(calls.Call.result)
    cancel = waiting(calls.Call.cancel)
    withdraw = waiting(calls.Call.withdraw)
    kill = waiting(calls.Call.kill)
    wait = waiting(calls.Call.wait)
    signal = waiting(calls.Call.signal)
    resolve_unknown = waiting(calls.Call.resolve_unknown)

    @property
    def call_id(self) -> str:
        return self._inner.call_id

    @property
    def tool(self) -> str:
        return self._inner.tool

    @property
    def settled(self) -> CallResult | None:
        """The result, once this handle has seen it."""
        return self._inner.settled

    @property
    def card(self) -> dict[str, Json]:
        """What a person is shown of it, as this handle has last seen it; empty until the daemon has said."""
        return self._inner.card

    def output(
        self, offset: int = 0, part: Part = "stdout", follow: bool = True, *, heartbeat_s: float = HEARTBEAT_S
    ) -> Stream[bytes]:
        """Bytes of the call's output from `offset` on; see stockade_client.Call.output."""
        source = self._inner.output(offset, part, follow, heartbeat_s=heartbeat_s)
        return Stream(self._background, self._errands, source, bytes)

    def pieces(
        self, offset: int = 0, part: Part = "both", follow: bool = True, *, heartbeat_s: float = HEARTBEAT_S
    ) -> Stream[Piece]:
        """The same, with whose bytes they are and where they stand; see stockade_client.Call.pieces."""
        source = self._inner.pieces(offset, part, follow, heartbeat_s=heartbeat_s)
        return Stream(self._background, self._errands, source, _as_it_is)

    def text(
        self, offset: int = 0, part: Part = "both", follow: bool = True, *, heartbeat_s: float = HEARTBEAT_S
    ) -> Stream[str]:
        """The same as text, of which no character is cut; see stockade_client.Call.text."""
        source = self._inner.text(offset, part, follow, heartbeat_s=heartbeat_s)
        return Stream(self._background, self._errands, source, str)


class Session(Face[session.Session]):
    """Made by `Daemon.session`; see stockade_client.Session.

    Asks of a session with `approve` are answered in the thread that waits for one of these methods, for a result, or
    for the next item of a stream.
    """

    call = waiting(session.Session.call)
    call_json = waiting(session.Session.call_json)
    call_many = waiting(session.Session.call_many)
    turn_json = waiting(session.Session.turn_json)
    context = waiting(session.Session.context)
    tools = waiting(session.Session.tools)
    close = waiting(session.Session.close)

    @property
    def session_id(self) -> str:
        return self._inner.session_id

    @property
    def info(self) -> SessionInfo:
        return self._inner.info

    def start(self, tool: str, /, call_id: str | None = None, **arguments: JsonInput) -> Call:
        """Starts a tool and returns a handle on it; see stockade_client.Session.start."""
        return self._call(self._wait(lambda: self._inner.start(tool, call_id, **arguments)))

    def start_json(self, tool: str, arguments: bytes, *, call_id: str | None = None) -> Call:
        """Like `start`, with the arguments as JSON text."""
        return self._call(self._wait(lambda: self._inner.start_json(tool, arguments, call_id=call_id)))

    def jobs(self) -> list[Call]:
        """Handles on the background jobs of this session that go on, oldest first."""
        return [self._call(each) for each in self._wait(self._inner.jobs)]

    def job(self, job_id: str) -> Call:
        """A handle on a background job; see stockade_client.Session.job."""
        return self._call(self._inner.job(job_id))

    def events(
        self,
        after: int = 0,
        follow: bool = False,
        call_id: str = "",
        *,
        heartbeat_s: float = HEARTBEAT_S,
    ) -> Stream[Event]:
        """The session's recorded events, or one call's; see stockade_client.Session.events."""
        source = self._inner.events(after, follow, call_id, heartbeat_s=heartbeat_s)
        return Stream(self._background, self._errands, source, _as_it_is)

    def _call(self, inner: calls.Call) -> Call:
        return Call(self._background, self._errands, inner)


def _as_it_is(item: T) -> T:
    return item
