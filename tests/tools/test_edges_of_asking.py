"""What holds when a call is judged and asked about, from a client through the socket to a daemon with a plugin."""

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
import pytest_asyncio

from stockade.v1 import approvals_pb2, calls_pb2
from stockade_client import CallResult, Daemon
from stockade_client.errors import NotFound
from stockade_client.session import Session
from tests.tools.test_plugins import HANG_S, install, serving

PLUGIN = """
import asyncio, os
from stockade_daemon.plugins import Ask, Deny

EXTENSIONS = []

def command(judged):
    return str(judged.call.arguments.get("command"))

async def pre(judged, following):
    if "denied" in command(judged):
        return Deny("nobody does that here")
    if "late" in command(judged):
        while not os.path.exists(os.path.join(judged.session.workspace, "go")):
            await asyncio.sleep(0.01)
        if "broken" in command(judged):
            raise ValueError("nobody knows")
        return Deny("it took a while to see")
    if "anything" in command(judged):
        return True
    return Ask("a plugin asks") if "asked" in command(judged) else await following()

def first(judged):
    if "adds" in command(judged):
        EXTENSIONS[0].guard(lambda judged: "the one that was added" if "adds" in command(judged) else None)
    return "the first says no" if "both" in command(judged) else None

def second(judged):
    return "the second says no" if "both" in command(judged) or "second" in command(judged) else None

def see(settled):
    raise ValueError("an observer that fails")

def register(extensions):
    EXTENSIONS.append(extensions)
    extensions.observe(see)
    extensions.pre_execute(pre)
    extensions.guard(first)
    extensions.guard(second)
"""


@pytest.fixture
def workspace(place: Path) -> Path:
    made = place / "workspace"
    made.mkdir()
    return made


@pytest_asyncio.fixture
async def daemon(place: Path, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Daemon]:
    install(place, monkeypatch, PLUGIN)
    async with serving(place, '["house-rules"]') as (daemon, _):
        yield daemon


@pytest_asyncio.fixture
async def session(daemon: Daemon, workspace: Path) -> AsyncIterator[Session]:
    async with daemon.session(workspace, "mine") as session:
        yield session


def said(result: CallResult) -> tuple[str, str]:
    return (result.error.code, result.error.message) if result.error else ("ok", "")


async def types(session: Session, call_id: str) -> list[str]:
    async with session.events() as events:
        return [event.type async for event in events if event.call_id == call_id]


async def test_a_denial_goes_on_at_post_execute_and_asks_guards_and_runs_nothing(session: Session) -> None:
    result = await session.call("shell", command="echo denied asked")
    assert said(result) == ("DENIED", "nobody does that here")
    assert await types(session, result.call_id) == [
        "tool/call", "policy/pre-execute", "policy/post-execute", "tool/result",
    ]  # fmt: skip


async def test_a_guard_denies_what_a_person_has_allowed_and_no_later_one_can_allow_it(
    daemon: Daemon, session: Session
) -> None:
    async with daemon.approvals(session.session_id) as asks:
        for words, reason in (("asked second", "the second says no"), ("asked both", "the first says no")):
            call = await session.start("shell", command=f"echo {words}")
            await (await anext(asks)).decide(True)
            assert said(await call.result()) == ("DENIED", reason)
            recorded = await types(session, call.call_id)
            assert "approval/decided" in recorded
            assert "call/dispatched" not in recorded


async def test_a_guard_that_a_guard_registers_is_asked_about_the_same_call(session: Session) -> None:
    assert said(await session.call("shell", command="echo adds")) == ("DENIED", "the one that was added")


async def test_what_is_no_decision_is_no_allow_and_shows_nothing_to_an_approver(
    daemon: Daemon, session: Session
) -> None:
    async with daemon.approvals(session.session_id) as asks:
        result = await session.call("shell", command="echo anything")
        assert said(result)[0] == "HOOK_FAILED"
        assert await types(session, result.call_id) == ["tool/call", "tool/result"]
        call = await session.start("shell", command="echo asked")
        assert (await anext(asks)).call == call.call_id
        await call.cancel()


async def test_an_observer_that_fails_after_the_result_was_recorded_changes_nothing(session: Session) -> None:
    result = await session.call("shell", command="echo hello")
    assert result.ok, result.error
    assert (await types(session, result.call_id))[-1] == "tool/result"


@pytest.mark.parametrize(
    ("word", "outcome"),
    [("", ("DENIED", "it took a while to see")), (" broken", ("HOOK_FAILED", "nobody knows"))],
    ids=["denial", "failure"],
)
async def test_a_denial_or_failure_that_comes_after_the_call_was_taken_back_is_kept(
    daemon: Daemon, session: Session, workspace: Path, word: str, outcome: tuple[str, str]
) -> None:
    call = await session.start("shell", command=f"echo late{word}")
    taking_back = asyncio.create_task(call.cancel())
    await daemon.calls()  # behind it on the same connection
    (workspace / "go").touch()
    async with asyncio.timeout(HANG_S):
        await taking_back
        code, message = said(await call.result())
        assert code == outcome[0]
        assert outcome[1] in message


async def test_an_approver_of_another_session_hears_nothing_and_does_not_count(
    daemon: Daemon, session: Session, workspace: Path
) -> None:
    async with daemon.session(workspace, "mine") as other, daemon.approvals(other.session_id) as asks:
        code, _ = said(await session.call("shell", command="echo asked"))
        assert code == "APPROVAL_UNAVAILABLE"
        call = await other.start("shell", command="echo asked")
        ask = await anext(asks)
        assert ask.session_id == other.session_id
        await ask.decide(True)
        assert (await call.result()).ok


async def test_an_ask_is_in_the_ledger_when_it_is_seen_and_each_has_an_id_of_its_own(
    daemon: Daemon, session: Session
) -> None:
    ids = []
    async with daemon.approvals(session.session_id) as asks:
        for _ in range(2):
            call = await session.start("shell", command="echo asked")
            ask = await anext(asks)
            async with session.events() as events:
                bodies = [event.body async for event in events if event.type == "approval/asked"]
            assert bodies[-1]["ask_id"] == ask.ask_id
            assert bodies[-1]["shown_hash"] == ask.shown_hash
            ids.append(ask.ask_id)
            await call.cancel()
            # An answer that comes too late changes nothing.
            with pytest.raises(NotFound):
                await ask.decide(True)
            assert "call/dispatched" not in await types(session, call.call_id)
    assert len(set(ids)) == 2


async def test_there_is_no_call_without_a_session_and_no_answer_without_an_ask(
    daemon: Daemon, session: Session
) -> None:
    link = daemon._link
    request = approvals_pb2.DecideRequest(ask_id="none", shown_hash="0" * 64, allow=True, decision_id="d")
    with pytest.raises(NotFound):
        await link.ask(link.approvals.Decide, request, "answer")
    async with session.events() as events:
        assert [event.type async for event in events] == ["session/opened"]
    start = calls_pb2.StartCallRequest(session_id="nobody", call_id="c", tool="shell", arguments=b'{"command": "true"}')
    with pytest.raises(NotFound):
        await link.ask(link.calls.Start, start, "start a call")
