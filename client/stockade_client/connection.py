"""A connection to a daemon: sessions, approvals, and what there is to know about it."""

import asyncio
import os
import shlex
from collections.abc import AsyncIterator, Callable, Iterable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from typing import Literal

from grpc import aio

from stockade.v1 import calls_pb2, catalog_pb2, daemon_pb2, sessions_pb2
from stockade_client import approvals, events, ids, leases, places, profiles, wire
from stockade_client.addresses import ENVIRONMENT_VARIABLE, answers, network, socket_path
from stockade_client.approvals import Approve, Ask
from stockade_client.calls import LAST_TRY_S, Call
from stockade_client.errors import Incompatible, InvalidRequest, NoAnswer, NoDaemon, StockadeError
from stockade_client.following import HEARTBEAT_S
from stockade_client.inspection import Inspection
from stockade_client.link import PATIENCE_S, Link, Stream, opened
from stockade_client.results import CallResult
from stockade_client.session import Session
from stockade_client.tls import Tls
from stockade_client.values import (
    CallUnderWay,
    Catalog,
    CheckedTools,
    DaemonInfo,
    Event,
    Examination,
    SessionInfo,
    Tool,
)

PROTOCOL = "stockade.v1"
OPEN_S = 15.0
COPY_S = 600.0  # a workspace of many gigabytes, where its bytes cannot be shared
_GREETINGS = 5  # attempts at a first answer of somebody who takes connections
_GREETING_PAUSE_S = 0.2


@asynccontextmanager
async def connect(
    address: str,
    token: str | None = None,
    *,
    tls: Tls | None = None,
    on_away: Callable[[], None] | None = None,
    on_back: Callable[[], None] | None = None,
) -> AsyncIterator["Daemon"]:
    """A connection to the daemon at `address` (unix:/path/daemon.sock, or tls:HOST:PORT), closed with all its streams
    at the end.

    token: as the daemon's admin gave it. Where several users of a host share a daemon, one is got by itself.
    tls: the certificates for an address tls:…; without, the daemon's must be of an authority that the system knows.
    on_away: called each time that the daemon went away and is waited for. on_back: called when it answers again.

    Raises NoDaemon when nothing answers there, Incompatible when it speaks another protocol.
    """
    async with opened(address, token, tls) as link:
        response = await _introduced(link)
        info = wire.info_of(response)
        if info.protocol != PROTOCOL:
            raise Incompatible(
                f"the daemon at {address} (stockade {info.version or 'of no version'}) speaks "
                f"{info.protocol or 'no protocol'} and this client (stockade {wire.own_version()}) {PROTOCOL}; "
                f"{wire.SAME_VERSION}"
            )
        link.version = info.version
        link.private, link.on_away, link.on_back = info.private, on_away, on_back
        link.features = frozenset(info.features)
        link.heartbeats = "heartbeats" in link.features
        if "arguments-left-out" in link.features:
            link.most_arguments = response.limits.arguments_bytes
        link.patience_s = PATIENCE_S
        yield Daemon(link, info)


async def _introduced(link: Link) -> daemon_pb2.GetInfoResponse:
    """What the daemon is. A first connection that fails is an answer, but where somebody takes connections a broken one
    is tried again."""
    for attempt in range(_GREETINGS):
        link.patience_s = 0.0
        try:
            return await link.ask(link.daemon.GetInfo, daemon_pb2.GetInfoRequest(), "introduce itself")
        except NoAnswer as error:
            if network(link.address) is not None:
                raise NoDaemon(f"no daemon answers at {link.address}: {_why(error)}") from error
            path = socket_path(link.address)
            if await asyncio.to_thread(answers, path):
                if attempt < _GREETINGS - 1:
                    await asyncio.sleep(_GREETING_PAUSE_S)
                    continue
                raise NoDaemon(
                    f"something listens at {link.address} and does not answer as a daemon does; see what it is, or "
                    "start a daemon at another socket with `stockaded serve --socket PATH`"
                ) from error
            raise NoDaemon(
                f"nothing answers at {link.address}; start a daemon there with `stockaded serve --socket "
                f"{shlex.quote(path)}`, or have the command start a private one: --private, or unset "
                f"{ENVIRONMENT_VARIABLE}"
            ) from error
    raise AssertionError("the last attempt returns or raises")


