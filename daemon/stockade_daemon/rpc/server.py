"""The gRPC server on its Unix socket: one daemon for each socket, a stale one replaced, a live one refused."""

import fcntl
import os
import stat
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
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
from stockade_daemon.pipeline.context import Services
from stockade_daemon.pipeline.engine import Engine
from stockade_daemon.pipeline.rules import Rules
from stockade_daemon.rpc.access import Access
from stockade_daemon.rpc.approvals import ApprovalsService
from stockade_daemon.rpc.callers import Callers
from stockade_daemon.rpc.calls import CallsService
from stockade_daemon.rpc.catalog import CatalogService
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
)


@contextmanager
def socket_of_our_own(socket: Path) -> Iterator[None]:
    """Holds the socket's lock, so that one daemon at most serves it; removes the socket at the end.

    Raises ConfigurationError: another daemon serves it, or its directory is open to others.
    """
    directory = socket.parent
    try:
        directory.mkdir(mode=0o700, parents=True, exist_ok=True)
        found = directory.stat()
    except OSError as error:
        raise ConfigurationError(
            f"{directory}: cannot be the socket's directory: {error.strerror}; choose another one with --socket"
        ) from error
    if found.st_uid != os.geteuid() or stat.S_IMODE(found.st_mode) & 0o077:
        raise ConfigurationError(
            f"{directory}: the socket's directory must belong to uid {os.geteuid()} alone; it has owner "
            f"{found.st_uid} and mode {stat.S_IMODE(found.st_mode):04o}; use another directory, or: "
            f"chmod 0700 {directory}"
        )
    lock = _locked(socket)
    try:
        # We have the lock, so whoever made a socket that is still here has ended.
        _remove(socket)
        try:
            yield
        finally:
            _remove(socket)
            _remove(Path(f"{socket}.lock"))
    finally:
        os.close(lock)


def _locked(socket: Path) -> int:
    """A descriptor that holds the lock of `socket`, flock(2) on a file beside it."""
    path = f"{socket}.lock"
    while True:
        try:
            lock = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
        except OSError as error:
            raise ConfigurationError(
                f"{path}: cannot be opened: {error.strerror}; choose another socket with --socket"
            ) from error
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            pid = os.pread(lock, 32, 0).decode("ascii", "replace").strip() or "unknown"
            os.close(lock)
            raise ConfigurationError(
                f"{socket}: another daemon (pid {pid}) serves this socket; use it, stop it, or choose another "
                "with --socket"
            ) from None
        if _stands(path, lock):
            os.ftruncate(lock, 0)
            os.pwrite(lock, f"{os.getpid()}\n".encode(), 0)
            return lock
        # The daemon before us removed the file when it ended, after we had opened it: ours is a lock of no name.
        os.close(lock)


def _stands(path: str, descriptor: int) -> bool:
    try:
        return os.path.samestat(os.lstat(path), os.fstat(descriptor))
    except FileNotFoundError:
        return False


def _remove(path: Path) -> None:
    try:
        found = path.lstat()
    except FileNotFoundError:
        return
    if not (stat.S_ISSOCK(found.st_mode) or stat.S_ISREG(found.st_mode)):
        raise ConfigurationError(f"{path}: is no socket of ours; move it away or choose another --socket")
    path.unlink()


@asynccontextmanager
async def serving(
    socket: Path, services: Services, engine: Engine, rules: Rules, callers: Callers
) -> AsyncIterator[str]:
    """Serves every service on `socket` (mode 0600) while the block runs; gives the address.

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
    address = f"unix:{socket}"
    # The directory is 0700; the mask keeps the socket itself closed from its first moment.
    mask = os.umask(0o177)
    try:
        server.add_insecure_port(address)
    except RuntimeError as error:
        raise ConfigurationError(
            f"{socket}: cannot listen here ({error}); choose another path with --socket"
        ) from error
    finally:
        os.umask(mask)
    await server.start()
    for name in ["", *names]:
        await health.set(name, health_pb2.HealthCheckResponse.SERVING)
    try:
        yield address
    finally:
        await health.enter_graceful_shutdown()
        services.approvals.close()
        await server.stop(grace=1.0)
