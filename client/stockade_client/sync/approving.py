"""Asks for a thread: what a person is shown, and the one answer to it."""

import asyncio
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TypeAlias

from stockade_client import approvals
from stockade_client.results import Json
from stockade_client.sync.background import Background, Errands
from stockade_client.sync.face import Face, waiting


class Ask(Face[approvals.Ask]):
    """A call that waits for somebody's yes or no; see stockade_client.Ask."""

    decide = waiting(approvals.Ask.decide)

    @contextmanager
    def claim(self, name: str = "") -> Iterator[None]:
        """Shows other approvers that somebody looks at this ask, for as long as the block runs; see
        stockade_client.Ask.claim."""
        with self._background.held(self._inner.claim(name), self._errands):
            yield

    @property
    def ask_id(self) -> str:
        return self._inner.ask_id

    @property
    def session_id(self) -> str:
        return self._inner.session_id

    @property
    def call(self) -> str:
        """The call's id."""
        return self._inner.call

    @property
    def tool(self) -> str:
        return self._inner.tool

    @property
    def card(self) -> dict[str, Json]:
        """What a person is shown: title, tool, session, profile, reason, and either the arguments or a difference."""
        return self._inner.card

    @property
    def shown_hash(self) -> str:
        """SHA-256, lower-case hex, of the card as it was received."""
        return self._inner.shown_hash

    @property
    def asked_ms(self) -> int:
        """Milliseconds since 1970, UTC."""
        return self._inner.asked_ms

    @property
    def expires_ms(self) -> int:
        """0: does not expire while its approver stays."""
        return self._inner.expires_ms

    @property
    def asked_by(self) -> str:
        """The principal whose session it is; empty: not known."""
        return self._inner.asked_by

    @property
    def claims(self) -> tuple[approvals.Claim, ...]:
        """All who look at it, this client as well, longest first."""
        return self._inner.claims

    @property
    def claim_id(self) -> str:
        """Of a claim that is made through this object."""
        return self._inner.claim_id

    @property
    def claimed_ms(self) -> int:
        """Since when somebody looks at it; 0: nobody does. Of several, the one that has looked longest."""
        return self._inner.claimed_ms

    @property
    def claimed_by(self) -> str:
        """The principal who looks at it, in the daemon's word; empty: not known."""
        return self._inner.claimed_by

    @property
    def claimed_name(self) -> str:
        """What the claimer calls itself."""
        return self._inner.claimed_name

    @property
    def ended(self) -> str:
        """How it ended, as in stockade_client.Ask; empty while it waits."""
        return self._inner.ended

    @property
    def ended_ms(self) -> int:
        return self._inner.ended_ms

    @property
    def ended_by(self) -> str:
        """The principal who answered; empty: nobody, or not known."""
        return self._inner.ended_by

    @property
    def ended_reason(self) -> str:
        return self._inner.ended_reason

    @property
    def answer(self) -> approvals.Answer | None:
        """What was answered through this object."""
        return self._inner.answer


# Given each ask, in the thread that waits for the session. True and False are the answer; None means that it called
# `decide` itself.
Approve: TypeAlias = Callable[[Ask], bool | None]


def answered_by(approve: Approve, background: Background, errands: Errands) -> approvals.Approve:
    """An approver of the loop's, whose answers come from `approve`, in a thread that runs the errands."""

    async def asked(inner: approvals.Ask) -> bool | None:
        ask = Ask(background, Errands(), inner)
        answer: asyncio.Future[bool | None] = background.loop.create_future()

        def settle(said: bool | None, error: Exception | None) -> None:
            if answer.done():
                return  # nobody waits for it any more
            if error is None:
                answer.set_result(said)
            else:
                answer.set_exception(error)

        def errand() -> None:
            if answer.done():
                return
            try:
                said = approve(ask)
            except Exception as error:
                background.soon(settle, None, error)
            except BaseException:
                # Ctrl-C at the question: a no to this, and the end of what the thread waits for.
                background.soon(settle, None, RuntimeError("interrupted"))
                raise
            else:
                background.soon(settle, said, None)

        errands.put(errand)
        return await answer

    return asked
