"""Reading a session's events from the ledger, resuming where a broken stream stopped.

A stream that follows may be silent for hours because nothing happens, or because the connection is dead and nobody has
said so. The daemon's heartbeats tell the two apart: where one is missing, the stream is opened again, over a connection
of its own, after the last number that was seen.
"""

import asyncio
from collections.abc import AsyncGenerator
from contextlib import AsyncExitStack
from typing import Final

from grpc import aio

from stockade.v1 import events_pb2
from stockade_client import wire
from stockade_client.errors import NoAnswer
from stockade_client.link import ANSWER_S, Link, Stream, is_away
from stockade_client.values import Event

HEARTBEAT_S: Final = 10.0
_MISSED: Final = 3  # times the interval; a busy daemon may be late once


def read(
    link: Link,
    session_id: str,
    *,
    after: int = 0,
    follow: bool = False,
    call_id: str = "",
    heartbeat_s: float = HEARTBEAT_S,
) -> Stream[Event]:
    """Events with sequence numbers greater than `after`, oldest first; with `follow`, until the session
    closes.

    heartbeat_s: how long a followed daemon may have nothing to say before it says so. Silence of three times that is a
    dead connection, and the stream goes on over a new one. 0: wait for ever.

    Iterating raises NotFound for an unknown session, NoAnswer when the daemon stays away.
    """
    beat_s = heartbeat_s if follow and link.heartbeats else 0.0
    return Stream(_events(link, session_id, after, follow, call_id, beat_s))


async def _events(
    link: Link, session_id: str, after: int, follow: bool, call_id: str, beat_s: float
) -> AsyncGenerator[Event, None]:
    patience = link.patience()
    what = f"read the events of session {session_id}"
    async with AsyncExitStack() as connections:
        used = link
        while True:
            request = events_pb2.ReadEventsRequest(
                session_id=session_id, after=after, follow=follow, call_id=call_id, heartbeat_s=beat_s
            )
            stream = used.events.Read(request, metadata=link.metadata)
            # There is something to say at once: events, or the first heartbeat.
            within_s = ANSWER_S if beat_s else None
            try:
                while True:
                    async with asyncio.timeout(within_s):
                        message = await stream.read()
                    if not isinstance(message, events_pb2.Event):  # it is aio.EOF
                        return
                    patience.renew()
                    within_s = _MISSED * beat_s if beat_s else None
                    after = message.seq
                    if not message.heartbeat:
                        yield wire.event_of(message)
            except TimeoutError:
                # Other requests may still be waiting on the connection that died: it stays for them to give up.
                if not await patience.pause(spent_s=within_s or 0.0):
                    raise NoAnswer(f"the daemon fell silent, asked to {what}; {wire.AFTERWARDS}") from None
                await connections.aclose()
                used = await connections.enter_async_context(link.again())
            except aio.AioRpcError as error:
                if not is_away(error) or not await patience.pause():
                    raise wire.error_of(error, what) from error
            finally:
                stream.cancel()
