"""stockade.v1.Events."""

from collections.abc import AsyncIterator
from contextlib import aclosing
from typing import Any

from stockade.v1 import events_pb2, events_pb2_grpc
from stockade_daemon.ledger.ledger import Ledger
from stockade_daemon.rpc import wire
from stockade_daemon.rpc.access import Access
from stockade_daemon.rpc.heartbeats import pulse_of
from stockade_daemon.rpc.methods import streaming
from stockade_daemon.values import Principal


class EventsService(events_pb2_grpc.EventsServicer):
    def __init__(self, access: Access, ledger: Ledger) -> None:
        self.access = access
        self._ledger = ledger

    @streaming
    async def Read(
        self, request: events_pb2.ReadEventsRequest, context: Any, me: Principal
    ) -> AsyncIterator[events_pb2.Event]:
        session_id, after, call_id = request.session_id, min(request.after, wire.LARGEST), request.call_id or None
        await self.access.see(me, session_id)
        if request.follow:
            pulse_s = pulse_of(request.heartbeat_s)
            following = self._ledger.follow_pages(session_id, after=after, call_id=call_id, pulse_s=pulse_s)
            async with aclosing(following) as pages:
                async for page in pages:
                    # Each waits until grpc has taken the one before: a reader that stalls costs a page, and what grpc
                    # and the kernel hold.
                    for event in page.events:
                        yield wire.event(event)
                        after = event.seq
                    if not page.events:
                        yield events_pb2.Event(session_id=session_id, seq=after, heartbeat=True)
            return
        while True:
            page = await self._ledger.page(session_id, after=after, call_id=call_id)
            for event in page.events:
                yield wire.event(event)
                after = event.seq
            if page.complete:
                return
