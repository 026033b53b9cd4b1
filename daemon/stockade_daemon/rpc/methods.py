"""What all methods do before and after their own work: who is calling, may he, and errors of ours as statuses."""

import functools
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any, Protocol, TypeVar

from stockade_daemon.rpc import wire
from stockade_daemon.rpc.access import Access
from stockade_daemon.values import Principal


class Service(Protocol):
    """A servicer of ours."""

    access: Access


S = TypeVar("S", bound=Service)
Q = TypeVar("Q")
R = TypeVar("R")


def unary(method: Callable[[S, Q, Any, Principal], Awaitable[R]]) -> Callable[[S, Q, Any], Awaitable[R]]:
    """Wraps a unary method, which is given the principal; errors of ours become statuses, others INTERNAL and a line in
    the log."""
    name = _name(method)

    @functools.wraps(method)
    async def wrapped(self: S, request: Q, context: Any) -> R:
        try:
            return await method(self, request, context, _admitted(self, context, name))
        except Exception as error:
            await wire.abort(context, error)
            raise

    return wrapped


def streaming(method: Callable[[S, Q, Any, Principal], AsyncIterator[R]]) -> Callable[[S, Q, Any], AsyncIterator[R]]:
    """The same for a method that streams its answers."""
    name = _name(method)

    @functools.wraps(method)
    async def wrapped(self: S, request: Q, context: Any) -> AsyncIterator[R]:
        try:
            async for answer in method(self, request, context, _admitted(self, context, name)):
                yield answer
        except Exception as error:
            await wire.abort(context, error)
            raise

    return wrapped


def _admitted(service: Service, context: Any, name: str) -> Principal:
    principal = service.access.callers.of(context)
    service.access.check_role(principal, name)
    return principal


def _name(method: Callable[..., Any]) -> str:
    """`Calls.Start` of CallsService.Start."""
    service, _, name = method.__qualname__.rpartition(".")
    return f"{service.removesuffix('Service')}.{name}"
