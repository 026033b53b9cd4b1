"""The gRPC server on its Unix socket."""

import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, nullcontext
from dataclasses import replace
from pathlib import Path

import grpc
from grpc_health.v1 import health_pb2, health_pb2_grpc
from grpc_health.v1._async import HealthServicer
from grpc_reflection.v1alpha import reflection

from stockade.v1 import (
    approvals_pb2,
    approvals_pb2_grpc,
    calls_pb2,
    calls_pb2_grpc,
    catalog_pb2,
    catalog_pb2_grpc,
    daemon_pb2,
    daemon_pb2_grpc,
    events_pb2,
    events_pb2_grpc,
    profiles_pb2,
    profiles_pb2_grpc,
    sessions_pb2,
    sessions_pb2_grpc,
)
from stockade_daemon.errors import ConfigurationError
from stockade_daemon.listening import Address, Listening
from stockade_daemon.pipeline.context import Services
from stockade_daemon.pipeline.engine import Engine
from stockade_daemon.pipeline.rules import Rules
from stockade_daemon.principals import broker
from stockade_daemon.rpc.access import Access
from stockade_daemon.rpc.approvals import ApprovalsService
from stockade_daemon.rpc.broker import Broker
from stockade_daemon.rpc.callers import Callers
from stockade_daemon.rpc.calls import CallsService
from stockade_daemon.rpc.catalog import CatalogService
from stockade_daemon.rpc.certificates import Certificates
from stockade_daemon.rpc.daemon import DaemonService
from stockade_daemon.rpc.events import EventsService
from stockade_daemon.rpc.profiles import ProfilesService
from stockade_daemon.rpc.sessions import SessionsService
from stockade_daemon.rpc.turns import Turns
from stockade_daemon.rpc.wire import MESSAGE_BYTES

FILES = (approvals_pb2, calls_pb2, catalog_pb2, daemon_pb2, events_pb2, profiles_pb2, sessions_pb2)
_OPTIONS = (
    ("grpc.max_receive_message_length", MESSAGE_BYTES),
    ("grpc.max_send_message_length", MESSAGE_BYTES),
    ("grpc.so_reuseport", 0),
    # Clients may ask whether the connection is alive while a request of theirs waits, as often as once a second; grpc
    # would have those that ask more often than every five minutes thrown out.
    ("grpc.http2.min_ping_interval_without_data_ms", 1000),
)


@asynccontextmanager
async def serving(
    socket: Path,
    services: Services,
    engine: Engine,
    rules: Rules,
    callers: Callers,
    listening: Listening | None = None,
) -> AsyncIterator[list[str]]:
    """Serves every service on `socket`, and where `listening` says, while the block runs; gives the addresses. The
    socket's mode is 0600, or 0666 where several users share it. Raises ConfigurationError.

    The caller holds the socket's lock. At the end, streams are told to end and requests under way get a moment.
    """
    server = grpc.aio.server(options=_OPTIONS)
    named = engine.sessions.profiles
    access = Access(callers, engine.sessions)
    daemon_pb2_grpc.add_DaemonServicer_to_server(DaemonService(access, services.pool, rules, Turns()), server)
    turns = Turns()
    catalog = CatalogService(access, services.tools, services.describing, engine.sessions, turns)
    catalog_pb2_grpc.add_CatalogServicer_to_server(catalog, server)
    profiles = ProfilesService(access, rules, named, services.pool, services.outputs, turns)
    profiles_pb2_grpc.add_ProfilesServicer_to_server(profiles, server)
    sessions_pb2_grpc.add_SessionsServicer_to_server(SessionsService(access, engine, services.ledger), server)
    calls_pb2_grpc.add_CallsServicer_to_server(CallsService(access, engine, services.ledger), server)
    events_pb2_grpc.add_EventsServicer_to_server(EventsService(access, services.ledger), server)
    approvals_pb2_grpc.add_ApprovalsServicer_to_server(ApprovalsService(access, services.approvals), server)
    health = HealthServicer()
    health_pb2_grpc.add_HealthServicer_to_server(health, server)
    names = [service.full_name for file in FILES for service in file.DESCRIPTOR.services_by_name.values()]
    health_name = health_pb2.DESCRIPTOR.services_by_name["Health"].full_name
    reflection.enable_server_reflection([*names, health_name, reflection.SERVICE_NAME], server)
    # Before anything listens: what is wrong with them ends the start.
    certificates = Certificates(listening.tls) if listening is not None and listening.tls is not None else None
    callers.certificates = certificates
    addresses = [f"unix:{socket}"]
    # The directory is 0700; the mask keeps the socket itself closed from its first moment.
    mask = os.umask(0o111 if callers.shared else 0o177)
    try:
        server.add_insecure_port(addresses[0])
    except RuntimeError as error:
        raise ConfigurationError(
            f"{socket}: cannot listen here ({error}); choose another path with --socket"
        ) from error
    finally:
        os.umask(mask)
    if listening is not None:
        addresses.append(_listen(server, listening.address, certificates))
    with Broker.serving(callers.local, broker(socket)) if callers.shared else nullcontext() as callers.broker:
        await server.start()
        for name in ["", *names]:
            await health.set(name, health_pb2.HealthCheckResponse.SERVING)
        try:
            yield addresses
        finally:
            await health.enter_graceful_shutdown()
            services.approvals.close()
            await server.stop(grace=1.0)


def _listen(server: grpc.aio.Server, place: Address, certificates: Certificates | None) -> str:
    """The address, with the port that it really has. Raises ConfigurationError."""
    try:
        if certificates is None:
            port = server.add_insecure_port(str(place))
        else:
            port = server.add_secure_port(str(place), certificates.credentials())
    except RuntimeError as error:
        raise ConfigurationError(
            f"{place}: cannot listen here ({error}); choose another address with --listen"
        ) from error
    return f"{'tcp' if certificates is None else 'tls'}:{replace(place, port=port)}"
