"""`stockade ps`, `cancel` and `stop`: what is under way, and how whoever started it, it is ended."""

import asyncio
import json
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from subprocess import CompletedProcess

import pytest
import pytest_asyncio

from stockade_client import Call, Daemon, Session

Stockade = Callable[..., "CompletedProcess[bytes]"]


@pytest_asyncio.fixture
async def session(daemon: Daemon, workspace: Path) -> AsyncIterator[Session]:
    async with daemon.session(workspace, "dev") as session:
        yield session


async def running(session: Session, call_id: str) -> Call:
    """A call that ends when it is made to."""
    call = await session.start("shell", call_id=call_id, command="echo begun; exec sleep 600")
    async with call.output() as chunks:
        async for _ in chunks:
            break
    return call


def shown(done: "CompletedProcess[bytes]", status: int = 0) -> str:
    assert done.returncode == status, done
    return (done.stdout if status == 0 else done.stderr).decode()


async def test_ps_lists_calls_with_what_they_wait_for(stockade: Stockade, session: Session) -> None:
    await running(session, "one")
    text = shown(await asyncio.to_thread(stockade, "ps"))
    line = next(each for each in text.splitlines() if session.session_id in each)
    assert line.split()[:5] == [session.session_id, "one", session.info.principal, "shell", "running"]
    listed = json.loads(shown(await asyncio.to_thread(stockade, "ps", session.session_id, "--json")))
    assert listed["since_ms"] > session.info.opened_ms
    del listed["since_ms"]
    assert listed == {
        "session_id": session.session_id,
        "call_id": "one",
        "tool": "shell",
        "state": "running",
        "turn_id": "",
        "waits_for": "",
        "ask_id": "",
        "parent": "",
        "card": {
            "title": "Run echo begun; exec sleep 600",
            "view": "terminal",
            "command": "echo begun; exec sleep 600",
        },
    }


async def test_ps_shows_jobs_and_cancel_ends_one(stockade: Stockade, session: Session) -> None:
    starting = await session.start("shell", call_id="one", command="exec sleep 600", background=True)
    await starting.result()
    [job] = await session.jobs()
    text = shown(await asyncio.to_thread(stockade, "ps", session.session_id))
    assert "job of one" in next(each for each in text.splitlines() if job.call_id in each)
    assert "ABORTED: " in shown(await asyncio.to_thread(stockade, "cancel", job.call_id))
    assert await session.jobs() == []


async def test_ps_names_the_ask_that_a_call_waits_for(stockade: Stockade, daemon: Daemon, workspace: Path) -> None:
    profile = workspace / "asks.toml"
    profile.write_text('extends = "dev"\n[approval]\ncommands = "ask"\n')
    async with daemon.session(workspace, profile) as session, daemon.approvals(session.session_id) as asks:
        await session.start("shell", call_id="one", command="true")
        ask = await anext(asks)
        done = await asyncio.to_thread(stockade, "ps", session.session_id)
        text = shown(done)
    assert b"1 call waits for an answer; `stockade approve` shows" in done.stderr
    assert " pending " in text
    assert f"waits for an answer to {ask.ask_id}" in text


async def test_cancel_ends_a_call_and_says_what_it_came_to(stockade: Stockade, session: Session) -> None:
    call = await running(session, "one")
    assert "ABORTED: " in shown(await asyncio.to_thread(stockade, "cancel", "one"))
    result = await call.result()
    assert result.error is not None
    assert result.error.code == "ABORTED"
    again = shown(await asyncio.to_thread(stockade, "cancel", "one"), 2)
    assert "`stockade ledger one` tells what became of it" in again
    await running(session, "two")
    as_json = json.loads(shown(await asyncio.to_thread(stockade, "cancel", "two", "--json")))
    assert (as_json["session_id"], as_json["error"]["code"]) == (session.session_id, "ABORTED")


async def test_cancel_wants_the_session_where_two_have_a_call_of_that_id(
    stockade: Stockade, daemon: Daemon, session: Session, workspace: Path
) -> None:
    await running(session, "same")
    async with daemon.session(workspace, "dev") as other:
        await running(other, "same")
        refused = shown(await asyncio.to_thread(stockade, "cancel", "same"), 2)
        assert session.session_id in refused
        assert "add --session NAME" in refused
        shown(await asyncio.to_thread(stockade, "cancel", "same", "--session", other.session_id))
        assert [call.call_id for call in await daemon.calls(other.session_id)] == []
        assert [call.call_id for call in await daemon.calls(session.session_id)] == ["same"]


