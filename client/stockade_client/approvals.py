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
from typing import Final, TypeAlias

from stockade.v1 import approvals_pb2
from stockade_client import ids, wire
from stockade_client.errors import NoAnswer, NotFound, NotPossible, StockadeError
from stockade_client.following import HEARTBEAT_S, messages
from stockade_client.link import Link, Stream
from stockade_client.results import Json

_LEASE_S: Final = 30.0  # of a claim; it is renewed three times as often
_RELEASE_S: Final = 1.0  # what the end of a claim may take; it ends by itself as well


@dataclass(frozen=True, slots=True)
class Answer:
    """A decision as the daemon recorded it."""

    allow: bool
    reason: str
    decided_ms: int  # milliseconds since 1970, UTC


@dataclass(frozen=True, slots=True)
class Claim:
    """That somebody looks at an ask."""

    claim_id: str  # empty: the daemon does not say
    name: str  # what the claimer calls itself
    by: str  # the principal, in the daemon's word; empty: not known
    since_ms: int  # milliseconds since 1970, UTC


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
        self.expires_ms: int = message.expires_ms  # 0: does not expire while its approver stays
        self.asked_by: str = message.asked_by  # the principal whose session it is; empty: not known
        self.answer: Answer | None = None  # what was answered through this object
        self._decision_id = ids.new("decision")
        self.claim_id = ids.new("claim")  # of a claim that is made through this object
        self._unclaimed = asyncio.Event()  # the daemon has told of the ask without that claim
        self.update(message)

    def update(self, message: approvals_pb2.Ask) -> None:
        """Takes over what has become of it."""
        # All who look at it, this client as well, longest first.
        self.claims: tuple[Claim, ...] = tuple(
            Claim(each.claim_id, each.name, each.by, each.since_ms) for each in message.claims
        )
        if message.claimed_ms and not self.claims:  # a daemon that knows of the first alone
            self.claims = (Claim("", message.claimed_name, message.claimed_by, message.claimed_ms),)
        if {self.claim_id, ""}.isdisjoint(each.claim_id for each in self.claims):
            self._unclaimed.set()
        # The first of them: since when (0: nobody does), the principal in the daemon's word (empty: not known), and
        # what the claimer calls itself.
        self.claimed_ms: int = message.claimed_ms
        self.claimed_by: str = message.claimed_by
        self.claimed_name: str = message.claimed_name
        # How it ended: empty while it waits; allowed, rejected, withdrawn, expired, unavailable, changed; gone, where
        # it ended unseen while the daemon could not be reached.
        self.ended: str = wire.end_of(message.ended)
        self.ended_ms: int = message.ended_ms
        self.ended_by: str = message.ended_by  # the principal who answered; empty: nobody, or not known
        self.ended_reason: str = message.ended_reason

    def __repr__(self) -> str:
        return f"<Ask {self.ask_id} {self.tool} {self.shown_hash[:8]}>"

    async def decide(self, allow: bool, reason: str = "") -> Answer:
        """Answers. `reason` is shown to the agent when refused.

        Raises AskAlreadyDecided when somebody was faster, AskChanged when this card is no longer what is asked,
        NotFound when the call was withdrawn, Misused after the block of `connect`. Repeating the same answer is safe
        and returns the recorded one.
        """
        request = approvals_pb2.DecideRequest(
            ask_id=self.ask_id,
            shown_hash=self.shown_hash,
            allow=allow,
            reason=reason,
            decision_id=self._decision_id,
        )
        what = f"answer the ask for {self.tool}"
        async with AsyncExitStack() as connections:
            connections.enter_context(self._link.used(what))
            link = await connections.enter_async_context(self._link.again()) if self._anew else self._link
            response = await link.ask(link.approvals.Decide, request, what)
        self.answer = Answer(response.allow, response.reason, response.decided_ms)
        return self.answer

    @asynccontextmanager
    async def claim(self, name: str = "") -> AsyncIterator[None]:
        """Shows other approvers that somebody looks at this ask, for as long as the block runs.

        A hint: it locks nothing, and where it cannot be given nothing is raised. `name`: how the claimer is to be
        shown, one line of at most 80 characters.
        """
        claiming = asyncio.ensure_future(self._claim_on(name))
        try:
            yield
        finally:
            claiming.cancel()
            await asyncio.wait([claiming])
            with contextlib.suppress(StockadeError, TimeoutError):
                async with asyncio.timeout(_RELEASE_S):
                    await self._claim(name, 0.0)

    async def _claim_on(self, name: str) -> None:
        while not self.ended:
            self._unclaimed.clear()
            try:
                await self._claim(name, _LEASE_S)
            except (NoAnswer, NotFound):
                pass  # the daemon is away, or there again and has not taken the ask up yet
            except StockadeError:
                return
            with contextlib.suppress(TimeoutError):
                # Claims end with their daemon: the next one tells of the ask without any.
                async with asyncio.timeout(_LEASE_S / 3):
                    await self._unclaimed.wait()

    async def _claim(self, name: str, seconds: float) -> None:
        request = approvals_pb2.ClaimRequest(ask_id=self.ask_id, claim_id=self.claim_id, name=name, lease_s=seconds)
        await self._link.ask(self._link.approvals.Claim, request, "show who looks at an ask", patient=seconds > 0)


