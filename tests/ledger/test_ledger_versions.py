"""Every type of event has a version, and what was recorded as an earlier one is read as today's."""

import json
import os
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from stockade_daemon import meanings
from stockade_daemon.errors import ConfigurationError
from stockade_daemon.ledger import Ledger
from stockade_daemon.ledger.tables import APPLICATION_ID, SCHEMAS
from stockade_daemon.ledger.versions import version_of
from tests.ledger.shapes import kept, unlike

KEPT = kept()
SESSION = (
    "INSERT INTO sessions (session_no, session_id, workspace, device, inode, profile_name, profile_digest,"
    " profile_source, profile_text, approval_policy, state, opened_ms, profile_by_name)"
    " VALUES (1, 's', x'2f', '1', '2', 'dev', 'd', 'dev', x'', 'ask', 'open', 5, 1)"
)
EVENT = "INSERT INTO events (session_no, seq, type, call_id, time_ms, body"


def test_every_type_of_event_has_examples_of_each_of_its_versions() -> None:
    wanted = {(type, version) for type in meanings.OF_EVENTS for version in range(1, version_of(type) + 1)}
    assert set(KEPT) == wanted, "add tests/ledger/golden/TYPE.VERSION.json; see tests/ledger/shapes.py"


@pytest.mark.parametrize(("type", "version"), KEPT)
def test_what_is_read_of_a_version_looks_like_todays(type: str, version: int) -> None:
    today = [each.stored for each in KEPT[type, version_of(type)]]
    for example in KEPT[type, version]:
        assert unlike(type, example.read, today) == []
        if version == version_of(type):
            assert example.read == example.stored


def content_of(path: str) -> bytes:
    return Path(path).read_bytes()


def of_schema(path: str, schema: int) -> None:
    """A ledger as a daemon of that schema made it, with each example of the versions that it knew as an event."""
    with closing(sqlite3.connect(path)) as connection:
        for script in SCHEMAS[:schema]:
            connection.executescript(script)
        connection.execute("INSERT INTO meta VALUES ('schema_version', ?)", (str(schema),))
        connection.execute(f"PRAGMA application_id = {APPLICATION_ID}")
        connection.execute(SESSION)
        seq = 0
        for (type, version), examples in KEPT.items():
            for number, example in enumerate(examples):
                if schema < 3 and version > 1:
                    continue
                seq += 1
                columns = (seq, type, f"{type}-{version}-{number}", json.dumps(example.stored))
                if schema < 3:
                    connection.execute(f"{EVENT}) VALUES (1, ?, ?, ?, 0, ?)", columns)
                else:
                    connection.execute(f"{EVENT}, version) VALUES (1, ?, ?, ?, 0, ?, ?)", (*columns, version))
        connection.commit()


@pytest.mark.parametrize("schema", [2, 3, 4])
async def test_a_ledger_of_an_older_schema_is_read_as_todays(path: str, schema: int) -> None:
    of_schema(path, schema)
    wanted = [
        (type, dict(example.read))
        for (type, version), examples in KEPT.items()
        for example in examples
        if schema >= 3 or version == 1
    ]
    async with Ledger.open(path) as ledger:
        assert [(event.type, dict(event.body)) for event in await ledger.read("s")] == wanted
        new = await ledger.append("s", "x")
        assert new.seq == len(wanted) + 1
    with closing(sqlite3.connect(path)) as connection:
        stored = connection.execute("SELECT type, version, body FROM events ORDER BY seq").fetchall()
    # As they were: an upgrade rewrites no event.
    for (type, version, body), example in zip(
        stored,
        [(t, v, e) for (t, v), es in KEPT.items() for e in es if schema >= 3 or v == 1],
        strict=False,
    ):
        assert (type, version, json.loads(body)) == (example[0], example[1], dict(example[2].stored))


async def test_a_new_event_is_stored_with_its_types_version(path: str, ledger: Ledger) -> None:
    await ledger.start_call("s", "c", "read", "d", {})
    await ledger.settle("s", "c", {"ok": True})
    with closing(sqlite3.connect(path)) as connection:
        stored = connection.execute("SELECT type, version FROM events ORDER BY seq").fetchall()
    assert stored == [("session/opened", 1), ("tool/call", 2), ("tool/result", 2)]


async def test_a_ledger_with_events_of_a_newer_version_is_refused_and_left_alone(path: str) -> None:
    of_schema(path, len(SCHEMAS))
    with closing(sqlite3.connect(path, isolation_level=None)) as connection:
        connection.execute("INSERT INTO event_versions VALUES ('tool/result', 9)")
    before = content_of(path)
    with pytest.raises(
        ConfigurationError, match=r"newer Stockade \(events tool/result in version 9; this one knows 2\)"
    ):
        async with Ledger.open(path):
            pass
    assert content_of(path) == before


async def test_a_ledger_of_a_newer_schema_is_refused_and_left_alone(path: str) -> None:
    of_schema(path, 2)  # not even the mode of its journal is changed
    with closing(sqlite3.connect(path, isolation_level=None)) as connection:
        connection.execute("UPDATE meta SET value = '1000' WHERE key = 'schema_version'")
    before = content_of(path)
    with pytest.raises(ConfigurationError, match=r"newer Stockade \(schema 1000; this one knows \d+\)"):
        async with Ledger.open(path):
            pass
    assert content_of(path) == before
    assert sorted(os.listdir(os.path.dirname(path))) == ["ledger.db", "ledger.db.lock"]
