"""A daemon of another version: a real one, behind a server that speaks less than it, or otherwise.

What is not changed passes as the bytes that it was, so that results, events and refusals are a real daemon's.
"""

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, TypeAlias

import grpc
from grpc import aio

# Given the bytes of a message, gives those that pass.
Change: TypeAlias = Callable[[bytes], bytes]

_STREAMS = frozenset({"Events/Read", "Calls/ReadOutput", "Approvals/Watch"})


class AnotherVersion(grpc.GenericRpcHandler):
    """`lacks`: methods that it does not know, as Service/Method, or all of a Service. `asked` and `answers`: changes of
    requests and of answers, by method."""

    def __init__(
        self,
        channel: aio.Channel,
        lacks: frozenset[str],
        asked: dict[str, Change],
        answers: dict[str, Change],
    ) -> None:
        self._channel = channel
        self._lacks = lacks
        self._asked = asked
        self._answers = answers

    def service(self, handler_call_details: Any) -> Any:
        path: str = handler_call_details.method
        method = path.removeprefix("/stockade.v1.")
        if method in self._lacks or method.partition("/")[0] in self._lacks:
            return None  # grpc answers UNIMPLEMENTED
        asked, answer = (changes.get(method, bytes) for changes in (self._asked, self._answers))

        async def unary(request: bytes, context: Any) -> bytes:
            call: Any = self._channel.unary_unary(path)
            try:
                return answer(await call(asked(request), timeout=context.time_remaining()))
            except aio.AioRpcError as error:
                await context.abort(error.code(), error.details() or "", error.trailing_metadata() or ())
                raise

        async def stream(request: bytes, context: Any) -> AsyncIterator[bytes]:
            opened: Any = self._channel.unary_stream(path)
            reading = opened(asked(request))
            await context.send_initial_metadata(await reading.initial_metadata())
            async for message in reading:
                yield answer(message)

        if method in _STREAMS:
            return grpc.unary_stream_rpc_method_handler(stream)
        return grpc.unary_unary_rpc_method_handler(unary)


@asynccontextmanager
async def another_version(
    daemon: str,
    socket: Path,
    *,
    lacks: frozenset[str] = frozenset(),
    asked: dict[str, Change] | None = None,
    answers: dict[str, Change] | None = None,
) -> AsyncIterator[str]:
    """The address of a daemon that is the one at `daemon`, and differs."""
    options = [("grpc.use_local_subchannel_pool", 1)]
    async with aio.insecure_channel(daemon, options=options) as channel:
        server = aio.server()
        server.add_generic_rpc_handlers((AnotherVersion(channel, lacks, asked or {}, answers or {}),))
        server.add_insecure_port(f"unix:{socket}")
        await server.start()
        try:
            yield f"unix:{socket}"
        finally:
            await server.stop(None)