async def test_output_says_which_call_it_shows_where_one_is_under_way_and_wants_the_session_of_several(
    stockade: Stockade, daemon: Daemon, session: Session, workspace: Path
) -> None:
    await (await session.start("shell", call_id="again", command="echo ended")).result()
    done = await asyncio.to_thread(stockade, "output", "again")
    assert (done.returncode, done.stdout, done.stderr) == (0, b"ended\n", b"")
    async with daemon.session(workspace, "dev") as other, daemon.session(workspace, "dev") as third:
        await running(other, "again")
        done = await asyncio.to_thread(stockade, "output", "again")
        assert (done.returncode, done.stdout) == (0, b"begun\n")
        assert f"call again of session {other.session_id}, which is under way; --session NAME" in done.stderr.decode()
        done = await asyncio.to_thread(stockade, "output", "again", "--session", session.session_id)
        assert (done.returncode, done.stdout, done.stderr) == (0, b"ended\n", b"")
        await running(third, "again")
        refused = shown(await asyncio.to_thread(stockade, "output", "again"), 2)
        assert other.session_id in refused
        assert third.session_id in refused
        assert "add --session NAME" in refused


async def test_stop_ends_a_session_with_its_calls(stockade: Stockade, daemon: Daemon, workspace: Path) -> None:
    async with daemon.session(workspace, "dev", id="to-stop") as session:
        call = await running(session, "one")
        assert shown(await asyncio.to_thread(stockade, "stop", "to-stop")) == (
            "to-stop closed; calls that were under way: 1\n"
        )
        result = await call.result()
        assert result.error is not None
        assert result.error.code == "ABORTED"
    assert shown(await asyncio.to_thread(stockade, "stop", "to-stop")) == "to-stop was closed before\n"
    assert json.loads(shown(await asyncio.to_thread(stockade, "stop", "to-stop", "--json")))["state"] == "closed"
    listed = shown(await asyncio.to_thread(stockade, "sessions", "--json")).splitlines()
    assert [each["state"] for each in map(json.loads, listed) if each["session_id"] == "to-stop"] == ["closed"]


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("ps", "nobody"), "nobody"),
        (("cancel", "nothing"), "`stockade ps` lists those that are"),
        (("cancel", "nothing", "--session", "nobody"), "nobody"),
        (("stop", "nobody"), "`stockade sessions` lists those there are"),
    ],
)
async def test_what_is_not_there_is_a_usage_error_that_says_what_to_do(
    stockade: Stockade, arguments: tuple[str, ...], words: str
) -> None:
    assert words in shown(await asyncio.to_thread(stockade, *arguments), 2)


async def test_lists_without_anything_say_what_to_do_and_unknown_names_what_was_meant(
    stockade: Stockade, daemon: Daemon, workspace: Path
) -> None:
    async with daemon.session(workspace, "dev", id="quiet-session") as session:
        done = await asyncio.to_thread(stockade, "ps", session.session_id)
        assert (done.returncode, done.stdout) == (0, b"")
        assert b"no call is under way; `stockade sessions` lists" in done.stderr
        assert (await asyncio.to_thread(stockade, "ps", session.session_id, "--json")).stderr == b""
        for arguments in (("ps", "quiet-sesion"), ("ledger", "quiet-sesion")):
            assert "perhaps quiet-session" in shown(await asyncio.to_thread(stockade, *arguments), 2)
        await daemon.close_session(session.session_id)


async def test_sessions_are_listed_with_whose_they_are_in_columns_as_wide_as_they_need(
    daemon: Daemon, stockade: Stockade, workspace: Path
) -> None:
    long = "a-session-with-a-name-of-more-than-twenty-eight-characters"
    async with daemon.session(workspace, "dev", id=long) as one, daemon.session(workspace, "dev") as two:
        lines = shown(await asyncio.to_thread(stockade, "sessions")).splitlines()
        await one.close()
    first, second = (next(line for line in lines if line.startswith(each.session_id)) for each in (one, two))
    assert first.split()[1] == second.split()[1] == "open"
    assert first.index("  open  ") == second.index("  open  ")
    assert first.split()[4] == second.split()[4] == two.info.principal
