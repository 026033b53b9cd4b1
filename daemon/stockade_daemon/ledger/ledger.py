"""The ledger: what happened, in order, and what every call came to.

Events of a session are numbered 1, 2, 3 … without gaps. Everything awaited here is durable when it returns:
it survives a kill of the daemon at any moment, and a power cut where the ledger was opened so. `note` is for
facts that only have to be in order: they are durable when a later awaited change returns, and a few
milliseconds later in any case.
"""

import asyncio
import hashlib
import json
import time
from collections.abc import AsyncGenerator, AsyncIterator, Mapping
from contextlib import aclosing, asynccontextmanager
from dataclasses import replace
from functools import partial
from types import MappingProxyType
from typing import Final

from stockade_daemon import json_text
from stockade_daemon.errors import InfrastructureFailure, RequestError
from stockade_daemon.ledger import changes, queries
from stockade_daemon.ledger.file import opened, sync
from stockade_daemon.ledger.followers import Followers, rung
from stockade_daemon.ledger.readers import Readers
from stockade_daemon.ledger.records import CallRecord, Decision, Resolution, SessionRecord, Unsettled
from stockade_daemon.ledger.writer import Entry, Recorded, Writer
from stockade_daemon.values import Durability, Event, Json

# A value whose JSON text is longer is kept beside the event, as the output part "value": events are read by
# the thousand, and a page of them has to fit a message.
INLINE_VALUE_BYTES: Final = 64 * 1024
VALUE_PART: Final = "value"
# What to do once the disk fails.
RESTART: Final = "Make room on its disk or repair it, then restart the daemon."

_PAGE_EVENTS = 500  # what a follower holds at most: this many events …
_PAGE_CHARACTERS = 1024 * 1024  # … or this much of their bodies' text

_EMPTY: Final[Mapping[str, Json]] = MappingProxyType({})


