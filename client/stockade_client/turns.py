"""The calls of one turn, begun together: the daemon keeps their order and lets those overlap that may."""

import asyncio
from collections.abc import Sequence
from typing import Final

from stockade.v1 import calls_pb2
from stockade_client import ids
from stockade_client.calls import LAST_TRY_S, UNKNOWN_PAUSE_S, WAIT_S, WITHDRAW_S, Call, leave_out
from stockade_client.errors import NotFound, StockadeError
from stockade_client.link import Link
from stockade_client.results import CallResult

MOST_CALLS: Final = 128  # of one turn; the daemon refuses more


class Turn:
    """One turn of a session; `calls` are handles on its calls, in its order."""

    def __init__(
        self, link: Link, session_id: str, calls: Sequence[tuple[Call, bytes]], *, turn_id: str | None = None
    ) -> None:
        self._link = link
        self._session_id = session_id
        self.turn_id = ids.new("turn") if turn_id is None else turn_id
        self.calls = [call for call, _ in calls]
        self._request = calls_pb2.StartTurnRequest(
            session_id=session_id,
            turn_id=self.turn_id,
            calls=[calls_pb2.TurnCall(call_id=call.call_id, tool=call.tool, arguments=text) for call, text in calls],
            wait_s=WAIT_S,
        )
        for each in self._request.calls:
            leave_out(each, link)
        self._asking: asyncio.Future[calls_pb2.Turn] | None = None

    async def results(self) -> list[CallResult]:
        """Runs the turn and returns its results in the order of its calls.

        Cancelled meanwhile, it takes the turn back, waits until every call of it has a result, and then lets the
        cancellation go on. Raises RequestRefused where the turn could not be taken, NoAnswer when the daemon stays
        away.
        """
        try:
            while any(call.settled is None for call in self.calls):
                # Repeating it is waiting on: also at a daemon that was started again meanwhile.
                self._asking = asyncio.ensure_future(
                    self._link.ask(self._link.calls.StartTurn, self._request, self._asked_to("run"), wait_s=WAIT_S)
                )
                # Shielded: a request that is cut off in the middle may or may not have been taken.
                await self._take(await asyncio.shield(self._asking))
        except asyncio.CancelledError:
            await asyncio.shield(asyncio.ensure_future(self._withdraw()))
            raise
        return [await call.result() for call in self.calls]

    async def _take(self, message: calls_pb2.Turn) -> None:
        for call, state in zip(self.calls, message.calls, strict=True):
            if state.state == calls_pb2.CALL_STATE_SETTLED and not state.HasField("result"):
                await call.result()  # left out, because the message would have been too large
            else:
                await call.take(state)

    async def _withdraw(self) -> None:
        """Cancels the turn; a daemon that does not answer is no new error on top of the one that is under way."""
        request = calls_pb2.CancelTurnRequest(session_id=self._session_id, turn_id=self.turn_id)
        asking = self._asking
        try:
            async with asyncio.timeout(LAST_TRY_S if self._link.gone else WITHDRAW_S):
                while True:
                    try:
                        await self._link.ask(
                            self._link.calls.CancelTurn, request, self._asked_to("cancel"), wait_s=WITHDRAW_S,
                            patient=not self._link.gone,
                        )  # fmt: skip
                        return
                    except NotFound:
                        # It is over; or the cancellation has overtaken the request that starts it.
                        if asking is None or asking.done():
                            return
                        await asyncio.wait([asking], timeout=UNKNOWN_PAUSE_S)
        except (TimeoutError, StockadeError):
            pass
        finally:
            if asking is not None:
                asking.cancel()
                await asyncio.wait([asking])
                if not asking.cancelled():
                    asking.exception()  # taken note of

    def _asked_to(self, verb: str) -> str:
        return f"{verb} a turn of {len(self.calls)} calls (turn {self.turn_id} of session {self._session_id})"
