"""Answers to asks, as a case gives them."""

import asyncio
import re
from collections.abc import Awaitable, Callable
from contextlib import AsyncExitStack, suppress
from typing import Any, Final

from stockade.v1 import approvals_pb2
from stockade_client import Ask, Call, CallResult, Daemon, StockadeError, connect
from stockade_client.link import Link, Stream
from tests.conformance.cases.verdicts import Fails, Missing

_ANSWERS: Final = {"approve": True, "approve, remember": True, "deny": False}
_RACING: Final = re.compile(r"client A approves and client B denies at the same moment, (\d+) repeats")
_RESENDING: Final = re.compile(
    r"approve, then resend the same approval message (\d+) times from the same and from another session"
)
_WITHIN_S: Final = 60.0  # a hang detector


def known(words: str) -> bool:
    """Whether an answer can be given as the case says it."""
    return (
        words in _ANSWERS or words == "nobody answers" or repeats(words) > 1 or _RESENDING.fullmatch(words) is not None
    )


def repeats(words: str) -> int:
    """How often a call is made and answered as the words say."""
    racing = _RACING.fullmatch(words)
    return int(racing[1]) if racing else 1


class Answering:
    """The approver of one session; it attaches itself when it is first needed, since asks expire where nobody is."""

    def __init__(self, connection: Daemon, session_id: str, owned: AsyncExitStack) -> None:
        self._connection, self._session_id, self._owned = connection, session_id, owned
        self._asks: Stream[Ask] | None = None
        self._coming: asyncio.Future[Ask] | None = None
        self._other: Daemon | None = None  # a second client's connection
        self.told = ("", "")  # what a yes and a no were told that were given at once
        self.again: tuple[str, ...] = ()  # what each yes was told that was sent after the call had run
        self.late = ""  # what a yes was told that came after the end of an ask; empty: it was taken, or none came

    async def attach(self) -> None:
        """Has to be called before the call that asks is made."""
        if self._asks is None:
            self._asks = await self._owned.enter_async_context(self._connection.approvals(self._session_id))
            self._owned.push_async_callback(self._close)

    async def answer(
        self, call: Call, words: str | None, meanwhile: Callable[[], Awaitable[None]] | None
    ) -> tuple[list[dict[str, Any]], bool]:
        """Waits for the call's ask, or its end without one; gives the cards, and whether it is still pending.

        `meanwhile` runs between ask and answer. Raises Missing for an answer that is not known.
        """
        if words is not None and not known(words):
            raise Missing(f"a way to answer {words[:80]!r}")
        if self._asks is None:
            return [], False
        ask = await self._ask_for(call)
        if ask is None:
            return [], False
        if words == "nobody answers":
            await call.result()
            try:
                await ask.decide(True, "too late")
            except StockadeError as error:
                self.late = type(error).__name__
            return [ask.card], False
        if meanwhile is not None:
            await meanwhile()
        if words is None:
            return [ask.card], True
        if repeats(words) > 1:
            self.told = await self._both(ask)
            return [ask.card], False
        if resending := _RESENDING.fullmatch(words):
            await ask.decide(True, "the case says so")
            await call.result()
            self.again = await self._resend(ask, int(resending[1]))
            return [ask.card], False
        with suppress(StockadeError):  # decided or withdrawn already: the call's result says what came of it
            await ask.decide(_ANSWERS[words], "the case says so")
        return [ask.card], False

    async def _resend(self, ask: Ask, times: int) -> tuple[str, ...]:
        """The yes as often as that from this connection, and from one on which another session is open."""
        other = await self._owned.enter_async_context(connect(self._connection._link.address))
        told = []
        for number in range(times):
            for link in (self._connection._link, other._link):
                request = approvals_pb2.DecideRequest(
                    ask_id=ask.ask_id, shown_hash=ask.shown_hash, allow=True, decision_id=f"again-{number}-{id(link)}"
                )
                try:
                    await link.ask(link.approvals.Decide, request, "answer again")
                    told.append("taken")
                except StockadeError as error:
                    told.append(type(error).__name__)
        return tuple(told)

    async def _both(self, ask: Ask) -> tuple[str, str]:
        """A yes and a no at once, over two connections: `taken`, or the error that each met."""
        if self._other is None:
            self._other = await self._owned.enter_async_context(connect(self._connection._link.address))

        async def answer(link: Link, allow: bool) -> str:
            request = approvals_pb2.DecideRequest(
                ask_id=ask.ask_id, shown_hash=ask.shown_hash, allow=allow, decision_id=f"decision-{allow}"
            )
            try:
                await link.ask(link.approvals.Decide, request, "answer at once")
            except StockadeError as error:
                return type(error).__name__
            return "taken"

        yes, no = await asyncio.gather(answer(self._connection._link, True), answer(self._other._link, False))
        return yes, no

    async def _ask_for(self, call: Call) -> Ask | None:
        """Asks of earlier calls that were left pending come first; they are nobody's any more."""
        assert self._asks is not None
        settled = asyncio.ensure_future(call.result())
        try:
            async with asyncio.timeout(_WITHIN_S):
                while True:
                    if self._coming is None:
                        self._coming = asyncio.ensure_future(anext(self._asks))
                    waited: list[asyncio.Future[Any]] = [self._coming, settled]
                    await asyncio.wait(waited, return_when=asyncio.FIRST_COMPLETED)
                    if not self._coming.done():
                        return None
                    ask, self._coming = self._coming.result(), None
                    if ask.call == call.call_id:
                        return ask
        except TimeoutError:
            raise Fails(f"{call.tool} was neither asked about nor over after {_WITHIN_S:g} s") from None
        finally:
            settled.cancel()
            await asyncio.wait([settled])

    async def _close(self) -> None:
        if self._coming is not None:
            self._coming.cancel()
            await asyncio.wait([self._coming])


async def left_pending(call: Call) -> CallResult:
    """The result of a call that is withdrawn unanswered."""
    result = await call.withdraw()
    if result is None:
        raise Fails(f"{call.tool} was withdrawn and has no result")
    return result