class Ledger:
    """Open while the daemon runs; every method is called in the event loop that opened it."""

    def __init__(self, path: str, writer: Writer, readers: Readers, followers: Followers) -> None:
        self._path = path
        self._writer = writer
        self._readers = readers
        self._followers = followers

    @classmethod
    @asynccontextmanager
    async def open(
        cls, path: str, *, durability: Durability = "process", remedy: str = RESTART
    ) -> AsyncIterator["Ledger"]:
        """The ledger at `path`, made where it is missing (mode 0600; its directory has to exist).

        On leaving, what is queued is committed, and followers end. `remedy` is a sentence on what to do once the disk
        fails or is full.
        Raises ConfigurationError; see file.opened.
        """
        followers = Followers()
        with opened(path, durability) as connection:
            writer = Writer(path, connection, followers.ring, remedy=remedy)
            try:
                with Readers.open(path, remedy=remedy) as readers:
                    try:
                        yield cls(path, writer, readers, followers)
                    finally:
                        followers.close()
            finally:
                await writer.close()

    @property
    def transactions(self) -> int:
        """Commits since the ledger was opened."""
        return self._writer.transactions

    @property
    def changes(self) -> int:
        """Changes that those commits held; more than `transactions` where group commit helped."""
        return self._writer.changes

    @property
    def failure(self) -> str:
        """Why nothing can be recorded any more; empty while all is well. Reading goes on as far as the disk
        allows.
        """
        return "" if self._writer.failure is None else self._writer.failure.message

    async def sync(self) -> None:
        """Has the disk take what was awaited, so that it survives a power cut whatever the ledger was opened for.

        Raises InfrastructureFailure (the disk).
        """
        try:
            await asyncio.to_thread(sync, self._path)
        except OSError as error:
            raise InfrastructureFailure(
                "FS_IO_ERROR", f"The ledger cannot be synced: {error.strerror}. Look at its disk, then repeat the call."
            ) from error

    # Events.

    async def append(
        self,
        session_id: str,
        type: str,
        call_id: str = "",
        body: Mapping[str, Json] = _EMPTY,
        *,
        by: str | None = None,
    ) -> Event:
        """Records an event. `body` is rendered at once: what happens to it afterwards does not change the
        record. `by`: the name of the principal that caused it; None: whoever started the call, or the daemon.

        Raises RequestError (NOT_FOUND: no such session; FAILED_PRECONDITION: it is closed),
        InfrastructureFailure (the disk), ValueError or TypeError (a type that
        another method records, or a body that is not JSON).
        """
        entry = _entry(session_id, _free(type), call_id, body, by)
        return _event(entry, await self._writer.do(entry.record))

    def note(
        self,
        session_id: str,
        type: str,
        call_id: str = "",
        body: Mapping[str, Json] = _EMPTY,
        *,
        by: str | None = None,
    ) -> None:
        """Queues an event behind all that was queued before, without waiting. `by`: as of `append`.

        Raises what `append` raises where it can be known at once; a session that is missing or closed is
        logged.
        """
        self._writer.queue(_entry(session_id, _free(type), call_id, body, by).record)

    async def read(
        self, session_id: str, *, after: int = 0, limit: int = 500, call_id: str | None = None
    ) -> list[Event]:
        """Events with numbers greater than `after`, oldest first: as many as there are, at most `limit`.

        With `call_id`, only that call's. Empty where there is no such session.
        """
        return await self._readers.do(lambda connection: queries.events(connection, session_id, after, limit, call_id))

    async def page(self, session_id: str, *, after: int = 0, call_id: str | None = None) -> queries.Page:
        """Events with numbers greater than `after`, as many as fit a page, bounded by number and by size.

        Raises RequestError NOT_FOUND where there is no such session.
        """
        found = await self._readers.do(
            partial(
                queries.page,
                session_id=session_id,
                after=after,
                call_id=call_id,
                max_events=_PAGE_EVENTS,
                max_characters=_PAGE_CHARACTERS,
            )
        )
        if found is None:
            raise RequestError("NOT_FOUND", f"There is no session {session_id!r}; open it first.")
        return found

    async def follow(
        self, session_id: str, *, after: int = 0, call_id: str | None = None
    ) -> AsyncGenerator[Event, None]:
        """Events with numbers greater than `after`, those there are and then new ones, each once and in
        order.

        Ends when all events of a closed session were given, and when the ledger is closed. A follower reads
        from the store at its own pace. Close the generator where it is left early (contextlib.aclosing).
        Raises RequestError NOT_FOUND where there is no such session.
        """
        async with aclosing(self.follow_pages(session_id, after=after, call_id=call_id)) as pages:
            async for page in pages:
                for event in page.events:
                    yield event

    async def follow_pages(
        self, session_id: str, *, after: int = 0, call_id: str | None = None, pulse_s: float | None = None
    ) -> AsyncGenerator[queries.Page, None]:
        """The same by pages, none of which is empty, and of which one at a time is in memory.

        With `pulse_s`, there are empty ones too: one when all that there was has been given for the first time, and one
        whenever nothing came for `pulse_s` seconds.
        """
        nothing = queries.Page([], complete=True, closed=False)
        pulse_due = pulse_s is not None
        with self._followers.waiting(session_id) as bell:
            while not self._followers.closed:
                bell.clear()
                page = await self.page(session_id, after=after, call_id=call_id)
                if page.events:
                    yield page
                    after = page.events[-1].seq
                if page.closed:
                    return
                if not page.complete:
                    continue
                if pulse_due:
                    yield nothing
                    pulse_due = False
                while not await rung(bell, pulse_s):
                    yield nothing

    # Sessions.

    async def open_session(self, record: SessionRecord) -> SessionRecord:
        """Adds the session and its first event, session/opened, in one transaction.

        The record as it is stored: another one where the id was taken, closed sessions included; the caller
        compares.
        """
        entry = _entry(record.session_id, changes.SESSION_OPENED, "", changes.opened(record), record.principal)
        entry = replace(entry, time_ms=record.opened_ms)
        return await self._writer.do(changes.open_session(record, entry))

    async def change_profile(
        self, session_id: str, *, digest: str, source: str, text: bytes, body: Mapping[str, Json]
    ) -> Event:
        """Gives an open session another version of its profile, with the session/profile event, in one transaction.

        Raises RequestError: NOT_FOUND, FAILED_PRECONDITION (it is closed).
        """
        entry = _entry(session_id, changes.SESSION_PROFILE, "", body)
        return _event(entry, await self._writer.do(changes.change_profile(entry, digest, source, text)))

    async def session(self, session_id: str) -> SessionRecord | None:
        return await self._readers.do(lambda connection: queries.session(connection, session_id))

    async def sessions(self) -> list[SessionRecord]:
        """All, closed ones too, in the order in which they were opened."""
        return await self._readers.do(queries.sessions)

    async def close_session(self, session_id: str, body: Mapping[str, Json] = _EMPTY, *, by: str | None = None) -> None:
        """Closes the session and records session/closed, its last event. Again is nothing. `by`: as of `append`.

        Raises RequestError: NOT_FOUND; FAILED_PRECONDITION while a call has no result, since it could never
        get one.
        """
        await self._writer.do(changes.close_session(_entry(session_id, changes.SESSION_CLOSED, "", body, by)))

    # Calls.

    async def start_call(
        self,
        session_id: str,
        call_id: str,
        tool: str,
        digest: str,
        body: Mapping[str, Json],
        outputs: Mapping[str, bytes] = MappingProxyType({}),
        *,
        by: str | None = None,
    ) -> tuple[CallRecord, bool]:
        """Adds the call, its tool/call event and what is kept beside it in one transaction: the record, and True.
        `by`: the name of the principal that starts it, which is behind all its events that name no other.

        Where the session has a call of this id: that record, and False; the caller compares digests.
        Raises RequestError: NOT_FOUND, FAILED_PRECONDITION (the session is closed and has no such call).
        """
        entry = _entry(session_id, changes.TOOL_CALL, call_id, body, by)
        return await self._writer.do(changes.start_call(entry, tool, digest, outputs))

    async def call(self, session_id: str, call_id: str) -> CallRecord | None:
        return await self._readers.do(lambda connection: queries.call(connection, session_id, call_id))

    async def dispatched(self, session_id: str, call_id: str, body: Mapping[str, Json] = _EMPTY) -> Event:
        """The call is running: its state and the call/dispatched event, in one transaction. Before the worker
        hears.

        Raises RequestError: NOT_FOUND, FAILED_PRECONDITION (it has its result already).
        """
        entry = _entry(session_id, changes.CALL_DISPATCHED, call_id, body)
        return _event(entry, await self._writer.do(changes.dispatch(entry)))

    async def settle(
        self,
        session_id: str,
        call_id: str,
        result: Mapping[str, Json],
        outputs: Mapping[str, bytes] = MappingProxyType({}),
        *,
        by: str | None = None,
    ) -> Event:
        """The call's one result: its state, the tool/result event and its outputs, in one transaction. `by`: as of
        `append`.

        `value_size` of the recorded body is the length of the value's JSON text in bytes, 0 without one. A
        value of more than INLINE_VALUE_BYTES is not in the body: it becomes the output part "value", and
        `value_digest` is the SHA-256, lower-case hex, of that text.

        Raises RequestError: NOT_FOUND, FAILED_PRECONDITION (it has its result already).
        """
        body, parts = _split(result, outputs)
        entry = _entry(session_id, changes.TOOL_RESULT, call_id, body, by)
        return _event(entry, await self._writer.do(changes.settle(entry, parts)))

    async def resolve(
        self, session_id: str, call_id: str, *, done: bool, note: str, by: str | None = None
    ) -> CallRecord:
        """Records what somebody found out about a call that ended with TOOL_OUTCOME_UNKNOWN, beside its result: once,
        also in a closed session. The same again is nothing. `by`: as of `append`.

        Raises RequestError: NOT_FOUND, FAILED_PRECONDITION (no call of that outcome), ALREADY_EXISTS (it was resolved
        otherwise).
        """
        entry = _entry(
            session_id, changes.CALL_RESOLVED, call_id, {"outcome": "done" if done else "not-done", "note": note}, by
        )
        return await self._writer.do(changes.resolve(entry, Resolution(done, note, entry.time_ms)))

    async def ask(
        self, session_id: str, call_id: str, body: Mapping[str, Json], *, staged: bytes | None = None
    ) -> Event:
        """The approval/asked event, and what a yes is to commit, in one transaction; `staged` replaces an earlier
        ask's, and goes with the result. Raises RequestError: NOT_FOUND, FAILED_PRECONDITION (it has its result).
        """
        entry = _entry(session_id, changes.ASKED, call_id, body)
        return _event(entry, await self._writer.do(changes.ask(entry, staged)))

    async def staged(self, session_id: str, call_id: str) -> bytes | None:
        """What `ask` was given last for a call without a result."""
        return await self.output(session_id, call_id, changes.STAGED)

    async def decision(self, ask_id: str) -> Decision | None:
        """How an ask ended, whenever that was; None where it has not, or there is none."""
        return await self._readers.do(lambda connection: queries.decision(connection, ask_id))

    async def output(self, session_id: str, call_id: str, part: str) -> bytes | None:
        """What `settle` was given as that part, or a large value's JSON text; None where there is none."""
        return await self._readers.do(lambda connection: queries.output(connection, session_id, call_id, part))

    async def unsettled(self) -> list[Unsettled]:
        """Calls without a result, with their events; after a start, those that the last daemon left under
        way.
        """
        return await self._readers.do(queries.unsettled)

    # Retention.

    async def expired(self, before_ms: int) -> list[str]:
        """Ids of closed sessions in which nothing was recorded since `before_ms`."""
        return await self._readers.do(lambda connection: queries.expired(connection, before_ms))

    async def call_ids(self, session_id: str) -> list[str]:
        """Ids of all calls of a session."""
        return await self._readers.do(lambda connection: queries.call_ids(connection, session_id))

    async def remove_session(self, session_id: str, before_ms: int) -> bool:
        """Removes a session with all that was recorded of it, in one transaction; False where it is not `expired`."""
        return await self._writer.do(changes.remove_session(session_id, before_ms))


