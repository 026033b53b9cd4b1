"""Reading a stream of the daemon's to its end, over connections that break or fall silent.

A stream that follows may be silent for hours because nothing happens, or because the connection is dead and nobody has
said so. The daemon's heartbeats tell the two apart: where they are missing, the stream is opened again, over a
connection of its own, from where it was.
"""

import asyncio
from collections.abc import AsyncGenerator, Callable
from contextlib import AsyncExitStack
from typing import Any, Final, TypeVar

from grpc import aio

from stockade_client import wire
from stockade_client.errors import NoAnswer
from stockade_client.link import ANSWER_S, Link, is_away

HEARTBEAT_S: Final = 10.0
_MISSED: Final = 3  # times the interval; a busy daemon may be late once

M = TypeVar("M")


async def messages(
    link: Link,
    open_stream: Callable[[Link], Any],
    kind: type[M],
    *,
    beat_s: float,
    what: str,
    afterwards: str = wire.AFTERWARDS,
    begun: Callable[[], None] | None = None,
    endless: bool = False,
) -> AsyncGenerator[M, None]:
    """All messages, heartbeats among them; they are `kind`.

    open_stream: makes the stream over the link that it is given, from where the reader has come to.
    beat_s: what the daemon was asked for. Silence of three times that is a dead connection. 0: wait for ever.
    begun: called whenever the daemon has taken the request, before any message. What finishes "asked to …" is `what`.
    endless: the daemon ends this stream when it stops, and for no other reason: it is opened again.

    Raises NoAnswer when the daemon stays away, and what the daemon answered instead of messages.
    """
    patience = link.patience()
    async with AsyncExitStack() as connections:
        used = link
        renewed = False
        while True:
            await used.authorize()
            with link.used(what):
                stream = open_stream(used)
            # There is something to say at once: messages, or the first heartbeat.
            within_s = ANSWER_S if beat_s else None
            try:
                if begun is not None:
                    async with asyncio.timeout(within_s):
                        with link.used(what):
                            await stream.initial_metadata()
                    if not stream.done():
                        begun()
                while True:
                    async with asyncio.timeout(within_s):
                        with link.used(what):
                            message = await stream.read()
                    if not isinstance(message, kind):  # it is aio.EOF
                        if not endless:
                            return
                        patience.begin_quietly()
                        if not await patience.pause():
                            raise NoAnswer(f"the daemon has stopped, asked to {what}; {afterwards}")
                        break
                    patience.renew()
                    renewed = False
                    within_s = _MISSED * beat_s if beat_s else None
                    yield message
            except TimeoutError:
                # Other requests may still be waiting on the connection that died: it stays for them to give up.
                if not await patience.pause(spent_s=within_s or 0.0):
                    raise NoAnswer(f"the daemon fell silent, asked to {what}; {afterwards}") from None
                await connections.aclose()
                used = await connections.enter_async_context(link.again())
            except aio.AioRpcError as error:
                if not renewed and used.unknown(error):
                    renewed = True
                    continue
                if not is_away(error) or not await patience.pause():
                    raise wire.error_of(error, what, afterwards, version=link.version) from error
            finally:
                stream.cancel()
