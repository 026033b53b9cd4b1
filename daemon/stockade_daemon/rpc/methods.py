"""What all methods do before and after their own work: who is calling, may he, and errors of ours as statuses."""

import functools
import time
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable
from contextlib import aclosing
from typing import Any, Final, Protocol, TypeVar, cast

from stockade_daemon.rpc import wire
from stockade_daemon.rpc.access import Access
from stockade_daemon.values import Principal

_LOOK_S: Final = 1.0  # what ends somebody's admission ends his streams within this, at their next message


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
            me, looked = _admitted(self, context, name), time.monotonic()
            answers = cast(AsyncGenerator[R, None], method(self, request, context, me))
            async with aclosing(answers):
                async for answer in answers:
                    # A stream may go on for weeks; what let its caller in may have ended.
                    if time.monotonic() - looked >= _LOOK_S:
                        self.access.callers.still(context, me)
                        looked = time.monotonic()
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
