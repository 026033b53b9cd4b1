"""Asks and answers, through the wire."""

import asyncio
from pathlib import Path
from typing import Any

import pytest

from stockade.v1 import approvals_pb2
from stockade_client import Daemon
from stockade_client.approvals import Ask
from stockade_client.errors import AskAlreadyDecided, AskChanged, InvalidRequest
from stockade_client.session import Session
from tests.pipeline.test_calls import code, types, value


async def test_a_command_that_is_asked_about_runs_after_a_yes(asking: Session, daemon: Daemon) -> None:
    async with daemon.approvals(asking.session_id) as asks:
        call = await asking.start("shell", command="echo approved")
        async for ask in asks:
            assert ask.card["arguments"] == {"command": "echo approved"}
            await ask.decide(True)
            break
        assert value(await call.result())["stdout"] == "approved\n"


async def test_a_no_carries_its_reason_to_the_agent(asking: Session, daemon: Daemon) -> None:
    async with daemon.approvals(asking.session_id) as asks:
        call = await asking.start("shell", command="rm -rf /")
        async for ask in asks:
            await ask.decide(False, reason="not on a Monday")
            break
        result = await call.result()
    assert code(result) == "APPROVAL_REJECTED"
    assert result.error is not None
    assert "not on a Monday" in result.error.message


async def test_an_edit_is_asked_about_once_with_the_exact_difference(
    session: Session, daemon: Daemon, workspace: Path
) -> None:
    seen: list[Ask] = []

    async def approve(ask: Ask) -> bool:
        seen.append(ask)
        await ask.decide(True)
        return True

    async with daemon.session(workspace=workspace, profile="dev", approve=approve) as mine:
        await mine.call("read", path="a.txt")
        result = await mine.call("edit", path="a.txt", old_string="two", new_string="2")
        assert result.ok, result
    (ask,) = seen
    assert ask.card["path"] == "a.txt"
    assert "-two\n+2\n" in str(ask.card["difference"])
    assert (workspace / "a.txt").read_text() == "one\n2\nthree\n"


async def test_a_change_between_the_question_and_the_answer_commits_nothing(
    session: Session, daemon: Daemon, workspace: Path
) -> None:
    await session.call("read", path="a.txt")
    async with daemon.approvals(session.session_id) as asks:
        call = await session.start("edit", path="a.txt", old_string="two", new_string="2")
        async for ask in asks:
            (workspace / "a.txt").write_text("one\ntwo\nthree\nfour\n")
            await ask.decide(True)
            break
        assert code(await call.result()) == "FS_STALE_VERSION"
    assert (workspace / "a.txt").read_text() == "one\ntwo\nthree\nfour\n"


async def test_with_nobody_there_and_no_wait_the_answer_comes_at_once(session: Session) -> None:
    await session.call("read", path="a.txt")
    result = await session.call("edit", path="a.txt", old_string="two", new_string="2")
    assert code(result) == "APPROVAL_UNAVAILABLE"


async def test_when_the_last_approver_leaves_a_question_without_a_wait_ends(session: Session, daemon: Daemon) -> None:
    await session.call("read", path="a.txt")
    async with daemon.approvals(session.session_id) as asks:
        call = await session.start("edit", path="a.txt", old_string="two", new_string="2")
        async for _ in asks:
            break
    assert code(await call.result()) == "APPROVAL_UNAVAILABLE"


async def test_the_policy_never_rejects_and_shows_the_question_to_nobody(
    daemon: Daemon, workspace: Path, asking: Session
) -> None:
    profile = workspace.parent / f"{workspace.name}.toml"
    async with (
        daemon.approvals() as asks,
        daemon.session(workspace=workspace, profile=profile, approval_policy="never") as session,
    ):
        call = await session.start("shell", command="echo no")
        assert code(await call.result()) == "APPROVAL_REJECTED"
        assert (await types(session, call.call_id))[2:4] == ["approval/asked", "approval/decided"]
        # The first ask that this approver sees is the next session's.
        later = await asking.start("shell", command="echo later")
        async for ask in asks:
            assert ask.session_id == asking.session_id
            await ask.decide(False)
            break
        await later.result()


