"""Asks: pending questions, who watches them, and the one answer each gets.

An ask outlives the daemon: it is recorded before anybody sees it, and how it ended before anybody hears of it. The next
daemon takes up what had not ended, and knows of every answer that was given. One end for each ask: whoever would end it
(an answer, its time, a stop) waits for the one before, and finds that it has ended.
"""

import asyncio
import hashlib
import time
import uuid
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any, Final, Protocol

from stockade_daemon import json_text
from stockade_daemon.errors import RequestError
from stockade_daemon.policy import outcomes
from stockade_daemon.policy.access import may_answer, may_see
from stockade_daemon.policy.asks import Answer, Ask, Claim, Watcher
from stockade_daemon.policy.claims import Claims
from stockade_daemon.policy.outcomes import Outcome
from stockade_daemon.policy.pending import Parked, Pending, Standing, unchanged
from stockade_daemon.values import ITSELF, Json, Principal, Session

_LONGEST_REASON: Final = 2000  # characters


class Decided(Protocol):
    """A recorded decision: records.Decision."""

    @property
    def session_principal(self) -> str: ...
    @property
    def body(self) -> Mapping[str, Json]: ...
    @property
    def principal(self) -> str: ...
    @property
    def time_ms(self) -> int: ...


class Store(Protocol):
    """What is asked of the ledger; what is awaited is durable when it returns."""

    async def ask(
        self, session_id: str, call_id: str, body: Mapping[str, Json], *, staged: bytes | None = None
    ) -> object: ...

    async def append(
        self, session_id: str, type: str, call_id: str, body: Mapping[str, Json], *, by: str | None = None
    ) -> object: ...

    async def decision(self, ask_id: str) -> Decided | None: ...


