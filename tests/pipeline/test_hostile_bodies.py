"""Bodies that lie, in real workers: their call fails, nothing else does, and nothing is changed."""

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import aclosing
from pathlib import Path

import pytest
import pytest_asyncio

from stockade_daemon.app import services_of
from stockade_daemon.errors import GateRefusal
from stockade_daemon.gate.copies import Copies
from stockade_daemon.ledger.ledger import Ledger
from stockade_daemon.pipeline import function
from stockade_daemon.pipeline.engine import Engine
from stockade_daemon.pipeline.opening import Opening
from stockade_daemon.pipeline.rules import Rules
from stockade_daemon.pipeline.sessions import Sessions
from stockade_daemon.profiles import read as profiles
from stockade_daemon.sandbox import library, plan
from stockade_daemon.sandbox.pool import Pool
from stockade_daemon.values import Json

LIES = {
    "garbage": "INVALID_TOOL_OUTPUT",
    "oversize": "INVALID_TOOL_OUTPUT",
    "unknown type": "INVALID_TOOL_OUTPUT",
    "exit report": "INVALID_TOOL_OUTPUT",
    "another file's handle": "INVALID_TOOL_OUTPUT",
    "lines that are not there": "INVALID_TOOL_OUTPUT",
    "an edit of an unread file": "INVALID_TOOL_OUTPUT",
    "spans outside": "ABORTED",  # refused as an edit of an unread file; the body then hangs
    "more bytes than spans": "INVALID_TOOL_OUTPUT",
    "a code of the daemon's": "INVALID_TOOL_OUTPUT",
    "a code that is none": "INVALID_TOOL_OUTPUT",
    "a value that is no json": "INVALID_TOOL_OUTPUT",
    "a value with a key twice": "INVALID_TOOL_OUTPUT",
    "a value with nan": "INVALID_TOOL_OUTPUT",
    "a text longer than the frame": "INVALID_TOOL_OUTPUT",
    "a text for the agent that is none": "INVALID_TOOL_OUTPUT",
    "an empty text for the agent": "INVALID_TOOL_OUTPUT",
    "a long text for the agent": "INVALID_TOOL_OUTPUT",
    "texts for the agent without end": "INVALID_TOOL_OUTPUT",
    "silence": "TOOL_FAILED",
    "a handle that is a list": "INVALID_TOOL_OUTPUT",
    "a path with half a character": "INVALID_TOOL_OUTPUT",
    "half a frame": "ABORTED",
    "the control descriptor": "TOOL_FAILED",
}


@pytest.fixture
def workspace(tmp_path: Path) -> Path:
    place = tmp_path / "workspace"
    place.mkdir()
    (place / "a.txt").write_text("one\ntwo\n")
    return place


@pytest_asyncio.fixture
async def engine(tmp_path: Path, workspace: Path, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Engine]:
    """An engine whose workers import the hostile package in place of the built-in tools."""
    here = str(Path(__file__).parent / "hostile")
    packages = {**library.packages(), "hostile": here}
    monkeypatch.setattr(library, "packages", lambda: packages)
    monkeypatch.setattr(plan, "MODULES", ())
    monkeypatch.setattr(function, "_MODULES", "hostile")
    state = tmp_path / "state"
    for place in (state, state / "outputs"):
        place.mkdir(mode=0o700)
    rules = Rules(private=True, workspaces=(), profile_directories=(profiles.shipped(),), own=(state,))
    async with Ledger.open(str(state / "ledger")) as ledger, Pool.start(state) as pool:
        sessions = Sessions(ledger, pool, rules, Copies(state / "copies"))
        async with Engine.start(services_of(ledger, pool, state / "outputs"), sessions, [], grace_s=0) as engine:
            await sessions.open(Opening("s", str(workspace), "dev", None, "ask"))
            yield engine
        sessions.close()


HANG_S = 20.0


def ledger_of(engine: Engine) -> Ledger:
    return engine._services.ledger


async def called(engine: Engine, lie: str, seconds: float = HANG_S) -> dict[str, Json]:
    """The result of one call of the hostile `read`; a call that hangs is cancelled after a while."""
    await engine.begin("s", "c", "read", json.dumps({"path": lie}).encode())
    if seconds < HANG_S:
        async with aclosing(ledger_of(engine).follow("s")) as events:
            async for event in events:
                if event.type == "call/dispatched":
                    break
    record, _ = await engine.wait("s", "c", seconds)
    if record.result is None:
        await engine.cancel("s", "c")
        record, _ = await engine.wait("s", "c", seconds)
    assert record.result is not None
    return dict(record.result)


@pytest.mark.parametrize(("lie", "code"), LIES.items(), ids=LIES.keys())
async def test_a_lie_fails_its_call_and_changes_nothing(engine: Engine, workspace: Path, lie: str, code: str) -> None:
    result = await called(engine, lie, seconds=0.5 if code == "ABORTED" else HANG_S)
    assert not result["ok"]
    error = result["error"]
    assert isinstance(error, dict)
    assert error["code"] == code, error
    assert await asyncio.to_thread((workspace / "a.txt").read_text) == "one\ntwo\n"


async def test_of_a_body_that_lied_once_nothing_it_says_to_have_shown_counts(engine: Engine) -> None:
    assert not (await called(engine, "lines that are not there"))["ok"]
    (session,) = engine.sessions.at_hand()
    with pytest.raises(GateRefusal) as caught:
        await session.gate.read("a.txt", editing=True)
    assert caught.value.code == "FS_NOT_OBSERVED"
    assert "fs/observed" not in {event.type for event in await ledger_of(engine).read("s")}


@pytest.mark.parametrize(
    ("lie", "words"),
    [
        ("a code of the daemon's", "'APPROVAL_REJECTED', which is not a tool's to give"),
        ("a code that is none", "'NO_SUCH_CODE', which is unknown"),
    ],
)
async def test_what_is_said_beside_a_code_that_is_not_a_tools_is_kept(engine: Engine, lie: str, words: str) -> None:
    error = (await called(engine, lie))["error"]
    assert isinstance(error, dict)
    message = str(error["message"])
    assert words in message
    assert message.endswith("and said: the person said no" if "daemon" in lie else "and said: x")
    assert "TOOL_FAILED" in message


async def test_what_a_body_prints_is_data_and_no_answer(engine: Engine) -> None:
    assert (await called(engine, "noise on stdout"))["value"] == {"path": "honest", "size": 0, "digest": ""}


async def test_a_second_answer_comes_too_late(engine: Engine) -> None:
    assert (await called(engine, "everything twice"))["value"] == {"path": "first", "size": 0, "digest": ""}
