"""Asks: pending questions, who watches them, and the one answer each gets.

Everything runs on the event loop; there is no await between looking at an ask and closing it, which is what makes an
answer one-shot. Asks live as long as the daemon: one that stops takes them back, and their calls end as aborted; where
one dies, its next start settles them as TOOL_NOT_STARTED, or by what ledger and disk prove.
"""

import asyncio
import hashlib
import time
import uuid
from collections.abc import Awaitable, Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Final, Protocol, TypeAlias

from stockade_daemon import json_text
from stockade_daemon.errors import Aborted, PolicyRefusal, RequestError
from stockade_daemon.policy.access import may_answer, may_see
from stockade_daemon.policy.asks import Answer, Ask, Claim, End, How, Watcher
from stockade_daemon.policy.claims import Claims
from stockade_daemon.values import ITSELF, Json, Principal, Session

Record: TypeAlias = Callable[[str, str, str, Mapping[str, Json]], Awaitable[object]]


class Note(Protocol):
    """Ledger.note."""

    def __call__(
        self, session_id: str, type: str, call_id: str, body: Mapping[str, Json], *, by: str | None = None
    ) -> None: ...


_HOW: Final[Mapping[str, How]] = {
    "": "allowed",
    "APPROVAL_REJECTED": "rejected",
    "APPROVAL_EXPIRED": "expired",
    "APPROVAL_UNAVAILABLE": "unavailable",
}


@dataclass(slots=True)
class _Pending:
    ask: Ask
    answered: asyncio.Future[Answer]