class Approvals:
    """The queue of asks."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._pending: dict[str, Pending] = {}
        self._parked: set[str] = set()  # ids of asks that the next daemon goes on with
        self._deciding: set[asyncio.Task[Answer]] = set()
        self._watchers: list[Watcher] = []
        self._claims = Claims(self._claim_changed)

    def waiting_for(self, session_id: str, call_id: str) -> str:
        """The id of the ask that a call waits for, or an empty text."""
        for pending in self._pending.values():
            if (pending.ask.session_id, pending.ask.call_id) == (session_id, call_id):
                return pending.ask.ask_id
        return ""

    @contextmanager
    def watching(self, session_id: str, by: Principal = ITSELF, *, changes: bool = False) -> Iterator[Watcher]:
        """Attaches an approver; asks that wait already, and that it may answer, are told first."""
        watcher = Watcher(session_id, by, changes=changes)
        self._watchers.append(watcher)
        for pending in self._pending.values():
            if watcher.sees(pending.ask):
                watcher.tell(pending.ask, self._claims.shown(pending.ask.ask_id))
        watcher.told_all()
        try:
            yield watcher
        finally:
            self._watchers.remove(watcher)
            self._approver_left()

    async def ask(
        self,
        session: Session,
        call_id: str,
        tool: str,
        card: Mapping[str, Json],
        cancelled: asyncio.Event,
        *,
        staged: bytes | None = None,
        standing: Standing = unchanged,
    ) -> None:
        """Returns when somebody has said yes to exactly this card, and that is recorded.

        staged: what a yes commits, kept until the call has its result; None: the ask is about arguments. standing: says
        before a yes is taken why what was shown is no longer so; empty where it is.

        Raises PolicyRefusal (APPROVAL_REJECTED, APPROVAL_UNAVAILABLE, APPROVAL_EXPIRED, APPROVAL_MISMATCH), Aborted,
        Parked (the daemon ends, and the next one goes on).
        """
        now, wait_s = _now_ms(), session.profile.approval.wait_s
        expires_ms = now + int(wait_s * 1000) if wait_s else 0
        text = json_text.dump({**card, "expires_ms": expires_ms})
        ask = Ask(
            ask_id=uuid.uuid4().hex,
            session_id=session.session_id,
            call_id=call_id,
            tool=tool,
            card=text,
            shown_hash=hashlib.sha256(text).hexdigest(),
            asked_ms=now,
            expires_ms=expires_ms,
            asked_by=session.principal,
        )
        body: dict[str, Json] = {
            "ask_id": ask.ask_id,
            "shown_hash": ask.shown_hash,
            "expires_ms": ask.expires_ms,
            "at": "arguments" if staged is None else "effects",
            "wait_s": wait_s,
            "card": {**card, "expires_ms": expires_ms},
        }
        # Durable before anybody sees it.
        await self._store.ask(session.session_id, call_id, body, staged=staged)
        await self._wait(Pending(ask, wait_s, standing), session, cancelled)

    async def resume(
        self, ask: Ask, wait_s: float, session: Session, cancelled: asyncio.Event, *, standing: Standing
    ) -> None:
        """Goes on with an ask that an earlier daemon recorded, as `ask` does. Where that one recorded how it ended,
        this is what it comes to now."""
        decided = await self._store.decision(ask.ask_id)
        if decided is not None:
            outcomes.recorded(decided.body).check()
            return
        await self._wait(Pending(ask, wait_s, standing), session, cancelled, again=True)

    async def _wait(self, pending: Pending, session: Session, cancelled: asyncio.Event, *, again: bool = False) -> None:
        ask = pending.ask
        self._pending[ask.ask_id] = pending
        try:
            try:
                if session.approval_policy == "never":
                    await self._end(pending, outcomes.NEVER)
                elif cancelled.is_set():
                    await self._end(pending, outcomes.NOT_ASKED)
                else:
                    reason = await pending.standing() if again else ""
                    if reason:
                        await self._end(pending, outcomes.changed(reason))
                    else:
                        await self._outcome(pending, cancelled)
            except asyncio.CancelledError:
                await asyncio.shield(self._end(pending, outcomes.WITHDRAWN))
                raise
        finally:
            self._pending.pop(ask.ask_id, None)
            self._claims.forget(ask.ask_id)
            if pending.parked:
                self._parked.add(ask.ask_id)
            else:
                end = pending.end()
                for watcher in self._watchers:
                    watcher.ended(ask, end)
        pending.ended.result().check()

    async def _outcome(self, pending: Pending, cancelled: asyncio.Event) -> None:
        """Returns when it has ended."""
        for watcher in self._watchers:
            if watcher.sees(pending.ask):
                watcher.tell(pending.ask, self._claims.shown(pending.ask.ask_id))
        pending.shown = True
        self._approver_left()
        left_s = max(0.0, (pending.ask.expires_ms - _now_ms()) / 1000) if pending.ask.expires_ms else None
        withdrawal = asyncio.create_task(cancelled.wait())
        waited: set[asyncio.Future[Any]] = {pending.ended, withdrawal}
        try:
            await asyncio.wait(waited, timeout=left_s, return_when=asyncio.FIRST_COMPLETED)
        finally:
            withdrawal.cancel()
        if not pending.ended.done():
            await self._end(pending, outcomes.WITHDRAWN if cancelled.is_set() else outcomes.expired(pending.wait_s))

    async def _end(self, pending: Pending, outcome: Outcome, *, decision_id: str = "", said: str = "") -> None:
        """Records how it ended, unless it has ended. Raises what the ledger raises; the ask has then ended too."""
        async with pending.lock:
            if pending.ended.done():
                return
            ask = pending.ask
            body: dict[str, Json] = {
                "ask_id": ask.ask_id,
                "outcome": outcome.code or "allowed",
                "reason": outcome.reason,
                "decision_id": decision_id,
                "said": said,
            }
            try:
                await self._store.append(
                    ask.session_id, "approval/decided", ask.call_id, body, by=outcome.by or ITSELF.name
                )
            except BaseException as error:
                # What is not recorded is no answer: the call ends by what the ledger said.
                pending.ended.set_exception(error)
                raise
            pending.ended.set_result(outcome)

    def park(self, session_id: str, call_id: str) -> bool:
        """Ends the waiting for an ask that the next daemon goes on with: whether there was one. Nothing is recorded."""
        for pending in self._pending.values():
            ask = pending.ask
            if (ask.session_id, ask.call_id) == (session_id, call_id) and ask.expires_ms and not pending.lock.locked():
                if not pending.ended.done():
                    pending.ended.set_exception(Parked())
                return True
        return False

    async def decide(
        self, ask_id: str, shown_hash: str, *, allow: bool, reason: str, decision_id: str, by: Principal = ITSELF
    ) -> Answer:
        """Answers an ask, once; the answer is recorded when this returns. Raises RequestError: NOT_FOUND (also what
        `by` may not see), PERMISSION_DENIED (it may not answer), FAILED_PRECONDITION (decided, another card, or no
        longer what was shown)."""
        # Shielded: what has begun to be recorded is an answer, whether or not the request is dropped meanwhile.
        answer = Answer(ask_id, allow, reason[:_LONGEST_REASON], decision_id, _now_ms(), by.name)
        deciding = asyncio.create_task(self._decide(answer, shown_hash, by))
        self._deciding.add(deciding)
        deciding.add_done_callback(self._deciding.discard)
        return await asyncio.shield(deciding)

    async def _decide(self, answer: Answer, shown_hash: str, by: Principal) -> Answer:
        pending = self._pending.get(answer.ask_id)
        if answer.ask_id in self._parked or (pending is not None and pending.parked):
            raise _stopping()
        if pending is None or pending.ended.done():
            return await self._earlier(answer, by)
        _check(by, pending.ask.asked_by, answer.ask_id)
        if shown_hash != pending.ask.shown_hash:
            raise RequestError(
                "FAILED_PRECONDITION",
                "this answer is for another card than the one that is asked about; look at it again",
                code="APPROVAL_MISMATCH",
            )
        reason = await pending.standing() if answer.allow else ""
        if reason:
            await self._end(pending, outcomes.changed(reason))
        elif answer.allow:
            await self._end(pending, outcomes.allowed(by.name), decision_id=answer.decision_id, said=answer.reason)
        else:
            await self._end(
                pending, outcomes.rejected(answer.reason, by.name), decision_id=answer.decision_id, said=answer.reason
            )
        if pending.parked:
            raise _stopping()
        if (failure := pending.ended.exception()) is not None:
            raise failure
        if pending.ended.result().code == "APPROVAL_MISMATCH":
            raise RequestError("FAILED_PRECONDITION", pending.ended.result().reason, code="APPROVAL_MISMATCH")
        return await self._earlier(answer, by)

    async def _earlier(self, answer: Answer, by: Principal) -> Answer:
        """The recorded answer where it is this one, given once more or just now."""
        decided = await self._store.decision(answer.ask_id)
        if decided is None:
            raise _no_ask(answer.ask_id)
        _check(by, decided.session_principal, answer.ask_id)
        outcome, decision_id = decided.body["outcome"], decided.body["decision_id"]
        if outcome == "APPROVAL_MISMATCH":
            raise RequestError("FAILED_PRECONDITION", str(decided.body["reason"]), code="APPROVAL_MISMATCH")
        if not decision_id:
            raise _no_ask(answer.ask_id)
        same = (decision_id, decided.principal) == (answer.decision_id, by.name)  # ids are for each to choose
        if same and (outcome == "allowed") == answer.allow:
            return Answer(
                answer.ask_id, answer.allow, str(decided.body["said"]), answer.decision_id, decided.time_ms,
                decided.principal,
            )  # fmt: skip
        raise RequestError(
            "FAILED_PRECONDITION",
            "somebody else has answered already; nothing is to be done",
            code="APPROVAL_DECIDED",
        )

    def claim(
        self, ask_id: str, claim_id: str, name: str, seconds: float, *, by: Principal = ITSELF
    ) -> tuple[Claim, ...]:
        """Shows for so long that somebody looks at an ask; 0 ends that. All its claims as they are now.

        Raises RequestError: NOT_FOUND (also what `by` may not see), PERMISSION_DENIED, INVALID_ARGUMENT.
        """
        if ask_id not in self._pending:
            raise _no_ask(ask_id)
        _check(by, self._pending[ask_id].ask.asked_by, ask_id)
        if seconds > 0:
            self._claims.claim(ask_id, claim_id, name, by.name, seconds)
        else:
            self._claims.end(ask_id, claim_id, by.name)
        return self._claims.shown(ask_id)

    def close(self) -> None:
        """Ends every watcher's stream: the daemon stops."""
        for watcher in self._watchers:
            watcher.close()

    def _claim_changed(self, ask_id: str) -> None:
        pending = self._pending.get(ask_id)
        if pending is not None:
            for watcher in self._watchers:
                if watcher.sees(pending.ask):
                    watcher.tell(pending.ask, self._claims.shown(ask_id))

    def _approver_left(self) -> None:
        """Without a wait, an ask does not outlive the last approver who could see it."""
        for pending in list(self._pending.values()):
            unattended = not any(watcher.sees(pending.ask) for watcher in self._watchers)
            if pending.shown and not pending.ask.expires_ms and unattended:
                pending.start(self._end(pending, outcomes.UNAVAILABLE))


def check_answers(principal: Principal, owner: str) -> None:
    """Raises RequestError PERMISSION_DENIED where it may not answer what is asked about the owner's sessions."""
    if may_answer(principal, owner):
        return
    raise RequestError(
        "PERMISSION_DENIED",
        f"{principal.name} may not answer what is asked about "
        + ("its own sessions" if principal.name == owner else f"sessions of {owner}")
        + "; have somebody else with the role approver answer, or the admin change answer_own_asks or approves in "
        "stockade.toml",
    )


def _check(principal: Principal, owner: str, ask_id: str) -> None:
    if not may_see(principal, owner):
        raise _no_ask(ask_id)
    check_answers(principal, owner)


def _no_ask(ask_id: str) -> RequestError:
    return RequestError("NOT_FOUND", f"there is no ask {ask_id[:128]}; it has its answer, was withdrawn, or never was")


def _now_ms() -> int:
    return time.time_ns() // 1_000_000


def _stopping() -> RequestError:
    return RequestError("UNAVAILABLE", "the daemon is stopping; the ask waits for the next one: answer again")