# Given each ask. True and False are the answer; None means that it called `decide` itself.
Approve: TypeAlias = Callable[[Ask], Awaitable[bool | None]]


@asynccontextmanager
async def watching(
    link: Link,
    session_id: str = "",
    *,
    changes: bool = False,
    heartbeat_s: float = HEARTBEAT_S,
    caught_up: Callable[[], None] | None = None,
) -> AsyncIterator[Stream[Ask]]:
    """Asks that wait, then new ones as they come. While this is open, the caller counts as an approver.

    changes: an ask comes again, as the same object, whenever who looks at it changes, and once more when it has
    `ended`; not from a daemon without the feature "ask-changes". heartbeat_s: as of events.read. caught_up: called when
    all that waited at the beginning has been given, and again after each reconnection; with that feature alone.
    """
    attached = asyncio.get_running_loop().create_future()
    beat_s = heartbeat_s if link.heartbeats else 0.0
    request = approvals_pb2.WatchAsksRequest(session_id=session_id, heartbeat_s=beat_s, changes=changes)
    async with Stream(_asks(link, request, attached, caught_up)) as asks:
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
    link: Link,
    request: approvals_pb2.WatchAsksRequest,
    attached: asyncio.Future[None],
    caught_up: Callable[[], None] | None,
) -> AsyncGenerator[Ask, None]:
    known: dict[str, Ask] = {}
    again: set[str] = set()  # a stream that is opened again begins with all that still wait
    over = link

    def stream(used: Link) -> object:
        nonlocal over
        over = used
        return used.approvals.Watch(request, metadata=used.metadata)

    def begun() -> None:
        again.clear()
        if not attached.done():
            attached.set_result(None)

    reading = messages(
        link,
        stream,
        approvals_pb2.Ask,
        beat_s=request.heartbeat_s,
        what="watch for asks",
        begun=begun,
        endless=True,
    )
    async with aclosing(reading) as read:
        async for message in read:
            if message.heartbeat:
                continue
            if message.all_sent:
                for gone in [ask for ask_id, ask in known.items() if ask_id not in again]:
                    gone.ended = "gone"
                    del known[gone.ask_id]
                    yield gone
                if caught_up is not None:
                    caught_up()
                continue
            again.add(message.ask_id)
            ask = known.get(message.ask_id)
            if ask is None:
                ask = known[message.ask_id] = Ask(link, message, anew=over is not link)
                yield ask
            elif request.changes:
                ask.update(message)
                if ask.ended:
                    del known[message.ask_id]
                yield ask


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
        elif answer not in (True, False):
            # A program without types may say "no", which would count as a yes.
            answer, reason = False, f"the approver answered {answer!r}, which is neither True nor False"
    except (NotPossible, NotFound):
        return  # somebody else was faster, or the call was withdrawn
    except Exception as error:
        answer, reason = False, f"the approver failed: {error or type(error).__name__}"
    with contextlib.suppress(NotPossible, NotFound):
        await ask.decide(answer, reason)