class Daemon:
    """Made by `connect`."""

    def __init__(self, link: Link, info: DaemonInfo) -> None:
        self._link = link
        self.info = info

    @property
    def address(self) -> str:
        return self._link.address

    @asynccontextmanager
    async def session(
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
    ) -> AsyncIterator[Session]:
        """A session, open for as long as the block runs.

        workspace: a directory on the daemon's host; a relative path counts from the current directory.
        profile: a name, or the path of a profile file (it contains "/" or ends in .toml), which only a
            private daemon takes.
        id: with the id of a session that is open, that session is resumed, and `workspace` and `profile` may
            be left out. A session with an id stays open after the block, to be resumed; one without is
            closed.
        approve: a coroutine that is given each ask of the session; see approvals.Approve.
        approval_policy: "ask", or "never": whatever would be asked is rejected without asking.
        tools: names of the tools that the session offers and runs; for it there are no others. None: all of them.
        workspace_view: "copy": the session works on a copy of the workspace, which is gone with it.
        tightening: TOML with keys of a profile that narrow it for this session; what would widen it is refused.
        lease_s: so many seconds (1 to 86400) after this program has gone without closing it, the daemon closes the
            session. While the block runs, the lease is renewed; where that cannot be for so long, the session ends as
            well, and what is asked of it then raises NotPossible. 0: it stays open.

        Raises NotFound, InvalidRequest, NotPermitted, AlreadyExists or NotPossible, with the remedy.
        """
        request = await self._request(
            workspace, profile, id, approval_policy, tightening, tools, workspace_view, lease_s
        )
        session = Session(self._link, await self._open(request, close=id is None))
        try:
            async with leases.renewed(self._link, request):
                if approve is None:
                    yield session
                else:
                    async with approvals.answering(self._link, session.session_id, approve):
                        yield session
        finally:
            if id is None:
                await _close_on_the_way_out(session, self._link)

    async def _request(
        self,
        workspace: str | os.PathLike[str] | None,
        profile: str | os.PathLike[str] | None,
        id: str | None,
        approval_policy: str,
        tightening: str,
        tools: Iterable[str],
        workspace_view: str,
        lease_s: float,
    ) -> sessions_pb2.OpenSessionRequest:
        if workspace_view == "copy" and "workspace-copies" not in self.info.features:
            raise Incompatible(
                f"the daemon (stockade {self.info.version}) knows no sessions on copies of a workspace; this client is "
                f"stockade {wire.own_version()}: {wire.SAME_VERSION}"
            )
        if lease_s:
            self._link.need(leases.FEATURE, "end sessions whose client has gone (lease_s)")
        request = sessions_pb2.OpenSessionRequest(
            session_id=ids.new("session") if id is None else wire.said(id, "a session's id")
        )
        request.approval_policy, request.tightening = approval_policy, tightening.encode()
        request.workspace_view, request.lease_s = workspace_view, lease_s
        request.tools.extend(wire.said(name, "a tool's name") for name in tools)
        if workspace is None or profile is None:
            if id is None:
                raise InvalidRequest("a new session needs a workspace and a profile; pass both, or a known id")
            known = await self.get_session(id)
            request.approval_policy = known.approval_policy
            request.workspace_view = known.workspace_view
            request.lease_s = known.lease_s
            request.tightening = request.tightening or known.tightening.encode()
            if not request.tools:
                request.tools.extend(known.tools)
            workspace = known.workspace if workspace is None else workspace
            profile = known.profile if profile is None else profile
        request.workspace = places.workspace(workspace)
        profiles.name(request, os.fspath(profile))
        return request

    async def _open(self, request: sessions_pb2.OpenSessionRequest, *, close: bool) -> SessionInfo:
        """`close`: it is closed again where it is not what was asked for."""
        patience_s = COPY_S if request.workspace_view == "copy" else OPEN_S
        opened = await self._link.ask(self._link.sessions.Open, request, "open a session", wait_s=patience_s)
        try:
            self._check_kept(request, opened)
        except Incompatible:
            if close:
                await _close_on_the_way_out(Session(self._link, wire.session_of(opened)), self._link)
            raise
        return wire.session_of(opened)

    def _check_kept(self, request: sessions_pb2.OpenSessionRequest, opened: sessions_pb2.Session) -> None:
        """An older daemon ignores what it does not know, and the session would be wider than its caller asked for."""
        for what, wanted, kept in (
            ("approval_policy", request.approval_policy, opened.approval_policy),
            ("tightening", request.tightening, opened.tightening),
            ("tools", sorted(request.tools), sorted(opened.tools)),
            ("workspace_view", request.workspace_view, opened.workspace_view or "itself"),
        ):
            if wanted != kept:
                raise Incompatible(
                    f"the daemon (stockade {self.info.version}) opened the session without its {what}, which it does "
                    f"not know; this client is stockade {wire.own_version()}: {wire.SAME_VERSION}, or leave {what} out"
                )

    async def doctor(self) -> Examination:
        """What the daemon's host can enforce, asked anew: a real worker is made for each shipped profile."""
        request = daemon_pb2.DoctorRequest()
        return wire.examination_of(await self._link.ask(self._link.daemon.Doctor, request, "ask its host", wait_s=60.0))

    async def get_session(self, session_id: str) -> SessionInfo:
        """What the daemon knows of a session. Raises NotFound."""
        request = sessions_pb2.GetSessionRequest(session_id=wire.said(session_id, "a session's id"))
        return wire.session_of(await self._link.ask(self._link.sessions.Get, request, f"find session {session_id}"))

    async def sessions(self) -> list[SessionInfo]:
        """The sessions that this caller may see."""
        response = await self._link.ask(
            self._link.sessions.List, sessions_pb2.ListSessionsRequest(), "list its sessions"
        )
        return [wire.session_of(session) for session in response.sessions]

    async def calls(self, session_id: str = "") -> list[CallUnderWay]:
        """The calls that have no result yet: of one session, or of all that this caller may see. Raises NotFound."""
        response = await self._link.ask(
            self._link.calls.List, calls_pb2.ListCallsRequest(session_id=session_id), "list its calls"
        )
        return [wire.under_way_of(call) for call in response.calls]

    def call(self, session_id: str, call_id: str, tool: str = "") -> Call:
        """A handle on a call of any session, for its result, its output or its end; nothing is asked."""
        return Call(self._link, wire.said(session_id, "a session's id"), wire.said(call_id, "a call's id"), tool)

    async def close_session(self, session_id: str) -> SessionInfo:
        """Ends a session: its calls under way are cancelled, and it cannot be resumed. Raises NotFound."""
        session = Session(self._link, await self.get_session(session_id))
        await session.close()
        return session.info

    async def tools(self) -> list[Tool]:
        """The tools that this daemon offers, by name."""
        response = await self._link.ask(self._link.catalog.ListTools, catalog_pb2.ListToolsRequest(), "list its tools")
        return [wire.tool_of(tool) for tool in response.tools]

    async def catalog(self) -> Catalog:
        """All that this daemon offers: tools, profiles, error codes and types of events."""
        tools = await self._link.ask(self._link.catalog.ListTools, catalog_pb2.ListToolsRequest(), "list its tools")
        request = catalog_pb2.GetReferenceRequest()
        return wire.catalog_of(tools, await self._link.ask(self._link.catalog.GetReference, request, "tell its terms"))

    async def check_tool(self, name: str, text: bytes, places: Iterable[str] = ()) -> CheckedTools:
        """Judges the text of a tool file of that name, as the daemon judges those in its directories.

        places: paths of the file and of directories that lead to it, whose owner and mode are judged as well.

        Raises InvalidRequest for what is no file's name, OSError for a place that cannot be looked at, Busy.
        """
        request = catalog_pb2.CheckToolRequest(name=wire.said(name, "the file's name"), text=text)
        for path in places:
            found = os.stat(path)
            request.places.add(path=wire.said(path, "the path"), uid=found.st_uid, mode=found.st_mode)
        response = await self._link.ask(self._link.catalog.CheckTool, request, f"check {name}", wait_s=30.0)
        return CheckedTools(tuple(map(wire.tool_of, response.tools)), response.fault)

    @property
    def profiles(self) -> Inspection:
        """What the daemon's profiles say, and what is wrong with one."""
        return Inspection(self._link)

    def events(
        self,
        session_id: str,
        after: int = 0,
        follow: bool = False,
        call_id: str = "",
        *,
        heartbeat_s: float = HEARTBEAT_S,
    ) -> Stream[Event]:
        """The recorded events of any session that this caller may see; see events.read."""
        return events.read(self._link, session_id, after=after, follow=follow, call_id=call_id, heartbeat_s=heartbeat_s)

    async def resolve_unknown(
        self, session_id: str, call_id: str, outcome: Literal["done", "not-done"], note: str = ""
    ) -> CallResult:
        """Records what became of a call of any session whose outcome is unknown; see Call.resolve_unknown."""
        call = Call(self._link, wire.said(session_id, "a session's id"), wire.said(call_id, "a call's id"), "")
        return await call.resolve_unknown(outcome, note)

    def approvals(
        self, session_id: str = "", *, changes: bool = False, heartbeat_s: float = HEARTBEAT_S
    ) -> AbstractAsyncContextManager[Stream[Ask]]:
        """Asks of one session, or of all that this caller may see: `async with … as asks: async for ask in asks`.

        changes: an ask comes again, as the same object, when who looks at it changes, and when it has `ended`.
        heartbeat_s: as of events.read."""
        return approvals.watching(self._link, session_id, changes=changes, heartbeat_s=heartbeat_s)


def _why(error: NoAnswer) -> str:
    """What became of a connection over the network, as far as that can be told from here."""
    cause = error.__cause__
    said = (cause.details() or "") if isinstance(cause, aio.AioRpcError) else ""
    if "CERTIFICATE_VERIFY_FAILED" in said or "Hostname" in said:
        return f"its certificate is not one to trust ({said[-200:]}); give its authority's, and use a name that it has"
    return (
        f"{said[-200:]}; where it is there, it refuses what this client shows: a certificate of its own authority, not "
        "expired, is wanted by most"
    )


async def _close_on_the_way_out(session: Session, link: Link) -> None:
    """Closes although the task is being cancelled, and says nothing of a daemon that is gone: so is the session.

    Asked for once: whoever has what he came for must not wait for a daemon that ended meanwhile.
    """
    closing = asyncio.ensure_future(_closed(session, LAST_TRY_S if link.gone else None))
    try:
        await asyncio.shield(closing)
    except (StockadeError, TimeoutError):
        return


async def _closed(session: Session, seconds: float | None) -> None:
    async with asyncio.timeout(seconds):
        await session.close(patient=False)
