"""Several approvers and one queue: who looks at an ask, and how it ends, through the wire."""

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio

from stockade.v1 import approvals_pb2
from stockade_client import Daemon
from stockade_client.approvals import Ask
from stockade_client.errors import InvalidRequest, NotFound
from stockade_client.link import Stream
from stockade_client.session import Session
from tests.pipeline.conftest import HANG_S


@pytest_asyncio.fixture
async def asks(daemon: Daemon, asking: Session) -> AsyncIterator[Stream[Ask]]:
    """What an approver of the session sees, with what becomes of it."""
    async with daemon.approvals(asking.session_id, changes=True) as asks:
        yield asks


async def following(asks: Stream[Ask]) -> Ask:
    async with asyncio.timeout(HANG_S):
        return await anext(asks)


async def claim(daemon: Daemon, ask_id: str, **rest: Any) -> approvals_pb2.ClaimResponse:
    link = daemon._link
    wanted: dict[str, Any] = {"claim_id": "c", "lease_s": 30.0} | rest
    return await link.ask(link.approvals.Claim, approvals_pb2.ClaimRequest(ask_id=ask_id, **wanted), "claim")


async def test_a_claim_is_seen_by_other_approvers_and_locks_nothing(
    daemon: Daemon, asking: Session, asks: Stream[Ask]
) -> None:
    call = await asking.start("shell", command="true")
    ask = await following(asks)
    assert ask.claimed_ms == 0
    async with daemon.approvals(asking.session_id) as others:
        theirs = await following(others)
        async with theirs.claim("anna"):
            assert await following(asks) is ask
            assert (ask.claimed_name, ask.claimed_ms > 0, ask.ended) == ("anna", True, "")
            # Whoever comes later sees it at once.
            async with daemon.approvals(asking.session_id) as late:
                assert (await following(late)).claimed_name == "anna"
        assert await following(asks) is ask
        assert (ask.claimed_name, ask.claimed_ms) == ("", 0)
        async with theirs.claim("anna"):
            assert (await following(asks)).claimed_name == "anna"
            await ask.decide(True)
            while not ask.ended:
                await following(asks)
    assert ask.ended == "allowed"
    assert (await call.result()).ok


def names(shown: Ask | approvals_pb2.ClaimResponse) -> list[str]:
    """Of all who look, longest first; and what a client that knows of the first alone gets, is the first."""
    assert [shown.claimed_name] == [each.name for each in shown.claims][:1] or [""]
    assert bool(shown.claimed_ms) == bool(shown.claims)
    return [each.name for each in shown.claims]


async def test_all_claims_are_shown_to_everybody_and_each_ends_by_itself(
    daemon: Daemon, asking: Session, asks: Stream[Ask]
) -> None:
    call = await asking.start("shell", command="true")
    ask = await following(asks)
    async with daemon.approvals(asking.session_id, changes=True) as others:
        theirs = await following(others)
        async with ask.claim("anna"):
            assert names(await following(others)) == names(await following(asks)) == ["anna"]
            # The first one is shown the second, who was shown the first.
            async with theirs.claim("ben"):
                assert await following(asks) is ask
                assert await following(others) is theirs
                assert names(ask) == names(theirs) == ["anna", "ben"]
                assert [each.claim_id for each in ask.claims] == [ask.claim_id, theirs.claim_id]
                assert {each.by for each in ask.claims} == {daemon.info.caller.name}
                assert 0 < ask.claims[0].since_ms <= ask.claims[1].since_ms
                async with daemon.approvals(asking.session_id) as late:
                    assert names(await following(late)) == ["anna", "ben"]
            assert names(await following(asks)) == names(await following(others)) == ["anna"]
        assert names(await following(asks)) == []
    assert names(await claim(daemon, ask.ask_id, claim_id="a", name="cleo", lease_s=0.2)) == ["cleo"]
    assert names(await claim(daemon, ask.ask_id, claim_id="b", name="dan")) == ["cleo", "dan"]
    while names(await following(asks)) != ["dan"]:  # cleo does not renew hers
        pass
    assert names(await claim(daemon, ask.ask_id, claim_id="b", lease_s=0)) == []
    assert names(await following(asks)) == []
    await call.cancel()


async def test_thirty_two_of_those_who_look_are_shown(daemon: Daemon, asking: Session, asks: Stream[Ask]) -> None:
    call = await asking.start("shell", command="true")
    ask = await following(asks)
    for number in range(33):
        shown = await claim(daemon, ask.ask_id, claim_id=f"c{number}", name=f"n{number}")
    assert names(shown) == [f"n{number}" for number in range(32)]
    await claim(daemon, ask.ask_id, claim_id="c0", lease_s=0)
    assert names(await claim(daemon, ask.ask_id, claim_id="c32", name="n32"))[-1] == "n32"
    await call.cancel()


@pytest.mark.parametrize("wrong", [{"name": "an\x1b[2Jna"}, {"name": "x" * 81}, {"claim_id": ""}, {"lease_s": -1.0}])
async def test_a_claim_that_cannot_be_shown_is_refused(
    daemon: Daemon, asking: Session, asks: Stream[Ask], wrong: dict[str, Any]
) -> None:
    call = await asking.start("shell", command="true")
    ask = await following(asks)
    with pytest.raises(InvalidRequest):
        await claim(daemon, ask.ask_id, **wrong)
    await call.cancel()
    with pytest.raises(NotFound):
        await claim(daemon, ask.ask_id)


async def test_watchers_hear_how_each_ask_ends(daemon: Daemon, asking: Session, asks: Stream[Ask]) -> None:
    call = await asking.start("shell", command="true")
    ask = await following(asks)
    await call.cancel()
    assert await following(asks) is ask
    assert (ask.ended, ask.ended_ms > 0) == ("withdrawn", True)
    call = await asking.start("shell", command="true")
    ask = await following(asks)
    await ask.decide(False, "not today")
    assert await following(asks) is ask
    assert ask.ended == "rejected"
    assert "not today" in ask.ended_reason
    assert not (await call.result()).ok


async def test_watchers_hear_of_an_ask_that_expires(daemon: Daemon, workspace: Path) -> None:
    profile = workspace.parent / f"{workspace.name}.toml"
    profile.write_text('[approval]\ncommands = "ask"\nwait_s = 0.2\n')
    async with (
        daemon.session(workspace=workspace, profile=profile) as session,
        daemon.approvals(session.session_id, changes=True) as asks,
    ):
        call = await session.start("shell", command="true")
        ask = await following(asks)
        assert await following(asks) is ask
        assert ask.ended == "expired"
        assert not (await call.result()).ok


async def test_a_client_of_before_changes_hears_of_each_ask_once(daemon: Daemon, asking: Session) -> None:
    link = daemon._link
    stream = link.approvals.Watch(approvals_pb2.WatchAsksRequest(session_id=asking.session_id))
    await stream.initial_metadata()
    first = await asking.start("shell", command="echo 1")
    one: Any = await stream.read()
    await claim(daemon, one.ask_id, name="anna")
    await first.cancel()
    second = await asking.start("shell", command="echo 2")
    two: Any = await stream.read()
    assert (one.call_id, two.call_id) == (first.call_id, second.call_id)
    stream.cancel()
    await second.cancel()
