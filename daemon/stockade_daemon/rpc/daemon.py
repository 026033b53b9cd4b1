"""stockade.v1.Daemon."""

import asyncio
import importlib.metadata
import os
from typing import Any, Final

from stockade.v1 import daemon_pb2, daemon_pb2_grpc
from stockade_daemon import json_text
from stockade_daemon.errors import SandboxFailure
from stockade_daemon.pipeline.arguments import MAX_ARGUMENTS
from stockade_daemon.pipeline.doctor import examine
from stockade_daemon.pipeline.rules import Rules
from stockade_daemon.policy.access import may_answer
from stockade_daemon.profiles import read as profiles
from stockade_daemon.rpc import wire
from stockade_daemon.rpc.access import Access
from stockade_daemon.rpc.methods import unary
from stockade_daemon.rpc.turns import Turns
from stockade_daemon.sandbox.pool import Pool
from stockade_daemon.values import Layer, Principal

# The optional abilities of every daemon.
_FEATURES: Final = (
    "heartbeats",
    "arguments-left-out",
    "ask-changes",
    "output-both",
    "jobs",
    "workspace-copies",
    "session-leases",
)


def version() -> str:
    """The distribution's version; "unknown" where it is run from a source tree that is not installed."""
    try:
        return importlib.metadata.version("stockade")
    except importlib.metadata.PackageNotFoundError:
        return "unknown"


class DaemonService(daemon_pb2_grpc.DaemonServicer):
    def __init__(self, access: Access, pool: Pool, rules: Rules, turns: Turns) -> None:
        """`turns`: of examinations."""
        self.access = access
        self._pool = pool
        self._turns = turns
        self._rules = rules
        self._layers: tuple[Layer, ...] | None = None
        # One probe for all who ask at once.
        self._probing = asyncio.Lock()

    @unary
    async def GetInfo(
        self, request: daemon_pb2.GetInfoRequest, context: Any, me: Principal
    ) -> daemon_pb2.GetInfoResponse:
        host = os.uname()
        return daemon_pb2.GetInfoResponse(
            version=version(),
            protocol="stockade.v1",
            features=[*_FEATURES, *(["profile-files"] if self._rules.private else [])],
            limits=daemon_pb2.Limits(
                message_bytes=wire.MESSAGE_BYTES,
                arguments_bytes=MAX_ARGUMENTS,
                inline_value_bytes=wire.INLINE_VALUE_BYTES,
                arguments_depth=json_text.MAX_DEPTH,
            ),
            layers=wire.layers(await self._held()),
            uid=os.geteuid(),
            kernel=host.release,
            machine=host.machine,
            profiles=await asyncio.to_thread(profiles.available, self._rules.profile_directories),
            private=self._rules.private,
            caller=daemon_pb2.Caller(
                name=me.name,
                roles=sorted(me.roles),
                answers_own_asks=may_answer(me, me.name),
                approves=sorted(me.approves),
            ),
        )

    @unary
    async def Doctor(self, request: daemon_pb2.DoctorRequest, context: Any, me: Principal) -> daemon_pb2.DoctorResponse:
        async with self._turns.turn():
            found = await examine(self._pool, self._rules)
        return daemon_pb2.DoctorResponse(
            able=found.able,
            findings=[wire.finding(each) for each in found.findings],
            profiles=[wire.profile_finding(each) for each in found.profiles],
        )

    async def _held(self) -> tuple[Layer, ...]:
        """Shown once by making a worker; where the host gives none, one layer says why."""
        if self._layers is not None:
            return self._layers  # whoever connects asks, and must not wait for what others have examined
        async with self._probing:
            if self._layers is None:
                strict = await asyncio.to_thread(profiles.load, "strict", directories=[profiles.shipped()])
                try:
                    self._layers = await self._pool.probe(strict)
                except SandboxFailure as failure:
                    return (Layer("sandbox", False, failure.message),)
            return self._layers
