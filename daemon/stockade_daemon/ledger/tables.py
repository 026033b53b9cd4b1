"""The tables of the ledger, and how an older file becomes a newer one.

SCHEMAS holds one script per schema version. Opening a file applies the scripts after its own version, so an
empty file (version 0) and an older one take the same way. A script is never changed once it was released.

What the schema itself forbids, whatever the code above it does: two events with one number, two tool/call, two
tool/result or two call/resolved events of one call, a call of no session.
"""

from typing import Final

# PRAGMA application_id: tells a ledger from any other SQLite file ("Stck").
APPLICATION_ID: Final = 0x5374636B

# device and inode are text because SQLite's integers are signed and an inode number uses all 64 bits;
# workspace is the path's bytes, which need not be UTF-8.
_VERSION_1: Final = """
CREATE TABLE meta (
    key TEXT PRIMARY KEY,
    value TEXT NOT NULL
) WITHOUT ROWID;

CREATE TABLE sessions (
    session_no INTEGER PRIMARY KEY,
    session_id TEXT NOT NULL UNIQUE,
    workspace BLOB NOT NULL,
    device TEXT NOT NULL,
    inode TEXT NOT NULL,
    profile_name TEXT NOT NULL,
    profile_digest TEXT NOT NULL,
    profile_source TEXT NOT NULL,
    profile_text BLOB NOT NULL,
    approval_policy TEXT NOT NULL,
    state TEXT NOT NULL CHECK (state IN ('open', 'closed')),
    opened_ms INTEGER NOT NULL
);

CREATE TABLE events (
    session_no INTEGER NOT NULL REFERENCES sessions,
    seq INTEGER NOT NULL CHECK (seq > 0),
    type TEXT NOT NULL,
    call_id TEXT NOT NULL,
    time_ms INTEGER NOT NULL,
    body TEXT NOT NULL,
    PRIMARY KEY (session_no, seq)
) WITHOUT ROWID;
CREATE INDEX events_of_a_call ON events (session_no, call_id, seq) WHERE call_id <> '';
CREATE UNIQUE INDEX one_start_of_a_call ON events (session_no, call_id) WHERE type = 'tool/call';
CREATE UNIQUE INDEX one_result_of_a_call ON events (session_no, call_id) WHERE type = 'tool/result';

CREATE TABLE calls (
    session_no INTEGER NOT NULL REFERENCES sessions,
    call_id TEXT NOT NULL CHECK (call_id <> ''),
    tool TEXT NOT NULL,
    digest TEXT NOT NULL,
    state TEXT NOT NULL CHECK (state IN ('pending', 'running', 'settled')),
    PRIMARY KEY (session_no, call_id)
) WITHOUT ROWID;
CREATE INDEX unsettled_calls ON calls (session_no) WHERE state <> 'settled';

CREATE TABLE outputs (
    session_no INTEGER NOT NULL,
    call_id TEXT NOT NULL,
    part TEXT NOT NULL,
    data BLOB NOT NULL,
    PRIMARY KEY (session_no, call_id, part),
    FOREIGN KEY (session_no, call_id) REFERENCES calls
);
"""

# A profile that was given as a text has no other source than the name that the client gave it; one that was chosen by
# name has a file's path.
_VERSION_2: Final = """
ALTER TABLE sessions ADD COLUMN profile_by_name INTEGER NOT NULL DEFAULT 0 CHECK (profile_by_name IN (0, 1));
UPDATE sessions SET profile_by_name = (profile_source <> profile_name);
"""

# An event keeps the version that its type had when it was recorded (versions.py); of those before this schema all types
# were in their first. event_versions: what daemons that had this file open were able to record, so that one which
# could not read it refuses the file.
_VERSION_3: Final = """
ALTER TABLE events ADD COLUMN version INTEGER NOT NULL DEFAULT 1 CHECK (version > 0);
CREATE UNIQUE INDEX one_resolution_of_a_call ON events (session_no, call_id) WHERE type = 'call/resolved';
CREATE TABLE event_versions (
    type TEXT PRIMARY KEY,
    version INTEGER NOT NULL CHECK (version > 0)
) WITHOUT ROWID;
"""

# Whose a session is, who started a call, and who caused an event. Empty: recorded before this schema.
_VERSION_4: Final = """
ALTER TABLE sessions ADD COLUMN principal TEXT NOT NULL DEFAULT '';
ALTER TABLE calls ADD COLUMN principal TEXT NOT NULL DEFAULT '';
ALTER TABLE events ADD COLUMN principal TEXT NOT NULL DEFAULT '';
"""

# The one decision of an ask is found by the ask's id, also by a daemon that never saw it.
_VERSION_5: Final = """
CREATE INDEX decisions ON events (json_extract(body, '$.ask_id')) WHERE type = 'approval/decided';
"""

SCHEMAS: Final = (_VERSION_1, _VERSION_2, _VERSION_3, _VERSION_4, _VERSION_5)
