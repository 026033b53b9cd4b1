"""Reading a session's events from the ledger, resuming where a broken stream stopped."""

from collections.abc import AsyncGenerator
from contextlib import aclosing

from stockade.v1 import events_pb2
from stockade_client import wire
from stockade_client.following import HEARTBEAT_S, messages
from stockade_client.link import Link, Stream
from stockade_client.values import Event


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
    def stream(used: Link) -> object:
        request = events_pb2.ReadEventsRequest(
            session_id=session_id, after=after, follow=follow, call_id=call_id, heartbeat_s=beat_s
        )
        return used.events.Read(request, metadata=used.metadata)

    what = f"read the events of session {session_id}"
    async with aclosing(messages(link, stream, events_pb2.Event, beat_s=beat_s, what=what)) as read:
        async for message in read:
            after = message.seq
            if not message.heartbeat:
                yield wire.event_of(message)
