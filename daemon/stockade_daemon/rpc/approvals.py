"""stockade.v1.Approvals."""

from collections.abc import AsyncIterator
from contextlib import aclosing
from typing import Any

from stockade.v1 import approvals_pb2, approvals_pb2_grpc
from stockade_daemon.policy.approvals import Approvals
from stockade_daemon.rpc import wire
from stockade_daemon.rpc.heartbeats import beating, pulse_of


class ApprovalsService(approvals_pb2_grpc.ApprovalsServicer):
    def __init__(self, approvals: Approvals) -> None:
        self._approvals = approvals

    @wire.streaming
    async def Watch(self, request: approvals_pb2.WatchAsksRequest, context: Any) -> AsyncIterator[approvals_pb2.Ask]:
        with self._approvals.watching(request.session_id) as watcher:
            # Tells the client that from here on it counts as an approver.
            await context.send_initial_metadata(())
            async with aclosing(beating(watcher.asks(), pulse_of(request.heartbeat_s))) as asks:
                async for ask in asks:
                    yield approvals_pb2.Ask(heartbeat=True) if ask is None else wire.ask(ask)

    @wire.unary
    async def Decide(self, request: approvals_pb2.DecideRequest, context: Any) -> approvals_pb2.DecideResponse:
        answer = await self._approvals.decide(
            request.ask_id,
            request.shown_hash,
            allow=request.allow,
            reason=request.reason,
            decision_id=request.decision_id,
        )
        return approvals_pb2.DecideResponse(
            ask_id=answer.ask_id, allow=answer.allow, reason=answer.reason, decided_ms=answer.decided_ms
        )
