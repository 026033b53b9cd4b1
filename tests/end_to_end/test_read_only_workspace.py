"""Commands under a profile that gives them the workspace read-only."""

from pathlib import Path
from typing import Any

import pytest

from stockade_client.session import Session
from tests.end_to_end.session_s import opened, start_with
from tests.end_to_end.stockaded import Stockaded

PROFILES = {
    "reading": 'extends = "ci"\nwiden = ["filesystem.scratch"]\nfilesystem.workspace = "read"\n'
    'filesystem.scratch = ["cache"]\nfilesystem.hidden = [".env"]\n'
}
WRITES = (
    "echo 2 > a.txt",
    "echo 2 > new",
    "sed -i s/one/1/ a.txt",
    "rm a.txt",
    "mv a.txt b.txt",
    "mkdir d",
    "chmod 600 a.txt",
    "python3 -c \"open('a.txt', 'w')\"",
)


@pytest.fixture
def served(stockaded: Stockaded) -> Stockaded:
    return start_with(stockaded, PROFILES)


async def ran(session: Session, command: str, **arguments: Any) -> Any:
    result = await session.call("shell", command=command, **arguments)
    assert result.ok, result.error
    return result.value


async def test_a_write_is_refused_to_the_command_at_once_and_all_else_is_as_ever(
    served: Stockaded, workspace: Path
) -> None:
    before = (workspace / "a.txt").read_bytes()
    (workspace / ".env").write_text("TOKEN")
    async with opened(served, workspace, "reading") as (_, session):
        for command in WRITES:
            value = await ran(session, command)
            assert value["exit_code"] != 0, command
            assert "Read-only file system" in value["stderr"], command
            assert (value["effects"], value["effects_total"], value["effects_disposition"]) == ([], 0, "discarded")
        assert (workspace / "a.txt").read_bytes() == before
        (workspace / "a.txt").write_text("changed outside\n")
        (workspace / "outside").write_text("new\n")
        assert (await ran(session, "cat a.txt outside"))["stdout"] == "changed outside\nnew\n"
        assert (await ran(session, "cat .env; echo $?"))["stdout"] == "1\n"
        assert (await ran(session, "echo x > /tmp/x; cat /tmp/x"))["stdout"] == "x\n"
        await ran(session, "echo kept > cache/x")
        assert (await ran(session, "cat cache/x"))["stdout"] == "kept\n"
        assert not (workspace / "cache").exists()
        async with session.events() as events:
            seen = {str(event.body["access"]) async for event in events if event.type == "call/dispatched"}
        assert seen == {"read"}


async def test_a_job_that_asks_for_a_private_view_has_none_either(served: Stockaded, workspace: Path) -> None:
    async with opened(served, workspace, "reading") as (_, session):
        started = await session.call("shell", command="echo 2 > a.txt", background=True, workspace="overlay")
        assert "cannot change it" in started.text
        (job,) = await session.jobs() or [session.job(str(started.field("job")))]
        result = await job.result()
        assert result.ok
        assert "Read-only file system" in str(result.field("stderr"))