def _free(type: str) -> str:
    if type in changes.RESERVED:
        raise ValueError(f"{type} moves a session or a call to another state; the method that does so records it")
    return type


def _entry(session_id: str, type: str, call_id: str, body: Mapping[str, Json], by: str | None = None) -> Entry:
    return Entry(session_id, type, call_id, time.time_ns() // 1_000_000, json_text.dump(body).decode(), by)


def _event(entry: Entry, recorded: Recorded) -> Event:
    """The event as a reader of the store will see it."""
    body = MappingProxyType(json.loads(entry.body))
    return Event(entry.session_id, recorded.seq, entry.type, entry.call_id, entry.time_ms, body, recorded.principal)


def _split(result: Mapping[str, Json], outputs: Mapping[str, bytes]) -> tuple[dict[str, Json], dict[str, bytes]]:
    """The body to record, and the outputs beside it."""
    if VALUE_PART in outputs:
        raise ValueError(f"the output part {VALUE_PART!r} is the ledger's own: give the value in the result")
    body = dict(result)
    parts = dict(outputs)
    body["value_size"] = 0
    if "value" in body:
        text = json_text.dump(body["value"])
        body["value_size"] = len(text)
        if len(text) > INLINE_VALUE_BYTES:
            del body["value"]
            body["value_digest"] = hashlib.sha256(text).hexdigest()
            parts[VALUE_PART] = text
    return body, parts
