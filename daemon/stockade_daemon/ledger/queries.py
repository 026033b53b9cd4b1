"""What is read from the ledger: SQL in, frozen values out. Each function is one snapshot and blocks."""

import json
import os
import sqlite3
from collections.abc import Mapping
from contextlib import closing
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any

from stockade_daemon.ledger.records import CallRecord, Decision, Resolution, SessionRecord, Unsettled
from stockade_daemon.ledger.versions import upcast
from stockade_daemon.values import Event, Json

_EVENT = (
    "SELECT s.session_id, e.seq, e.type, e.call_id, e.time_ms, e.body, e.version, e.principal"
    " FROM events AS e JOIN sessions AS s USING (session_no)"
)

_SESSION = (
    "SELECT session_id, workspace, device, inode, profile_name, profile_digest, profile_source, profile_text,"
    " profile_by_name, approval_policy, state, opened_ms,"
    " coalesce((SELECT max(seq) FROM events AS e WHERE e.session_no = s.session_no), 0),"
    " (SELECT json_extract(body, '$.tools') FROM events AS e WHERE e.session_no = s.session_no AND seq = 1),"
    " principal,"
    " (SELECT json_extract(body, '$.workspace_view') FROM events AS e WHERE e.session_no = s.session_no AND seq = 1),"
    " (SELECT json_extract(body, '$.lease_s') FROM events AS e WHERE e.session_no = s.session_no AND seq = 1),"
    " CASE state WHEN 'closed' THEN (SELECT json_extract(body, '$.reason') FROM events AS e"
    " WHERE e.session_no = s.session_no AND type = 'session/closed' ORDER BY seq DESC LIMIT 1) END"
    " FROM sessions AS s"
)

_CALL = (
    "SELECT s.session_id, c.call_id, c.tool, c.digest, c.state, e.body, e.version, r.body, r.time_ms, r.version"
    " FROM calls AS c JOIN sessions AS s USING (session_no)"
    " LEFT JOIN events AS e"
    " ON e.session_no = c.session_no AND e.call_id = c.call_id AND e.type = 'tool/result'"
    " LEFT JOIN events AS r"
    " ON r.session_no = c.session_no AND r.call_id = c.call_id AND r.type = 'call/resolved'"
)

_EXPIRED = (
    "SELECT session_id FROM sessions AS s WHERE state = 'closed'"
    " AND (SELECT time_ms FROM events AS e WHERE e.session_no = s.session_no ORDER BY seq DESC LIMIT 1) < ?"
    " AND NOT EXISTS (SELECT * FROM calls AS c WHERE c.session_no = s.session_no AND c.state <> 'settled')"
)

_FIRST_EVENT = (
    "(SELECT min(seq) FROM events AS f WHERE f.session_no = c.session_no AND f.call_id = c.call_id AND f.call_id <> '')"
)


@dataclass(frozen=True, slots=True)
class Page:
    """Some events of a session, oldest first."""

    events: list[Event]
    complete: bool  # there were no more when it was read
    closed: bool  # and there never will be: the session was closed


def events(connection: sqlite3.Connection, session_id: str, after: int, limit: int, call_id: str | None) -> list[Event]:
    """At most `limit` events with numbers greater than `after`; empty where there is no such session."""
    return [_event(row) for row in _select_events(connection, session_id, after, limit, call_id)]


def page(
    connection: sqlite3.Connection,
    session_id: str,
    after: int,
    call_id: str | None,
    *,
    max_events: int,
    max_characters: int,
) -> Page | None:
    """A page bounded by number and by the text of the bodies (one event at least); None: no such session."""
    connection.execute("BEGIN")  # the state and the events are of one moment
    try:
        found = connection.execute("SELECT state FROM sessions WHERE session_id = ?", (session_id,)).fetchone()
        if found is None:
            return None
        taken: list[Event] = []
        size = 0
        complete = True
        with closing(_select_events(connection, session_id, after, max_events + 1, call_id)) as rows:
            for row in rows:
                if len(taken) == max_events or (taken and size + len(row[5]) > max_characters):
                    complete = False
                    break
                taken.append(_event(row))
                size += len(row[5])
        return Page(taken, complete=complete, closed=complete and found[0] == "closed")
    finally:
        connection.execute("COMMIT")


def session(connection: sqlite3.Connection, session_id: str) -> SessionRecord | None:
    row = connection.execute(f"{_SESSION} WHERE session_id = ?", (session_id,)).fetchone()
    return None if row is None else _session(row)


def sessions(connection: sqlite3.Connection) -> list[SessionRecord]:
    """All, in the order in which they were opened."""
    return [_session(row) for row in connection.execute(f"{_SESSION} ORDER BY session_no")]


def call(connection: sqlite3.Connection, session_id: str, call_id: str) -> CallRecord | None:
    row = connection.execute(f"{_CALL} WHERE s.session_id = ? AND c.call_id = ?", (session_id, call_id)).fetchone()
    return None if row is None else _call(row)


