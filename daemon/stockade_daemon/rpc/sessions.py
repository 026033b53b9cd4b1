"""stockade.v1.Sessions."""

import asyncio
from typing import Any

from stockade.v1 import sessions_pb2, sessions_pb2_grpc
from stockade_daemon.errors import RequestError
from stockade_daemon.ledger.ledger import Ledger
from stockade_daemon.ledger.records import SessionRecord
from stockade_daemon.pipeline.engine import Engine
from stockade_daemon.pipeline.opening import Opening
from stockade_daemon.rpc import wire
from stockade_daemon.rpc.access import Access
from stockade_daemon.rpc.methods import unary
from stockade_daemon.values import Principal


class SessionsService(sessions_pb2_grpc.SessionsServicer):
    def __init__(self, access: Access, engine: Engine, ledger: Ledger) -> None:
        self.access = access
        self._engine = engine
        self._ledger = ledger

    @unary
    async def Open(self, request: sessions_pb2.OpenSessionRequest, context: Any, me: Principal) -> sessions_pb2.Session:
        chosen = request.WhichOneof("profile")
        if chosen is None:
            raise RequestError("INVALID_ARGUMENT", "no profile is named; give a name such as 'strict' or 'dev'")
        by_text = chosen == "profile_text"
        opening = Opening(
            session_id=request.session_id,
            workspace=request.workspace,
            profile_name=request.profile_text.name if by_text else request.profile_name,
            profile_text=request.profile_text.toml if by_text else None,
            approval_policy=request.approval_policy,
            tightening=request.tightening,
            tools=tuple(request.tools),
            view=request.workspace_view or "itself",
            lease_s=request.lease_s,
            renewal=request.renewal,
            by=me,
        )
        # Shielded: a request that is dropped must not leave the ledger and what is at hand with different profiles.
        return self._session(await asyncio.shield(self._engine.sessions.open(opening)))

    @unary
    async def Get(self, request: sessions_pb2.GetSessionRequest, context: Any, me: Principal) -> sessions_pb2.Session:
        await self.access.see(me, request.session_id)
        return self._session(await self._engine.sessions.record(request.session_id))

    @unary
    async def List(
        self, request: sessions_pb2.ListSessionsRequest, context: Any, me: Principal
    ) -> sessions_pb2.ListSessionsResponse:
        return sessions_pb2.ListSessionsResponse(
            sessions=[self._session(each) for each in await self._ledger.sessions() if self.access.sees(me, each)]
        )

    @unary
    async def Close(
        self, request: sessions_pb2.CloseSessionRequest, context: Any, me: Principal
    ) -> sessions_pb2.Session:
        await self.access.change(me, request.session_id)
        return self._session(await self._engine.close_session(request.session_id, by=me.name))

    def _session(self, record: SessionRecord) -> sessions_pb2.Session:
        return wire.session(record, self._engine.sessions.owner_of(record))