class Approvals:
    """The queue of asks."""

    def __init__(self, *, record: Record, note: Note) -> None:
        self._record = record  # durable when it returns
        self._note = note  # in order, without waiting
        self._pending: dict[str, _Pending] = {}
        self._answers: dict[str, Answer] = {}
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
        self, session: Session, call_id: str, tool: str, card: Mapping[str, Json], cancelled: asyncio.Event
    ) -> None:
        """Returns when somebody has said yes to exactly this card.

        Raises PolicyRefusal (APPROVAL_REJECTED, APPROVAL_UNAVAILABLE, APPROVAL_EXPIRED) or Aborted.
        """
        text = json_text.dump(dict(card))
        now = _now_ms()
        wait_s = session.profile.approval.wait_s
        ask = Ask(
            ask_id=uuid.uuid4().hex,
            session_id=session.session_id,
            call_id=call_id,
            tool=tool,
            card=text,
            shown_hash=hashlib.sha256(text).hexdigest(),
            asked_ms=now,
            expires_ms=now + int(wait_s * 1000) if wait_s else 0,
            asked_by=session.principal,
        )
        pending = _Pending(ask, asyncio.get_running_loop().create_future())
        code, reason, by = "ABORTED_BEFORE_DISPATCH", "the ask was withdrawn; nothing was changed", ""
        shown: dict[str, Json] = {
            "ask_id": ask.ask_id,
            "shown_hash": ask.shown_hash,
            "expires_ms": ask.expires_ms,
            "card": dict(card),
        }
        try:
            # Durable before anybody sees it.
            await self._record(session.session_id, "approval/asked", call_id, shown)
            self._pending[ask.ask_id] = pending
            try:
                code, reason = await self._outcome(pending, session, wait_s, cancelled)
            finally:
                # One decision for each ask, also where the waiting itself was cancelled.
                decided = {"ask_id": ask.ask_id, "outcome": code or "allowed", "reason": reason}
                if pending.answered.done() and not pending.answered.cancelled():
                    by = pending.answered.result().by
                self._note(session.session_id, "approval/decided", call_id, decided, by=by or ITSELF.name)
        finally:
            self._pending.pop(ask.ask_id, None)
            self._claims.forget(ask.ask_id)
            end = End(_HOW.get(code, "withdrawn"), reason, _now_ms(), by)
            for watcher in self._watchers:
                watcher.ended(ask, end)
            if not pending.answered.done():
                pending.answered.cancel()
        if code == "ABORTED_BEFORE_DISPATCH":
            raise Aborted(code, reason)
        if code:
            raise PolicyRefusal(code, reason)

    async def _outcome(
        self, pending: _Pending, session: Session, wait_s: float, cancelled: asyncio.Event
    ) -> tuple[str, str]:
        """A code and a reason; an empty code is a yes."""
        if session.approval_policy == "never":
            self._pending.pop(pending.ask.ask_id, None)  # nobody is to see it
            return "APPROVAL_REJECTED", "this session's policy is never to ask, so what would be asked is rejected"
        if cancelled.is_set():
            return "ABORTED_BEFORE_DISPATCH", "the call was cancelled before anybody was asked; nothing was run"
        for watcher in self._watchers:
            if watcher.sees(pending.ask):
                watcher.tell(pending.ask)
        if not wait_s and not self._attached(pending.ask):
            self._close_unattended(pending)
        withdrawal = asyncio.create_task(cancelled.wait())
        try:
            waited: set[asyncio.Future[Any]] = {pending.answered, withdrawal}
            await asyncio.wait(waited, timeout=wait_s or None, return_when=asyncio.FIRST_COMPLETED)
        finally:
            withdrawal.cancel()
        if pending.answered.done():
            answer = pending.answered.result()
            if answer.allow:
                return "", answer.reason
            if answer.decision_id == "":
                return "APPROVAL_UNAVAILABLE", answer.reason
            said = f": {answer.reason}" if answer.reason else ""
            return "APPROVAL_REJECTED", f"the approver said no{said}. Nothing was changed; ask what they would accept."
        if cancelled.is_set():
            return (
                "ABORTED_BEFORE_DISPATCH",
                "the call was cancelled while it waited for an approval; nothing was changed",
            )
        return "APPROVAL_EXPIRED", f"nobody answered within {wait_s:g} seconds; nothing was changed. Ask again later."

    async def decide(
        self, ask_id: str, shown_hash: str, *, allow: bool, reason: str, decision_id: str, by: Principal = ITSELF
    ) -> Answer:
        """Answers an ask, once. Raises RequestError: NOT_FOUND (also what `by` may not see), PERMISSION_DENIED (it may
        not answer), FAILED_PRECONDITION (decided, or another card)."""
        if not decision_id:
            raise RequestError("INVALID_ARGUMENT", "decision_id is empty; choose one, so that repeating is safe")
        pending = self._pending.get(ask_id)
        earlier = self._answers.get(ask_id)
        if pending is not None:
            _check(by, pending.ask.asked_by, ask_id)
        elif earlier is not None:
            _check(by, earlier.asked_by, ask_id)
        if pending is None or pending.answered.done():
            if earlier is not None and (earlier.decision_id, earlier.allow) == (decision_id, allow):
                return earlier
            if earlier is None and pending is None:
                raise _no_ask(ask_id)
            raise RequestError(
                "FAILED_PRECONDITION",
                "somebody else has answered already; nothing is to be done",
                code="APPROVAL_DECIDED",
            )
        if shown_hash != pending.ask.shown_hash:
            raise RequestError(
                "FAILED_PRECONDITION",
                "this answer is for another card than the one that is asked about; look at it again",
                code="APPROVAL_MISMATCH",
            )
        answer = Answer(ask_id, allow, reason[:2000], decision_id, _now_ms(), by.name, pending.ask.asked_by)
        self._answers[ask_id] = answer
        while len(self._answers) > 10_000:
            self._answers.pop(next(iter(self._answers)))
        pending.answered.set_result(answer)
        return answer

    def claim(self, ask_id: str, claim_id: str, name: str, seconds: float, *, by: Principal = ITSELF) -> Claim | None:
        """Shows for so long that somebody looks at an ask; 0 ends that. The claim that is shown now.

        Raises RequestError: NOT_FOUND (also what `by` may not see), PERMISSION_DENIED, INVALID_ARGUMENT.
        """
        if ask_id not in self._pending:
            raise _no_ask(ask_id)
        _check(by, self._pending[ask_id].ask.asked_by, ask_id)
        if seconds > 0:
            self._claims.claim(ask_id, claim_id, name, by.name, seconds)
        else:
            self._claims.end(ask_id, claim_id)
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

    def _attached(self, ask: Ask) -> bool:
        return any(watcher.sees(ask) for watcher in self._watchers)

    def _approver_left(self) -> None:
        """Without a wait, an ask does not outlive the last approver who could see it."""
        for pending in list(self._pending.values()):
            if not pending.ask.expires_ms and not self._attached(pending.ask):
                self._close_unattended(pending)

    def _close_unattended(self, pending: _Pending) -> None:
        if not pending.answered.done():
            reason = "nobody is there to approve; attach an approver, or set [approval] wait_s in the profile"
            pending.answered.set_result(Answer(pending.ask.ask_id, False, reason, "", _now_ms()))


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
