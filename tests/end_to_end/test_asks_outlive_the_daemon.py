"""A call that waits for an approval, through the wire, when its daemon is killed or told to stop and started again."""

import asyncio
import os
import signal
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from stockade_client import CallResult, connect
from stockade_client.approvals import Ask
from stockade_client.errors import AskAlreadyDecided, AskChanged, NotFound
from stockade_client.session import Session
from tests.end_to_end.session_s import asked, code, opened, result_of, start_with
from tests.end_to_end.stockaded import Stockaded

EDIT = {"path": "a.txt", "old_string": "two", "new_string": "2"}
WAITS = {"asking": 600, "now": 0, "briefly": 1}  # profiles
END = [signal.SIGKILL, signal.SIGTERM]


@pytest.fixture
def served(stockaded: Stockaded) -> Stockaded:
    """A running daemon whose profile `asking` asks about commands and changes, and `now` does so without a wait."""
    text = '[approval]\nwrites = "ask"\ncommands = "ask"\nwait_s = {}\n'
    profiles = {name: text.format(wait_s) for name, wait_s in WAITS.items()}
    profiles["effects"] = '[approval]\ncommands = "allow"\neffects = "ask"\nwait_s = 600\n'
    return start_with(stockaded, profiles)


async def left(served: Stockaded, workspace: Path, tool: str, number: signal.Signals, **arguments: Any) -> Ask:
    """The ask of a call `c` that is waiting while its daemon ends; another daemon has been started."""
    async with opened(served, workspace) as (daemon, session):
        if tool != "shell":
            assert (await session.call("read", path="a.txt")).ok
        await session.start(tool, call_id="c", **arguments)
        ask = await asked(daemon)
        served.end(number)
    served.start()
    return ask


async def story(session: Session) -> list[str]:
    async with session.events() as events:
        return [event.type async for event in events if event.call_id == "c"]


def value(result: CallResult) -> Any:
    assert result.ok, result.error
    return result.value


@pytest.mark.parametrize("number", END)
async def test_a_command_that_was_asked_about_waits_on_as_it_was_and_runs_once(
    served: Stockaded, workspace: Path, number: signal.Signals
) -> None:
    before = await left(served, workspace, "shell", number, command="echo approved")
    async with opened(served, workspace) as (daemon, session):
        (waiting,) = await daemon.calls("s")
        assert (waiting.call_id, waiting.waits_for, waiting.ask_id) == ("c", "approval", before.ask_id)
        ask = await asked(daemon)
        assert (ask.ask_id, ask.shown_hash, ask.card) == (before.ask_id, before.shown_hash, before.card)
        assert ask.expires_ms == before.expires_ms
        await ask.decide(True)
        result = await result_of(daemon)
        assert result.ok, result.error
        assert value(result)["stdout"] == "approved\n"
        types = await story(session)
    for type in ("approval/asked", "approval/decided", "call/dispatched", "tool/result"):
        assert types.count(type) == 1, types


@pytest.mark.parametrize("number", END)
async def test_a_change_that_was_asked_about_is_committed_as_it_was_shown_and_its_body_is_not_run_again(
    served: Stockaded, workspace: Path, number: signal.Signals
) -> None:
    before = await left(served, workspace, "edit", number, **EDIT)
    async with opened(served, workspace) as (daemon, session):
        ask = await asked(daemon)
        assert (ask.ask_id, ask.shown_hash) == (before.ask_id, before.shown_hash)
        assert "-two\n+2\n" in str(ask.card["difference"])
        await ask.decide(True)
        result = await result_of(daemon)
        assert result.ok, result.error
        assert (value(result)["path"], value(result)["replacements"]) == ("a.txt", 1)
        assert "-two\n+2\n" in value(result)["difference"]
        types = await story(session)
        assert types.count("call/dispatched") == types.count("fs/begun") == types.count("fs/committed") == 1
        # What it has committed it knows.
        assert (await session.start("edit", **{**EDIT, "old_string": "2", "new_string": "zwei"})).call_id
        assert "zwei" in str((await asked(daemon)).card["difference"])
    assert (workspace / "a.txt").read_text() == "one\n2\nthree\n"