def output(connection: sqlite3.Connection, session_id: str, call_id: str, part: str) -> bytes | None:
    row = connection.execute(
        "SELECT data FROM outputs JOIN sessions USING (session_no) WHERE session_id = ? AND call_id = ? AND part = ?",
        (session_id, call_id, part),
    ).fetchone()
    return None if row is None else bytes(row[0])


def decision(connection: sqlite3.Connection, ask_id: str) -> Decision | None:
    """The decision of this ask. The expression is that of the index `decisions`."""
    row = connection.execute(
        "SELECT s.session_id, s.principal, e.body, e.version, e.principal, e.time_ms"
        " FROM events AS e JOIN sessions AS s USING (session_no)"
        " WHERE e.type = 'approval/decided' AND json_extract(e.body, '$.ask_id') = ?",
        (ask_id,),
    ).fetchone()
    if row is None:
        return None
    session_id, owner, body, version, principal, time_ms = row
    return Decision(session_id, owner, _body("approval/decided", version, body), principal, time_ms)


def unsettled(connection: sqlite3.Connection) -> list[Unsettled]:
    """Every call without a result, by session and then by its first event."""
    connection.execute("BEGIN")
    try:
        found = []
        calls = connection.execute(
            f"{_CALL} WHERE c.state <> 'settled' ORDER BY c.session_no, {_FIRST_EVENT}"
        ).fetchall()
        for row in calls:
            record = _call(row)
            digest = connection.execute(
                "SELECT profile_digest FROM sessions WHERE session_id = ?", (record.session_id,)
            ).fetchone()[0]
            # LIMIT -1: all of them.
            story = _select_events(connection, record.session_id, 0, -1, record.call_id)
            found.append(Unsettled(record, digest, tuple(_event(item) for item in story)))
        return found
    finally:
        connection.execute("COMMIT")


def expired(connection: sqlite3.Connection, before_ms: int) -> list[str]:
    """Ids of closed sessions whose last event is older than `before_ms` and whose calls are all settled."""
    return [row[0] for row in connection.execute(f"{_EXPIRED} ORDER BY session_no", (before_ms,))]


def is_expired(connection: sqlite3.Connection, session_id: str, before_ms: int) -> bool:
    return bool(connection.execute(f"{_EXPIRED} AND session_id = ?", (before_ms, session_id)).fetchall())


def call_ids(connection: sqlite3.Connection, session_id: str) -> list[str]:
    """Of all its calls."""
    return [
        row[0]
        for row in connection.execute(
            "SELECT call_id FROM calls JOIN sessions USING (session_no) WHERE session_id = ?", (session_id,)
        )
    ]


def _select_events(
    connection: sqlite3.Connection, session_id: str, after: int, limit: int, call_id: str | None
) -> sqlite3.Cursor:
    where = f"{_EVENT} WHERE s.session_id = ? AND e.seq > ?"
    if call_id is None:
        return connection.execute(f"{where} ORDER BY e.seq LIMIT ?", (session_id, after, limit))
    # `<> ''` lets SQLite use the partial index events_of_a_call.
    return connection.execute(
        f"{where} AND e.call_id = ? AND e.call_id <> '' ORDER BY e.seq LIMIT ?",
        (session_id, after, call_id, limit),
    )


def _event(row: tuple[Any, ...]) -> Event:
    session_id, seq, type_, call_id, time_ms, body, version, principal = row
    return Event(session_id, seq, type_, call_id, time_ms, _body(type_, version, body), principal)


def _body(type_: str, version: int, text: str) -> Mapping[str, Json]:
    return MappingProxyType(upcast(type_, version, json.loads(text)))


def _call(row: tuple[Any, ...]) -> CallRecord:
    session_id, call_id, tool, digest, state, result, version, resolution, resolved_ms, resolution_version = row
    return CallRecord(
        session_id,
        call_id,
        tool,
        digest,
        state,
        None if result is None else _body("tool/result", version, result),
        None
        if resolution is None
        else _resolution(_body("call/resolved", resolution_version, resolution), resolved_ms),
    )


def _resolution(body: Mapping[str, Any], time_ms: int) -> Resolution:
    return Resolution(done=body["outcome"] == "done", note=body["note"], time_ms=time_ms)


def _session(row: tuple[Any, ...]) -> SessionRecord:
    return SessionRecord(
        session_id=row[0],
        workspace=os.fsdecode(row[1]),
        device=int(row[2]),
        inode=int(row[3]),
        profile_name=row[4],
        profile_digest=row[5],
        profile_source=row[6],
        profile_text=bytes(row[7]),
        profile_by_name=bool(row[8]),
        approval_policy=row[9],
        state=row[10],
        opened_ms=row[11],
        last_seq=row[12],
        tools=tuple(json.loads(row[13])) if row[13] else (),
        principal=row[14],
        on_copy=row[15] == "copy",
        lease_s=float(row[16] or 0.0),
        closed_because=row[17] or "",
    )
