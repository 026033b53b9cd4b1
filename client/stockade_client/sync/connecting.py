"""Connections and private daemons for a thread. Each has a loop in a thread of its own, which ends with its block."""

import os
from collections.abc import Callable, Iterable, Iterator
from contextlib import AbstractAsyncContextManager, AbstractContextManager, contextmanager
from functools import wraps
from typing import Literal, ParamSpec, TypeVar

from stockade_client import approvals, connection, inspection, private
from stockade_client.following import HEARTBEAT_S
from stockade_client.sync.approving import Approve, Ask, answered_by
from stockade_client.sync.background import Background, Errands
from stockade_client.sync.calling import Call, Session
from stockade_client.sync.face import Face, waiting
from stockade_client.sync.streams import Stream
from stockade_client.values import DaemonInfo, Event

P = ParamSpec("P")
Inner = TypeVar("Inner")
T = TypeVar("T")


class Inspection(Face[inspection.Inspection]):
    """What the daemon's profiles say; see stockade_client.Daemon.profiles."""

    list = waiting(inspection.Inspection.list)
    show = waiting(inspection.Inspection.show)
    explain = waiting(inspection.Inspection.explain)
    check = waiting(inspection.Inspection.check)
    probe = waiting(inspection.Inspection.probe)
    judge = waiting(inspection.Inspection.judge)


class Daemon(Face[connection.Daemon]):
    """Made by `connect`; see stockade_client.Daemon."""

    doctor = waiting(connection.Daemon.doctor)
    get_session = waiting(connection.Daemon.get_session)
    sessions = waiting(connection.Daemon.sessions)
    calls = waiting(connection.Daemon.calls)
    close_session = waiting(connection.Daemon.close_session)
    tools = waiting(connection.Daemon.tools)
    catalog = waiting(connection.Daemon.catalog)
    check_tool = waiting(connection.Daemon.check_tool)
    resolve_unknown = waiting(connection.Daemon.resolve_unknown)

    @property
    def address(self) -> str:
        return self._inner.address

    @property
    def info(self) -> DaemonInfo:
        return self._inner.info

    @property
    def profiles(self) -> Inspection:
        """What the daemon's profiles say, and what is wrong with one."""
        return Inspection(self._background, self._errands, self._inner.profiles)

    @contextmanager
    def session(
        self,
        workspace: str | os.PathLike[str] | None = None,
        profile: str | os.PathLike[str] | None = None,
        id: str | None = None,
        approve: Approve | None = None,
        *,
        approval_policy: str = "ask",
        tightening: str = "",
        tools: Iterable[str] = (),
        workspace_view: Literal["itself", "copy"] = "itself",
        lease_s: float = 0.0,
    ) -> Iterator[Session]:
        """A session, open for as long as the block runs; see stockade_client.Daemon.session.

        approve: a function that is given each ask of the session, one after the other where one thread uses the
            session, in the thread that waits for it: `input` works there. While no thread waits, asks wait too.
        """
        errands = Errands()
        asking = None if approve is None else answered_by(approve, self._background, errands)
        opening = self._inner.session(
            workspace,
            profile,
            id,
            asking,
            approval_policy=approval_policy,
            tightening=tightening,
            tools=tools,
            workspace_view=workspace_view,
            lease_s=lease_s,
        )
        with self._background.held(opening, errands) as inner:
            yield Session(self._background, errands, inner)

    def call(self, session_id: str, call_id: str, tool: str = "") -> Call:
        """A handle on a call of any session, for its result, its output or its end; nothing is asked."""
        return Call(self._background, self._errands, self._inner.call(session_id, call_id, tool))

    def events(
        self,
        session_id: str,
        after: int = 0,
        follow: bool = False,
        call_id: str = "",
        *,
        heartbeat_s: float = HEARTBEAT_S,
    ) -> Stream[Event]:
        """The recorded events of any session that this caller may see; see stockade_client.Daemon.events."""
        source = self._inner.events(session_id, after, follow, call_id, heartbeat_s=heartbeat_s)
        return Stream(self._background, self._errands, source, lambda event: event)

    @contextmanager
    def approvals(
        self, session_id: str = "", *, changes: bool = False, heartbeat_s: float = HEARTBEAT_S
    ) -> Iterator[Stream[Ask]]:
        """Asks of one session, or of all that this caller may see: `with … as asks: for ask in asks`; see
        stockade_client.Daemon.approvals."""
        watching = self._inner.approvals(session_id, changes=changes, heartbeat_s=heartbeat_s)
        known: dict[approvals.Ask, Ask] = {}  # with `changes` an ask comes again as the same object

        def face(inner: approvals.Ask) -> Ask:
            ask = known.pop(inner, None) or Ask(self._background, Errands(), inner)
            if changes and not inner.ended:
                known[inner] = ask
            return ask

        with self._background.held(watching, self._errands) as source:
            yield Stream(self._background, self._errands, source, face)


def _in_a_block(
    opening: Callable[P, AbstractAsyncContextManager[Inner]], face: Callable[[Background, Inner], T]
) -> Callable[P, AbstractContextManager[T]]:
    """The same context manager, with the same parameters, on a loop of its own."""

    @wraps(opening)
    @contextmanager
    def opened(*args: P.args, **kwargs: P.kwargs) -> Iterator[T]:
        with Background() as background, background.held(opening(*args, **kwargs), Errands()) as inner:
            yield face(background, inner)

    return opened


connect = _in_a_block(connection.connect, lambda background, inner: Daemon(background, Errands(), inner))
local_daemon = _in_a_block(private.local_daemon, lambda background, address: address)