async def test_a_new_file_and_several_edits_have_the_values_that_their_bodies_would_have_given(
    served: Stockaded, workspace: Path
) -> None:
    await left(served, workspace, "write", signal.SIGKILL, path="new/b.txt", content="hello\n")
    async with opened(served, workspace) as (daemon, session):
        await (await asked(daemon)).decide(True)
        made = value(await result_of(daemon))
        assert (made["path"], made["created"], made["size"]) == ("new/b.txt", True, 6)
        assert (workspace / "new" / "b.txt").read_text() == "hello\n"
        edits: list[Any] = [
            {"old_string": "one", "new_string": "1"},
            {"old_string": "e", "new_string": "E", "replace_all": True},
        ]
        call = await session.start("multi_edit", path="a.txt", edits=edits)
        ask = await asked(daemon)
        served.end(signal.SIGKILL)
        served.start()
        await ask.decide(True)
        result = await call.result()
        assert result.ok, result.error
        assert value(result)["replacements"] == [1, 2]
    assert (workspace / "a.txt").read_text() == "1\ntwo\nthrEE\n"


@pytest.mark.parametrize("tool", ["shell", "edit"])
async def test_a_no_after_a_restart_changes_nothing_and_says_why(served: Stockaded, workspace: Path, tool: str) -> None:
    arguments: dict[str, Any] = EDIT if tool == "edit" else {"command": "echo never"}
    await left(served, workspace, tool, signal.SIGKILL, **arguments)
    async with opened(served, workspace) as (daemon, _):
        await (await asked(daemon)).decide(False, "not today")
        result = await result_of(daemon)
    assert code(result) == "APPROVAL_REJECTED"
    assert "not today" in str(result.error)
    assert (workspace / "a.txt").read_text() == "one\ntwo\nthree\n"


async def test_an_answer_is_known_to_the_next_daemon_and_can_be_given_again(served: Stockaded, workspace: Path) -> None:
    async with opened(served, workspace) as (daemon, session):
        call = await session.start("shell", call_id="c", command="echo once")
        ask, other = await asked(daemon), await asked(daemon)
        first = await ask.decide(True, "fine")
        assert (await call.result()).ok
        served.end(signal.SIGKILL)
        served.start()
        assert await ask.decide(True, "fine") == first
        with pytest.raises(AskAlreadyDecided):
            await other.decide(True)
        with pytest.raises(AskAlreadyDecided):
            await ask.decide(False)
        assert (await story(session)).count("call/dispatched") == 1


async def test_time_goes_on_while_there_is_no_daemon(served: Stockaded, workspace: Path) -> None:
    async with opened(served, workspace, "briefly") as (daemon, session):
        await session.start("shell", call_id="c", command="echo never")
        ask = await asked(daemon)
        served.end(signal.SIGKILL)
        with suppress(TimeoutError):
            async with asyncio.timeout(ask.expires_ms / 1000 - time.time()):
                await asyncio.Event().wait()
        served.start()
        assert code(await result_of(daemon)) == "APPROVAL_EXPIRED"
        with pytest.raises(NotFound):
            await ask.decide(True)


async def test_an_ask_that_does_not_wait_ends_when_no_approver_is_there_after_the_restart(
    served: Stockaded, workspace: Path
) -> None:
    async with opened(served, workspace, "now") as (daemon, session):
        async with daemon.approvals("s") as asks:
            await session.start("shell", call_id="c", command="echo never")
            await anext(asks)
            served.end(signal.SIGKILL)
        served.start()
        assert code(await result_of(daemon)) == "APPROVAL_UNAVAILABLE"


async def test_a_daemon_that_is_told_to_stop_takes_back_what_does_not_wait(served: Stockaded, workspace: Path) -> None:
    async with opened(served, workspace, "now") as (daemon, session), daemon.approvals("s") as asks:
        await session.start("shell", call_id="c", command="echo never")
        await anext(asks)
        served.end()
        served.start()
        assert code(await result_of(daemon)) == "ABORTED_BEFORE_DISPATCH"


def script_changes(workspace: Path, directory: Path) -> None:
    (workspace / "run.sh").write_text("echo other\n")


def profile_changes(workspace: Path, directory: Path) -> None:
    with (directory / "profiles" / "asking.toml").open("a") as profile:
        profile.write("# not what was shown\n")