async def test_an_ask_expires(daemon: Daemon, workspace: Path) -> None:
    profile = workspace.parent / f"{workspace.name}-short.toml"
    profile.write_text('[approval]\ncommands = "ask"\nwait_s = 0.2\n')
    async with daemon.session(workspace=workspace, profile=profile) as session:
        assert code(await session.call("shell", command="echo no")) == "APPROVAL_EXPIRED"


async def test_the_first_of_many_answers_wins_and_only_one_runs(asking: Session, daemon: Daemon) -> None:
    async with daemon.approvals(asking.session_id) as asks:
        call = await asking.start("shell", command="echo once")
        async for ask in asks:
            link: Any = daemon._link
            answers = [
                approvals_pb2.DecideRequest(
                    ask_id=ask.ask_id, shown_hash=ask.shown_hash, allow=bool(number % 2), decision_id=f"mine-{number}"
                )
                for number in range(20)
            ]
            settled = await asyncio.gather(
                *(link.ask(link.approvals.Decide, answer, "decide") for answer in answers), return_exceptions=True
            )
            break
        result = await call.result()
    won = [each for each in settled if not isinstance(each, BaseException)]
    assert len(won) == 1
    assert all(isinstance(each, AskAlreadyDecided) for each in settled if isinstance(each, BaseException))
    assert code(result) in ("ok", "APPROVAL_REJECTED")
    assert (await types(asking, call.call_id)).count("approval/decided") == 1


async def test_an_answer_to_another_card_is_refused_and_the_ask_stays(asking: Session, daemon: Daemon) -> None:
    async with daemon.approvals(asking.session_id) as asks:
        call = await asking.start("shell", command="echo shown")
        async for ask in asks:
            link: Any = daemon._link
            request = approvals_pb2.DecideRequest(
                ask_id=ask.ask_id, shown_hash="0" * 64, allow=True, decision_id="mine"
            )
            with pytest.raises(AskChanged):
                await link.ask(link.approvals.Decide, request, "decide")
            await ask.decide(True)
            break
        assert value(await call.result())["stdout"] == "shown\n"


@pytest.mark.parametrize("decision_id", ["", "x" * 129, "two words", "\u202ed"])
async def test_an_answer_whose_id_is_none_is_refused_and_the_ask_stays(
    asking: Session, daemon: Daemon, decision_id: str
) -> None:
    async with daemon.approvals(asking.session_id) as asks:
        call = await asking.start("shell", command="echo shown")
        ask = await anext(asks)
        ask._decision_id = decision_id
        with pytest.raises(InvalidRequest, match="decision_id must be 1 to 128 of"):
            await ask.decide(True)
        assert await types(asking, call.call_id) == ["tool/call", "policy/pre-execute", "approval/asked"]
        await call.cancel()


async def test_the_clock_of_the_tool_stands_while_a_person_thinks(daemon: Daemon, workspace: Path) -> None:
    """The profile allows one second; the answer takes longer than that by waiting for another call of two."""
    profile = workspace.parent / f"{workspace.name}-second.toml"
    profile.write_text('[limits]\nwall_s = 1\n[approval]\nwrites = "ask"\nwait_s = 600\n')
    async with (
        daemon.session(workspace=workspace, profile=profile) as session,
        daemon.session(workspace=workspace, profile="dev") as other,
        daemon.approvals(session.session_id) as asks,
    ):
        await session.call("read", path="a.txt")
        call = await session.start("edit", path="a.txt", old_string="two", new_string="2")
        async for ask in asks:
            await other.call("shell", command="sleep 1.5")
            await ask.decide(True)
            break
        assert (await call.result()).ok
