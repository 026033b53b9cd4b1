"""What an ask is, what becomes of it, and who hears of that."""

import asyncio
from collections.abc import AsyncGenerator
from contextlib import aclosing
from dataclasses import dataclass
from typing import Literal, TypeAlias

from stockade_daemon.policy.access import may_answer
from stockade_daemon.values import Principal

How: TypeAlias = Literal["allowed", "rejected", "withdrawn", "expired", "unavailable", "changed"]


@dataclass(frozen=True, slots=True)
class Ask:
    """A question as it is shown. `shown_hash` binds an answer to exactly these bytes."""

    ask_id: str
    session_id: str
    call_id: str
    tool: str
    card: bytes  # JSON object, JSON text
    shown_hash: str  # SHA-256, lower-case hex, of `card`
    asked_ms: int
    expires_ms: int  # 0: does not expire while its approver stays
    asked_by: str  # the principal whose session it is


@dataclass(frozen=True, slots=True)
class Answer:
    ask_id: str
    allow: bool
    reason: str
    decision_id: str
    decided_ms: int
    by: str = ""  # the principal who answered; empty: nobody
    asked_by: str = ""  # the principal whose session it was about


@dataclass(frozen=True, slots=True)
class Claim:
    """That somebody looks at an ask. A hint: it locks nothing."""

    claim_id: str  # the claimer's choice; only together with the principal is it one claim's
    name: str  # the claimer's own word
    by: str  # the principal; empty: not known
    since_ms: int


@dataclass(frozen=True, slots=True)
class End:
    """How an ask ended."""

    how: How
    reason: str
    at_ms: int
    by: str = ""  # the principal who answered; empty: nobody, or not known


@dataclass(frozen=True, slots=True)
class Told:
    """What a watcher hears: an ask, a change of who looks at it, its end; without an ask, that these were all."""

    ask: Ask | None
    claims: tuple[Claim, ...] = ()  # oldest first
    end: End | None = None


class Watcher:
    """An attached approver: the asks of one session, or of all whose asks it may answer. With `changes`, also what
    becomes of them."""

    def __init__(self, session_id: str, by: Principal, *, changes: bool = False) -> None:
        self.session_id = session_id
        self._by = by
        self._changes = changes
        # Not taken yet, by the ask's id and oldest first: no more than there are asks that wait, or were taken.
        self._waiting: dict[str, Told] = {}
        self._taken: set[str] = set()
        self._closed = False
        self._changed = asyncio.Event()

    def sees(self, ask: Ask) -> bool:
        return self.session_id in ("", ask.session_id) and may_answer(self._by, ask.asked_by)

    def tell(self, ask: Ask, claims: tuple[Claim, ...] = ()) -> None:
        """Of an ask, or of a change of its claims. It is told once, however often they change before it is taken."""
        if self._changes or ask.ask_id not in self._taken:
            self._put(ask.ask_id, Told(ask, claims))

    def told_all(self) -> None:
        """What waits has been told."""
        if self._changes:
            self._put("", Told(None))

    def ended(self, ask: Ask, end: End) -> None:
        """It needs no answer any more. Who has not taken it never hears of it."""
        self._waiting.pop(ask.ask_id, None)
        if ask.ask_id in self._taken:
            self._taken.discard(ask.ask_id)
            if self._changes:
                self._put(ask.ask_id, Told(ask, end=end))

    def close(self) -> None:
        self._closed = True
        self._changed.set()

    async def asks(self) -> AsyncGenerator[Ask, None]:
        """Asks as they come; ends when the daemon does."""
        async with aclosing(self.news()) as news:
            async for told in news:
                if told.ask is not None and told.end is None:
                    yield told.ask

    async def news(self) -> AsyncGenerator[Told, None]:
        """All that is told; ends when the daemon does."""
        while True:
            while self._waiting:
                ask_id = next(iter(self._waiting))
                told = self._waiting.pop(ask_id)
                if told.ask is not None and told.end is None:
                    self._taken.add(ask_id)
                yield told
            if self._closed:
                return
            self._changed.clear()
            await self._changed.wait()

    def _put(self, ask_id: str, told: Told) -> None:
        self._waiting[ask_id] = told
        self._changed.set()