@pytest.mark.parametrize("change", [script_changes, profile_changes])
async def test_what_was_shown_and_has_changed_before_the_daemon_is_there_again_is_void(
    served: Stockaded, workspace: Path, change: Callable[[Path, Path], None]
) -> None:
    (workspace / "run.sh").write_text("echo shown\n")
    async with opened(served, workspace) as (daemon, session):
        await session.start("shell", call_id="c", command="bash run.sh")
        ask = await asked(daemon)
        served.end(signal.SIGKILL)
        change(workspace, served.directory)
        served.start()
        assert code(await result_of(daemon)) == "APPROVAL_MISMATCH"
        with pytest.raises(AskChanged):
            await ask.decide(True)
        assert "call/dispatched" not in await story(session)


async def test_a_file_that_changed_while_there_was_no_daemon_is_not_overwritten(
    served: Stockaded, workspace: Path
) -> None:
    async with opened(served, workspace) as (daemon, session):
        assert (await session.call("read", path="a.txt")).ok
        await session.start("edit", call_id="c", **EDIT)
        ask = await asked(daemon)
        served.end(signal.SIGKILL)
        (workspace / "a.txt").write_text("one\ntwo\nthree\nfour\n")
        served.start()
        await ask.decide(True)
        assert code(await result_of(daemon)) == "FS_STALE_VERSION"
    assert (workspace / "a.txt").read_text() == "one\ntwo\nthree\nfour\n"


@pytest.mark.parametrize(("tool", "ended"), [("shell", "ABORTED_BEFORE_DISPATCH"), ("edit", "ABORTED")])
async def test_a_call_that_waits_on_can_be_taken_back_and_its_session_closed(
    served: Stockaded, workspace: Path, tool: str, ended: str
) -> None:
    arguments: dict[str, Any] = EDIT if tool == "edit" else {"command": "echo never"}
    ask = await left(served, workspace, tool, signal.SIGKILL, **arguments)
    async with opened(served, workspace) as (daemon, session):
        ask = await asked(daemon)
        await session.close()
        async with session.events() as events:
            (result,) = [event.body async for event in events if event.type == "tool/result" and event.call_id == "c"]
        assert f"'{ended}'" in str(result["error"])
        with pytest.raises(NotFound):
            await ask.decide(True)
    assert (workspace / "a.txt").read_text() == "one\ntwo\nthree\n"


@pytest.mark.parametrize("number", END)
async def test_of_a_turn_the_call_that_was_asked_about_goes_on_and_what_had_not_begun_is_not_begun(
    served: Stockaded, workspace: Path, number: signal.Signals
) -> None:
    async with opened(served, workspace) as (daemon, session):
        calls: list[Any] = [
            ("read", {"path": "a.txt"}),
            ("shell", {"command": "echo 1"}),
            ("shell", {"command": "echo 2"}),
        ]
        turn = asyncio.create_task(session.call_many(calls))
        ask = await asked(daemon)
        served.end(number)
        served.start()
        await ask.decide(True)
        read, ran, behind = await turn
    assert read.ok
    assert ran.ok, ran.error
    assert value(ran)["stdout"] == "1\n"
    assert code(behind) == "TOOL_NOT_STARTED"


@pytest.mark.parametrize("replaced", [True, False])
async def test_a_change_that_waits_for_a_workspace_that_was_moved_ends_with_nothing_changed_and_why(
    served: Stockaded, workspace: Path, replaced: bool
) -> None:
    async with opened(served, workspace, "effects") as (daemon, session):
        await session.start("shell", call_id="c", command="echo more >> a.txt; echo n > new")
        await asked(daemon)
        served.end(signal.SIGKILL)
    before = (workspace / "a.txt").read_bytes()
    elsewhere = await asyncio.to_thread(workspace.rename, workspace.with_name("elsewhere"))
    if replaced:
        await asyncio.to_thread(workspace.mkdir)
    served.start()
    async with connect(served.address) as daemon:
        result = await result_of(daemon)
    assert result.error is not None
    assert result.error.code == "TOOL_OUTCOME_UNKNOWN"
    assert "effects: none (proven)" in result.error.message
    assert "what it had changed" in result.error.message
    assert (f"{workspace} is another directory" if replaced else str(workspace)) in result.error.message
    assert (elsewhere / "a.txt").read_bytes() == before
    assert "new" not in os.listdir(elsewhere)
    assert not replaced or os.listdir(workspace) == []
    assert "Traceback" not in served.log.read_text()
