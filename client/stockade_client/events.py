"""Reading a session's events from the ledger, resuming where a broken stream stopped."""

from collections.abc import AsyncGenerator

from grpc import aio

from stockade.v1 import events_pb2
from stockade_client import wire
from stockade_client.link import Link, Stream, is_away
from stockade_client.values import Event


def read(link: Link, session_id: str, *, after: int = 0, follow: bool = False, call_id: str = "") -> Stream[Event]:
    """Events with sequence numbers greater than `after`, oldest first; with `follow`, until the session
    closes.

    Iterating raises NotFound for an unknown session, NoAnswer when the daemon stays away.
    """
    return Stream(_events(link, session_id, after, follow, call_id))


async def _events(link: Link, session_id: str, after: int, follow: bool, call_id: str) -> AsyncGenerator[Event, None]:
    patience = link.patience()
    while True:
        request = events_pb2.ReadEventsRequest(session_id=session_id, after=after, follow=follow, call_id=call_id)
        stream = link.events.Read(request, metadata=link.metadata)
        try:
            async for message in stream:
                patience.renew()
                after = message.seq
                yield wire.event_of(message)
            return
        except aio.AioRpcError as error:
            if not is_away(error) or not await patience.pause():
                raise wire.error_of(error, f"read the events of session {session_id}") from error
        finally:
            stream.cancel()
