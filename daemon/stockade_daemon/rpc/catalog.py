"""stockade.v1.Catalog."""

import os
from typing import Any

from stockade.v1 import catalog_pb2, catalog_pb2_grpc
from stockade_daemon import meanings
from stockade_daemon.errors import CODES, OF_TOOLS, ConfigurationError, Refusal, RequestError
from stockade_daemon.ledger.versions import version_of
from stockade_daemon.pipeline.describe import Describing
from stockade_daemon.pipeline.sessions import Sessions
from stockade_daemon.registry import sources
from stockade_daemon.registry.generations import Generations
from stockade_daemon.rpc import wire
from stockade_daemon.rpc.access import Access
from stockade_daemon.rpc.methods import unary
from stockade_daemon.rpc.turns import Turns
from stockade_daemon.values import Principal

_LONGEST_NAME = 255


class CatalogService(catalog_pb2_grpc.CatalogServicer):
    def __init__(
        self, access: Access, tools: Generations, describing: Describing, sessions: Sessions, turns: Turns
    ) -> None:
        self.access = access
        self._tools = tools
        self._describing = describing
        self._sessions = sessions
        self._turns = turns  # of files that are checked

    @unary
    async def ListTools(
        self, request: catalog_pb2.ListToolsRequest, context: Any, me: Principal
    ) -> catalog_pb2.ListToolsResponse:
        only: tuple[str, ...] = ()
        if request.session_id:
            await self.access.see(me, request.session_id)
            only = (await self._sessions.record(request.session_id)).tools
        return catalog_pb2.ListToolsResponse(
            tools=[wire.tool(each) for each in self._tools.current.catalog() if not only or each.name in only],
            generation=self._tools.number,
            refused=[
                catalog_pb2.RefusedTools(reason=each.reason, kept=each.kept)
                for each in self._tools.refused
                if not only or set(only) & set(each.kept)
            ],
        )

    @unary
    async def CheckTool(
        self, request: catalog_pb2.CheckToolRequest, context: Any, me: Principal
    ) -> catalog_pb2.CheckToolResponse:
        name = request.name
        if "/" in name or not 0 < len(name) <= _LONGEST_NAME:
            raise RequestError(
                "INVALID_ARGUMENT",
                f"{name[:_LONGEST_NAME]!r} is no file's name: give the last part of its path, at most {_LONGEST_NAME} "
                "characters",
            )
        if len(request.text) > sources.MAX_BYTES:
            raise RequestError("RESOURCE_EXHAUSTED", f"{name} has more than {sources.MAX_BYTES} bytes; shorten it")
        try:
            if reason := sources.misnamed(name):
                raise ConfigurationError(f"{name}:1: {reason}")
            for place in request.places:
                owned = os.stat_result((place.mode, 0, 0, 0, place.uid, 0, 0, 0, 0, 0))
                sources.insist(name, place.path, owned)
            async with self._turns.turn():
                found = await self._describing.file(request.text, origin=name, name=name, built_in=self._tools.names())
        except ConfigurationError as error:
            return catalog_pb2.CheckToolResponse(fault=str(error))
        except Refusal as refusal:
            raise RequestError("FAILED_PRECONDITION", refusal.message, code=refusal.code) from refusal
        return catalog_pb2.CheckToolResponse(tools=[wire.tool(each) for each in found])

    @unary
    async def GetReference(
        self, request: catalog_pb2.GetReferenceRequest, context: Any, me: Principal
    ) -> catalog_pb2.GetReferenceResponse:
        found = [await self._sessions.profiles.current(name) for name in await self._sessions.profiles.names()]
        return catalog_pb2.GetReferenceResponse(
            profiles=[
                catalog_pb2.ProfileMeaning(
                    name=each.name,
                    description=each.profile.description if each.profile else "",
                    fault="" if each.profile else str(each.fault),
                )
                for each in found
                if not isinstance(each.fault, RequestError)
            ],
            errors=[
                catalog_pb2.ErrorMeaning(
                    code=code, domain=domain, retry=retry, meaning=meanings.OF_CODES[code], of_tools=code in OF_TOOLS
                )
                for code, (domain, retry) in CODES.items()
            ],
            events=[
                catalog_pb2.EventMeaning(type=type, meaning=meaning, version=version_of(type))
                for type, meaning in meanings.OF_EVENTS.items()
            ],
        )
