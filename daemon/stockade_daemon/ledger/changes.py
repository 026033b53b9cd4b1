"""The changes that the ledger knows, each a function that the writer runs inside its transaction.

They only look at the database and at what they were made with, never at the clock: a group that is made one
by one after a refusal runs them again.
"""

import os
from collections.abc import Callable, Mapping
from dataclasses import replace

from stockade_daemon.errors import RequestError
from stockade_daemon.ledger import queries
from stockade_daemon.ledger.records import CallRecord, Resolution, SessionRecord
from stockade_daemon.ledger.writer import Entry, Recorded, Tail, Transaction
from stockade_daemon.values import Json

SESSION_OPENED = "session/opened"
SESSION_PROFILE = "session/profile"
SESSION_CLOSED = "session/closed"
ASKED = "approval/asked"
DECIDED = "approval/decided"
TOOL_CALL = "tool/call"
CALL_DISPATCHED = "call/dispatched"
TOOL_RESULT = "tool/result"
CALL_RESOLVED = "call/resolved"

# These move a session or a call to another state, so they are recorded by the change that does it and by no
# other.
RESERVED = frozenset(
    {SESSION_OPENED, SESSION_PROFILE, SESSION_CLOSED, ASKED, TOOL_CALL, CALL_DISPATCHED, TOOL_RESULT, CALL_RESOLVED}
)
# The output part that holds what is to be committed when the call's ask is answered with yes; gone with its result.
STAGED = "staged"


def opened(record: SessionRecord) -> dict[str, Json]:
    """The body of the session's first event."""
    return {
        "workspace": os.fsencode(record.workspace).decode("utf-8", "replace"),
        "profile_name": record.profile_name,
        "profile_digest": record.profile_digest,
        "profile_source": record.profile_source,
        "approval_policy": record.approval_policy,
        **({"tools": list(record.tools)} if record.tools else {}),
        **({"workspace_view": "copy"} if record.on_copy else {}),
        **({"lease_s": record.lease_s} if record.lease_s else {}),
    }


def open_session(record: SessionRecord, entry: Entry) -> Callable[[Transaction], SessionRecord]:
    """Adds the session with its first event; the stored record, which is another one where the id was taken."""

    def change(transaction: Transaction) -> SessionRecord:
        added = transaction.connection.execute(
            "INSERT INTO sessions (session_id, workspace, device, inode, profile_name, profile_digest,"
            " profile_source, profile_text, profile_by_name, approval_policy, state, opened_ms, principal)"
            " VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, 'open', ?, ?) ON CONFLICT (session_id) DO NOTHING",
            (
                record.session_id,
                os.fsencode(record.workspace),
                str(record.device),
                str(record.inode),
                record.profile_name,
                record.profile_digest,
                record.profile_source,
                record.profile_text,
                int(record.profile_by_name),
                record.approval_policy,
                record.opened_ms,
                record.principal,
            ),
        )
        if added.rowcount:
            entry.record(transaction)
        stored = queries.session(transaction.connection, record.session_id)
        assert stored is not None
        return stored

    return change


def change_profile(entry: Entry, digest: str, source: str, text: bytes) -> Callable[[Transaction], Recorded]:
    """Gives an open session another version of its profile. What its event was given."""

    def change(transaction: Transaction) -> Recorded:
        tail = transaction.open_tail(entry.session_id)
        transaction.connection.execute(
            "UPDATE sessions SET profile_digest = ?, profile_source = ?, profile_text = ? WHERE session_no = ?",
            (digest, source, text, tail.session_no),
        )
        return entry.record(transaction)

    return change


def close_session(entry: Entry) -> Callable[[Transaction], None]:
    """Closes the session and records its last event. Nothing happens where it is closed already."""

    def change(transaction: Transaction) -> None:
        tail = transaction.tail(entry.session_id)
        if tail.closed:
            return
        row = transaction.connection.execute(
            "SELECT count(*) FROM calls WHERE session_no = ? AND state <> 'settled'", (tail.session_no,)
        ).fetchone()
        if row[0]:
            raise RequestError(
                "FAILED_PRECONDITION",
                f"The session {entry.session_id!r} has {row[0]} calls without a result; settle them first.",
            )
        entry.record(transaction)
        transaction.connection.execute("UPDATE sessions SET state = 'closed' WHERE session_no = ?", (tail.session_no,))
        tail.closed = True

    return change


def start_call(
    entry: Entry, tool: str, digest: str, outputs: Mapping[str, bytes]
) -> Callable[[Transaction], tuple[CallRecord, bool]]:
    """Adds the call with its tool/call event; or finds the one that has this id, also in a closed session."""

    def change(transaction: Transaction) -> tuple[CallRecord, bool]:
        tail = transaction.tail(entry.session_id)
        found = queries.call(transaction.connection, entry.session_id, entry.call_id)
        if found is not None:
            return found, False
        _, by = entry.record(transaction)
        transaction.connection.execute(
            "INSERT INTO calls (session_no, call_id, tool, digest, state, principal) VALUES (?, ?, ?, ?, 'pending', ?)",
            (tail.session_no, entry.call_id, tool, digest, by),
        )
        _keep(transaction, tail, entry, outputs)
        return CallRecord(entry.session_id, entry.call_id, tool, digest, "pending", None), True

    return change


