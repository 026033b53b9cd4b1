"""stockade.v1.Approvals."""

from collections.abc import AsyncIterator
from contextlib import aclosing
from typing import Any

from stockade.v1 import approvals_pb2, approvals_pb2_grpc
from stockade_daemon.errors import RequestError
from stockade_daemon.pipeline.identity import check_call_id
from stockade_daemon.policy.approvals import Approvals
from stockade_daemon.rpc import wire
from stockade_daemon.rpc.heartbeats import beating, pulse_of


class ApprovalsService(approvals_pb2_grpc.ApprovalsServicer):
    def __init__(self, approvals: Approvals) -> None:
        self._approvals = approvals

    @wire.streaming
    async def Watch(self, request: approvals_pb2.WatchAsksRequest, context: Any) -> AsyncIterator[approvals_pb2.Ask]:
        with self._approvals.watching(request.session_id, changes=request.changes) as watcher:
            # Tells the client that from here on it counts as an approver.
            await context.send_initial_metadata(())
            async with aclosing(beating(watcher.news(), pulse_of(request.heartbeat_s))) as news:
                async for told in news:
                    yield approvals_pb2.Ask(heartbeat=True) if told is None else wire.told(told)

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

    @wire.unary
    async def Claim(self, request: approvals_pb2.ClaimRequest, context: Any) -> approvals_pb2.ClaimResponse:
        check_call_id(request.claim_id, "claim_id")
        if not request.lease_s >= 0:  # a NaN as well
            raise RequestError("INVALID_ARGUMENT", "lease_s is no number of seconds; 0 ends the claim")
        shown = self._approvals.claim(request.ask_id, request.claim_id, request.name, request.lease_s)
        if shown is None:
            return approvals_pb2.ClaimResponse()
        return approvals_pb2.ClaimResponse(claimed_ms=shown.since_ms, claimed_by=shown.by, claimed_name=shown.name)
