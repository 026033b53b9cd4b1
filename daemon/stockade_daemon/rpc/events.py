"""stockade.v1.Events."""

from collections.abc import AsyncIterator
from contextlib import aclosing
from typing import Any

from stockade.v1 import events_pb2, events_pb2_grpc
from stockade_daemon.ledger.ledger import Ledger
from stockade_daemon.rpc import wire


class EventsService(events_pb2_grpc.EventsServicer):
    def __init__(self, ledger: Ledger) -> None:
        self._ledger = ledger

    @wire.streaming
    async def Read(self, request: events_pb2.ReadEventsRequest, context: Any) -> AsyncIterator[events_pb2.Event]:
        session_id, after, call_id = request.session_id, min(request.after, wire.LARGEST), request.call_id or None
        if request.follow:
            async with aclosing(self._ledger.follow(session_id, after=after, call_id=call_id)) as events:
                async for event in events:
                    yield wire.event(event)
            return
        while True:
            page = await self._ledger.page(session_id, after=after, call_id=call_id)
            for event in page.events:
                yield wire.event(event)
                after = event.seq
            if page.complete:
                return
