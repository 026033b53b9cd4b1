"""A ledger of an older version becomes one of this version, with all that it held."""

import sqlite3
from contextlib import closing

from stockade_daemon.ledger import Ledger
from stockade_daemon.ledger.tables import APPLICATION_ID, SCHEMAS

SESSIONS = """
INSERT INTO sessions VALUES
    (1, 'named', x'2f', '1', '2', 'dev', 'd1', '/etc/stockade/profiles/dev.toml',
     CAST('extends = "ci"' AS BLOB), 'ask', 'open', 5),
    (2, 'text', x'2f', '1', '2', './dev.toml', 'd2', './dev.toml', x'', 'never', 'open', 6),
    (3, 'nameless', x'2f', '1', '2', '', 'd3', '', x'', 'ask', 'closed', 7);
INSERT INTO events VALUES (1, 1, 'session/opened', '', 5, '{}');
INSERT INTO calls VALUES (1, 'c', 'read', 'x', 'pending');
"""


def of_version_1(path: str) -> None:
    with closing(sqlite3.connect(path)) as connection:
        connection.executescript(SCHEMAS[0])
        connection.execute("INSERT INTO meta VALUES ('schema_version', '1')")
        connection.execute(f"PRAGMA application_id = {APPLICATION_ID}")
        connection.executescript(SESSIONS)


async def test_a_file_of_version_1_is_taken_over_and_knows_which_profiles_were_chosen_by_name(path: str) -> None:
    of_version_1(path)
    async with Ledger.open(path) as ledger:
        found = await ledger.sessions()
        assert [(each.session_id, each.profile_by_name) for each in found] == [
            ("named", True),
            ("text", False),
            ("nameless", False),
        ]
        # By whom, was not recorded then.
        assert {each.principal for each in found} == {""}
        assert [event.principal for event in await ledger.read("named")] == [""]
        assert found[0].profile_text == b'extends = "ci"'
        assert [event.type for event in await ledger.read("named")] == ["session/opened"]
        assert [each.call.call_id for each in await ledger.unsettled()] == ["c"]
        await ledger.change_profile("named", digest="d9", source="/s", text=b"", body={"digest": "d9"})
    async with Ledger.open(path) as ledger:
        named = await ledger.session("named")
        assert named is not None
        assert (named.profile_digest, named.profile_source, named.profile_by_name) == ("d9", "/s", True)
        assert [event.type for event in await ledger.read("named")] == ["session/opened", "session/profile"]
    with closing(sqlite3.connect(path)) as connection:
        version = connection.execute("SELECT value FROM meta WHERE key = 'schema_version'").fetchone()
    assert version == (str(len(SCHEMAS)),)
