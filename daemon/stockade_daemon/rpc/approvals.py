"""stockade.v1.Approvals."""

from collections.abc import AsyncIterator
from contextlib import aclosing
from typing import Any

from stockade.v1 import approvals_pb2, approvals_pb2_grpc
from stockade_daemon.errors import RequestError
from stockade_daemon.pipeline.identity import check_call_id
from stockade_daemon.policy.access import may_answer_some
from stockade_daemon.policy.approvals import Approvals, check_answers
from stockade_daemon.rpc import wire
from stockade_daemon.rpc.access import Access
from stockade_daemon.rpc.heartbeats import beating, pulse_of
from stockade_daemon.rpc.methods import streaming, unary
from stockade_daemon.values import Principal


class ApprovalsService(approvals_pb2_grpc.ApprovalsServicer):
    def __init__(self, access: Access, approvals: Approvals) -> None:
        self.access = access
        self._approvals = approvals

    @streaming
    async def Watch(
        self, request: approvals_pb2.WatchAsksRequest, context: Any, me: Principal
    ) -> AsyncIterator[approvals_pb2.Ask]:
        if request.session_id:
            check_answers(me, await self.access.see(me, request.session_id))
        elif not may_answer_some(me):
            raise RequestError(
                "PERMISSION_DENIED",
                f"{me.name} may answer nobody's asks; have the admin give it the role approver in stockade.toml, or "
                "answer_own_asks",
            )
        with self._approvals.watching(request.session_id, me, changes=request.changes) as watcher:
            # Tells the client that from here on it counts as an approver.
            await context.send_initial_metadata(())
            async with aclosing(beating(watcher.news(), pulse_of(request.heartbeat_s))) as news:
                async for told in news:
                    yield approvals_pb2.Ask(heartbeat=True) if told is None else wire.told(told)

    @unary
    async def Decide(
        self, request: approvals_pb2.DecideRequest, context: Any, me: Principal
    ) -> approvals_pb2.DecideResponse:
        check_call_id(request.decision_id, "decision_id")
        answer = await self._approvals.decide(
            request.ask_id,
            request.shown_hash,
            allow=request.allow,
            reason=request.reason,
            decision_id=request.decision_id,
            by=me,
        )
        return approvals_pb2.DecideResponse(
            ask_id=answer.ask_id, allow=answer.allow, reason=answer.reason, decided_ms=answer.decided_ms
        )

    @unary
    async def Claim(
        self, request: approvals_pb2.ClaimRequest, context: Any, me: Principal
    ) -> approvals_pb2.ClaimResponse:
        check_call_id(request.claim_id, "claim_id")
        if not request.lease_s >= 0:  # a NaN as well
            raise RequestError("INVALID_ARGUMENT", "lease_s is no number of seconds; 0 ends the claim")
        return wire.claims(
            self._approvals.claim(request.ask_id, request.claim_id, request.name, request.lease_s, by=me)
        )