def dispatch(entry: Entry) -> Callable[[Transaction], Recorded]:
    """Records that a worker is given the call; again for a later attempt. What the event was given."""

    def change(transaction: Transaction) -> Recorded:
        _move(transaction, transaction.open_tail(entry.session_id), entry, "running")
        return entry.record(transaction)

    return change


def settle(entry: Entry, outputs: Mapping[str, bytes]) -> Callable[[Transaction], Recorded]:
    """Records the call's one result and its outputs. What its event was given."""

    def change(transaction: Transaction) -> Recorded:
        tail = transaction.open_tail(entry.session_id)
        _move(transaction, tail, entry, "settled")
        _unstage(transaction, tail, entry)
        _keep(transaction, tail, entry, outputs)
        return entry.record(transaction)

    return change


def resolve(entry: Entry, wanted: Resolution) -> Callable[[Transaction], CallRecord]:
    """Records what became of a call whose outcome is unknown, also in a closed session. Again the same is nothing.

    The record with what is resolved.
    """

    def change(transaction: Transaction) -> CallRecord:
        found = queries.call(transaction.connection, entry.session_id, entry.call_id)
        if found is None:
            raise _no_call(entry)
        code = _code(found)
        if code != "TOOL_OUTCOME_UNKNOWN":
            raise RequestError(
                "FAILED_PRECONDITION",
                f"The call {entry.call_id!r} of session {entry.session_id!r} "
                + (f"ended with {code}" if found.state == "settled" else "has no result yet")
                + "; only one that ended with TOOL_OUTCOME_UNKNOWN is for somebody to resolve.",
            )
        if found.resolution is None:
            tail = transaction.tail(entry.session_id)
            transaction.record(tail, entry)
            return replace(found, resolution=wanted)
        if (found.resolution.done, found.resolution.note) != (wanted.done, wanted.note):
            raise RequestError(
                "ALREADY_EXISTS",
                f"The call {entry.call_id!r} of session {entry.session_id!r} was resolved before, as "
                f"{'done' if found.resolution.done else 'not done'}; that stands. Read it with its events.",
            )
        return found

    return change


def remove_session(session_id: str, before_ms: int) -> Callable[[Transaction], bool]:
    """Removes a session with all that is recorded of it; False where it is not, or no longer, one of
    queries.expired.
    """

    def change(transaction: Transaction) -> bool:
        connection = transaction.connection
        if not queries.is_expired(connection, session_id, before_ms):
            return False
        number = transaction.tail(session_id).session_no
        for table in ("outputs", "calls", "events", "sessions"):
            connection.execute(f"DELETE FROM {table} WHERE session_no = ?", (number,))  # noqa: S608 - names of ours
        transaction.forget(session_id)
        return True

    return change


def ask(entry: Entry, staged: bytes | None) -> Callable[[Transaction], Recorded]:
    """Records that somebody is asked about a call, which has no result yet, and what a yes is to commit in the place of
    what an earlier ask had staged. What its event was given."""

    def change(transaction: Transaction) -> Recorded:
        tail = transaction.open_tail(entry.session_id)
        found = queries.call(transaction.connection, entry.session_id, entry.call_id)
        if found is None:
            raise _no_call(entry)
        if found.state == "settled":
            raise _has_its_result(entry)
        _unstage(transaction, tail, entry)
        if staged is not None:
            _keep(transaction, tail, entry, {STAGED: staged})
        return entry.record(transaction)

    return change


def _code(record: CallRecord) -> str:
    """The code of a settled call's error; "ok" without one."""
    error = None if record.result is None else record.result.get("error")
    return str(error["code"]) if isinstance(error, Mapping) else "ok"


def _no_call(entry: Entry) -> RequestError:
    return RequestError(
        "NOT_FOUND", f"There is no call {entry.call_id!r} in the session {entry.session_id!r}; start it first."
    )


def _has_its_result(entry: Entry) -> RequestError:
    return RequestError(
        "FAILED_PRECONDITION",
        f"The call {entry.call_id!r} of session {entry.session_id!r} has its result already; read that one.",
    )


def _unstage(transaction: Transaction, tail: Tail, entry: Entry) -> None:
    transaction.connection.execute(
        "DELETE FROM outputs WHERE session_no = ? AND call_id = ? AND part = ?",
        (tail.session_no, entry.call_id, STAGED),
    )


def _keep(transaction: Transaction, tail: Tail, entry: Entry, outputs: Mapping[str, bytes]) -> None:
    transaction.connection.executemany(
        "INSERT INTO outputs (session_no, call_id, part, data) VALUES (?, ?, ?, ?)",
        [(tail.session_no, entry.call_id, part, data) for part, data in outputs.items()],
    )


def _move(transaction: Transaction, tail: Tail, entry: Entry, state: str) -> None:
    moved = transaction.connection.execute(
        "UPDATE calls SET state = ? WHERE session_no = ? AND call_id = ? AND state <> 'settled'",
        (state, tail.session_no, entry.call_id),
    )
    if moved.rowcount:
        return
    if queries.call(transaction.connection, entry.session_id, entry.call_id) is None:
        raise _no_call(entry)
    raise _has_its_result(entry)
