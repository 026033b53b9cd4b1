"""Asks and answers: what a person is shown, and the one answer bound to exactly that.

The hash that goes back with an answer is computed here, from the bytes of the card that was really received.
If it is not what the daemon asked about, the daemon refuses the answer and the ask stays open.
"""

import asyncio
import contextlib
import hashlib
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack, aclosing, asynccontextmanager
from dataclasses import dataclass
from typing import TypeAlias

from stockade.v1 import approvals_pb2
from stockade_client import ids, wire
from stockade_client.errors import NotFound, NotPossible, StockadeError
from stockade_client.following import HEARTBEAT_S, messages
from stockade_client.link import Link, Stream
from stockade_client.results import Json


@dataclass(frozen=True, slots=True)
class Answer:
    """A decision as the daemon recorded it."""

    allow: bool
    reason: str
    decided_ms: int  # milliseconds since 1970, UTC


class Ask:
    """A call that waits for somebody's yes or no.

    `card` is what a person is shown: title, tool, session, profile, reason, and either the arguments or a
    difference.
    """

    def __init__(self, link: Link, message: approvals_pb2.Ask, *, anew: bool = False) -> None:
        self._link = link
        self._anew = anew  # the link's connection is dead, as far as anybody knows: the answer gets one of its own
        self.ask_id: str = message.ask_id
        self.session_id: str = message.session_id
        self.call: str = message.call_id
        self.tool: str = message.tool
        self.card: dict[str, Json] = wire.card_of(message)
        self.shown_hash: str = hashlib.sha256(message.card).hexdigest()
        self.asked_ms: int = message.asked_ms
        self.principal: str = message.principal  # whose session it is
        self.expires_ms: int = message.expires_ms  # 0: does not expire while its approver stays
        self.answer: Answer | None = None  # what was answered through this object
        self._decision_id = ids.new("decision")

    def __repr__(self) -> str:
        return f"<Ask {self.ask_id} {self.tool} {self.shown_hash[:8]}>"

    async def decide(self, allow: bool, reason: str = "") -> Answer:
        """Answers. `reason` is shown to the agent when refused.

        Raises AskAlreadyDecided when somebody was faster, AskChanged when this card is no longer what is asked,
        NotFound when the call was withdrawn. Repeating the same answer is safe and returns the recorded one.
        """
        request = approvals_pb2.DecideRequest(
            ask_id=self.ask_id,
            shown_hash=self.shown_hash,
            allow=allow,
            reason=reason,
            decision_id=self._decision_id,
        )
        async with AsyncExitStack() as connections:
            link = await connections.enter_async_context(self._link.again()) if self._anew else self._link
            response = await link.ask(link.approvals.Decide, request, f"answer the ask for {self.tool}")
        self.answer = Answer(response.allow, response.reason, response.decided_ms)
        return self.answer


# Given each ask. True and False are the answer; None means that it called `decide` itself.
Approve: TypeAlias = Callable[[Ask], Awaitable[bool | None]]


@asynccontextmanager
async def watching(link: Link, session_id: str = "", *, heartbeat_s: float = HEARTBEAT_S) -> AsyncIterator[Stream[Ask]]:
    """Asks that wait, then new ones as they come. While this is open, the caller counts as an approver.

    heartbeat_s: as of events.read.
    """
    attached = asyncio.get_running_loop().create_future()
    beat_s = heartbeat_s if link.heartbeats else 0.0
    async with Stream(_asks(link, session_id, attached, beat_s)) as asks:
        first = asyncio.ensure_future(anext(asks))
        try:
            # The daemon sends its headers once the approver is registered: before that a call that asks would
            # find nobody.
            await asyncio.wait([attached, first], return_when=asyncio.FIRST_COMPLETED)
            if first.done() and not attached.done():
                first.result()
            async with Stream(_rejoined(first, asks)) as rejoined:
                yield rejoined
        finally:
            first.cancel()
            with contextlib.suppress(asyncio.CancelledError, StopAsyncIteration, StockadeError):
                await first


async def _rejoined(first: asyncio.Future[Ask], rest: Stream[Ask]) -> AsyncGenerator[Ask, None]:
    try:
        yield await first
    except StopAsyncIteration:
        return
    async for ask in rest:
        yield ask


async def _asks(
    link: Link, session_id: str, attached: asyncio.Future[None], beat_s: float
) -> AsyncGenerator[Ask, None]:
    request = approvals_pb2.WatchAsksRequest(session_id=session_id, heartbeat_s=beat_s)
    seen: set[str] = set()  # a stream that is opened again begins with all that still wait
    over = link

    def stream(used: Link) -> object:
        nonlocal over
        over = used
        return used.approvals.Watch(request, metadata=link.metadata)

    def begun() -> None:
        if not attached.done():
            attached.set_result(None)

    reading = messages(link, stream, approvals_pb2.Ask, beat_s=beat_s, what="watch for asks", begun=begun)
    async with aclosing(reading) as read:
        async for message in read:
            if not message.heartbeat and message.ask_id not in seen:
                seen.add(message.ask_id)
                yield Ask(link, message, anew=over is not link)


@asynccontextmanager
async def answering(link: Link, session_id: str, approve: Approve) -> AsyncIterator[None]:
    """Gives each ask of a session to `approve`, for as long as the block runs.

    An approver that raises, or returns without an answer, has refused: silence is never a yes.
    """
    async with watching(link, session_id) as asks:
        task = asyncio.ensure_future(_answer_all(asks, approve))
        try:
            yield
        except BaseException:
            task.cancel()
            await asyncio.wait([task])
            raise
        # Whatever stopped the approver while the block went well is the block's failure.
        if not task.done():
            task.cancel()
            await asyncio.wait([task])
        if not task.cancelled():
            task.result()


async def _answer_all(asks: Stream[Ask], approve: Approve) -> None:
    try:
        async with asyncio.TaskGroup() as group:
            async for ask in asks:
                group.create_task(_answer(ask, approve))
    except ExceptionGroup as failed:
        raise failed.exceptions[0] from failed  # a session's user expects the client's errors, and no group of them


async def _answer(ask: Ask, approve: Approve) -> None:
    try:
        answer = await approve(ask)
        reason = "" if answer else "the approver said no"
        if answer is None:
            if ask.answer is not None:
                return
            answer, reason = False, "the approver gave no answer"
    except (NotPossible, NotFound):
        return  # somebody else was faster, or the call was withdrawn
    except Exception as error:
        answer, reason = False, f"the approver failed: {error or type(error).__name__}"
    with contextlib.suppress(NotPossible, NotFound):
        await ask.decide(answer, reason)
