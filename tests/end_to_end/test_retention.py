"""A daemon that is configured to forget does so when it starts."""

import json
import sqlite3
from contextlib import closing
from pathlib import Path

from stockade_client import connect
from tests.end_to_end.conftest import Stockade
from tests.end_to_end.stockaded import Stockaded


async def test_old_closed_sessions_are_gone_after_a_start(
    stockaded: Stockaded, stockade: Stockade, workspace: Path
) -> None:
    stockaded.start()
    async with connect(stockaded.address) as daemon:
        for name in ("closed", "open"):
            async with daemon.session(workspace, "dev", id=name) as session:
                assert (await session.call("shell", command="head -c 100000 /dev/zero")).ok
                if name == "closed":
                    await session.close()
    stockaded.end()
    outputs = stockaded.state / "outputs"
    assert len([*outputs.iterdir()]) == 2
    with closing(sqlite3.connect(stockaded.state / "ledger.sqlite3")) as connection:
        connection.execute("UPDATE events SET time_ms = time_ms - ?", (8 * 24 * 60 * 60 * 1000,))
        connection.commit()
    stockaded.start()
    assert len([*outputs.iterdir()]) == 2
    stockaded.end()
    with stockaded.configuration.open("a") as configuration:
        configuration.write("[ledger]\nkeep_days = 7\n")
    stockaded.start()
    listed = stockade("sessions", "--json", daemon=stockaded).stdout.splitlines()
    assert [json.loads(line)["session_id"] for line in listed] == ["open"]
    assert len([*outputs.iterdir()]) == 1
    assert "1 closed sessions of more than 7 days ago were removed" in stockaded.log.read_text()
