"""A connection to a daemon: sessions, approvals, and what there is to know about it."""

import asyncio
import os
from collections.abc import AsyncIterator
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from pathlib import Path

from stockade.v1 import catalog_pb2, daemon_pb2, sessions_pb2
from stockade_client import approvals, events, ids, wire
from stockade_client.approvals import Approve, Ask
from stockade_client.errors import Incompatible, InvalidRequest, NoAnswer, NoDaemon, StockadeError
from stockade_client.link import PATIENCE_S, Link, Stream, opened
from stockade_client.session import Session
from stockade_client.values import DaemonInfo, Event, SessionInfo, Tool

PROTOCOL = "stockade.v1"


@asynccontextmanager
async def connect(address: str, token: str | None = None) -> AsyncIterator["Daemon"]:
    """A connection to the daemon at `address` (unix:/path/daemon.sock), closed with all its streams at the
    end.

    Raises NoDaemon when nothing answers there, Incompatible when it speaks another protocol.
    """
    async with opened(address, token) as link:
        # A first connection that fails is an answer; only a daemon that was there may be waited for.
        link.patience_s = 0.0
        try:
            response = await link.ask(link.daemon.GetInfo, daemon_pb2.GetInfoRequest(), "introduce itself")
        except NoAnswer as error:
            raise NoDaemon(
                f"nothing answers at {address}; start a daemon there with `stockaded serve`, or use a private one"
            ) from error
        info = wire.info_of(response)
        if info.protocol != PROTOCOL:
            raise Incompatible(
                f"the daemon at {address} speaks {info.protocol or 'no protocol'} and this client {PROTOCOL}; "
                "install the same version of stockade on both sides"
            )
        if not info.private:
            link.patience_s = PATIENCE_S
        yield Daemon(link, info)


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

        Raises NotFound, InvalidRequest, NotPermitted, AlreadyExists or NotPossible, with the remedy.
        """
        session = Session(self._link, await self._open(workspace, profile, id, approval_policy))
        try:
            if approve is None:
                yield session
            else:
                async with approvals.answering(self._link, session.session_id, approve):
                    yield session
        finally:
            if id is None:
                await _close_on_the_way_out(session)

    async def _open(
        self,
        workspace: str | os.PathLike[str] | None,
        profile: str | os.PathLike[str] | None,
        id: str | None,
        approval_policy: str,
    ) -> SessionInfo:
        request = sessions_pb2.OpenSessionRequest(session_id=id or ids.new("session"))
        request.approval_policy = approval_policy
        if workspace is None or profile is None:
            if id is None:
                raise InvalidRequest("a new session needs a workspace and a profile; pass both, or a known id")
            known = await self.get_session(id)
            request.approval_policy = known.approval_policy
            workspace = known.workspace if workspace is None else workspace
            profile = known.profile if profile is None else profile
        request.workspace = _absolute(os.fspath(workspace))
        _set_profile(request, os.fspath(profile))
        return wire.session_of(await self._link.ask(self._link.sessions.Open, request, "open a session", wait_s=15.0))

    async def get_session(self, session_id: str) -> SessionInfo:
        """What the daemon knows of a session. Raises NotFound."""
        request = sessions_pb2.GetSessionRequest(session_id=session_id)
        return wire.session_of(await self._link.ask(self._link.sessions.Get, request, f"find session {session_id}"))

    async def sessions(self) -> list[SessionInfo]:
        """The sessions that this caller may see."""
        response = await self._link.ask(
            self._link.sessions.List, sessions_pb2.ListSessionsRequest(), "list its sessions"
        )
        return [wire.session_of(session) for session in response.sessions]

    async def tools(self) -> list[Tool]:
        """The tools that this daemon offers, by name."""
        response = await self._link.ask(self._link.catalog.ListTools, catalog_pb2.ListToolsRequest(), "list its tools")
        return [
            wire.tool_of(tool.name, tool.description, tool.input_schema, tool.access, tool.kind, tool.timeout_s)
            for tool in response.tools
        ]

    def events(self, session_id: str, after: int = 0, follow: bool = False, call_id: str = "") -> Stream[Event]:
        """The recorded events of any session that this caller may see; see events.read."""
        return events.read(self._link, session_id, after=after, follow=follow, call_id=call_id)

    def approvals(self, session_id: str = "") -> AbstractAsyncContextManager[Stream[Ask]]:
        """Asks of one session, or of all that this caller may see: `async with … as asks: async for ask in asks`."""
        return approvals.watching(self._link, session_id)


async def _close_on_the_way_out(session: Session) -> None:
    """Closes although the task is being cancelled, and says nothing of a daemon that is gone: so is the session."""
    closing = asyncio.ensure_future(session.close())
    try:
        await asyncio.shield(closing)
    except StockadeError:
        return


def _absolute(path: str) -> str:
    """Only made absolute: `..` behind a link means what the daemon's kernel says, not what the text says."""
    return os.path.join(os.getcwd(), path) if not path.startswith("/") else path


def _set_profile(request: sessions_pb2.OpenSessionRequest, profile: str) -> None:
    if "/" not in profile and not profile.endswith(".toml"):
        request.profile_name = profile
        return
    try:
        text = Path(profile).read_bytes()
    except OSError as error:
        raise InvalidRequest(
            f"cannot read the profile file {profile!r}: {error.strerror}; give the path of a readable file, or a "
            "profile's name without '/'"
        ) from error
    request.profile_text.name = profile
    request.profile_text.toml = text
