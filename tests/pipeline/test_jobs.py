"""Background jobs as the engine knows them: which calls are jobs, what is kept of those that have ended, signals."""

import socket
import sqlite3
import tempfile
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from stockade_daemon import json_text
from stockade_daemon.errors import ArgumentsRefusal, RequestError
from stockade_daemon.pipeline.context import Services
from stockade_daemon.pipeline.jobs import is_start
from stockade_daemon.pipeline.jobs_asked import asked
from stockade_daemon.pipeline.wishes import JobWish
from stockade_daemon.policy.subjects import Judged
from tests.pipeline.engines import Tried, an_engine

LIST = JobWish("list", "", "stdout", 0, 16384, "SIGTERM", 0.0)


@pytest.fixture
def place(scratch: Path) -> Path:
    return Path(tempfile.mkdtemp(dir=scratch))


async def a_job(tried: Tried, call_id: str, command: str) -> str:
    """The name of a job that has begun."""
    arguments = json_text.dump({"command": command, "background": True})
    await tried.engine.begin("s", call_id, "shell", arguments)
    record, _ = await tried.engine.wait("s", call_id, 60)
    assert record.result is not None
    value: Any = record.result["value"]
    return str(value["job"])


async def test_what_is_listed_of_a_job_that_has_ended_is_not_read_from_its_value(place: Path) -> None:
    seen: list[Services] = []
    async with an_engine(place, seen.append) as tried:
        job = await a_job(tried, "c", "seq 30000; exit 3")
        await tried.engine.wait("s", job, 60)
        with closing(sqlite3.connect(place / "state" / "ledger")) as connection:
            assert connection.execute("DELETE FROM outputs WHERE call_id = ? AND part = 'value'", (job,)).rowcount == 1
            connection.commit()
        told: Any = await asked(seen[0], tried.engine.jobs, "s", LIST)
        (listed,) = told["jobs"]
        assert (listed["state"], listed["exit_code"], listed["stdout_bytes"]) == ("ended", 3, 168894)


async def test_a_signal_that_reached_nobody_is_not_recorded(place: Path) -> None:
    async with an_engine(place, lambda services: None) as tried:
        job = await a_job(tried, "c", "sleep 1000")
        under_way = tried.engine.jobs.under_way("s", job)
        assert under_way is not None
        assert under_way.worker is not None
        # As though its worker had gone a moment ago.
        under_way.worker._control._socket.shutdown(socket.SHUT_RDWR)
        with pytest.raises(RequestError, match="runs no command"):
            await tried.engine.jobs.signal("s", job, "SIGTERM")
        assert await tried.story("call/signalled") == []


async def test_a_call_that_another_has_started_is_no_job_for_that_alone(place: Path) -> None:
    seen: list[Services] = []
    judged: list[Judged] = []

    def listen(services: Services) -> None:
        async def look(given: Any, following: Any) -> Any:
            judged.append(given)
            return await following()

        seen.append(services)
        services.pre_execute.add(look)

    async with an_engine(place, listen) as tried:
        job = await a_job(tried, "c", "true")
        assert [each.call.call_id for each in judged] == ["c"]
        (starts,) = judged
        assert is_start(starts)
        assert is_start(replace(starts, call=replace(starts.call, parent="program")))
        assert not is_start(replace(starts, call=replace(starts.call, parent="c", background=True)))
        wish = replace(LIST, action="wait", job=job)
        assert (await asked(seen[0], tried.engine.jobs, "s", wish))["jobs"]
        await tried.ledger.start_call("s", "sub", "shell", "d", {"tool": "shell", "parent": "program"})
        with pytest.raises(ArgumentsRefusal, match="has no job 'sub'"):
            await asked(seen[0], tried.engine.jobs, "s", replace(wish, job="sub"))
        await tried.ledger.settle("s", "sub", {"ok": True})
