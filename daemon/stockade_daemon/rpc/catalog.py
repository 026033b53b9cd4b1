"""stockade.v1.Catalog."""

from typing import Any

from stockade.v1 import catalog_pb2, catalog_pb2_grpc
from stockade_daemon.registry.registry import Registry
from stockade_daemon.rpc import wire


class CatalogService(catalog_pb2_grpc.CatalogServicer):
    def __init__(self, registry: Registry) -> None:
        self._registry = registry

    @wire.unary
    async def ListTools(self, request: catalog_pb2.ListToolsRequest, context: Any) -> catalog_pb2.ListToolsResponse:
        return catalog_pb2.ListToolsResponse(tools=[wire.tool(each) for each in self._registry.catalog()])
