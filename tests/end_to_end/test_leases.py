"""A session with a lease ends when nobody opens it again: a program that is killed leaves nothing at its daemon."""

import asyncio
import os
import signal
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path

import pytest

from stockade.v1.sessions_pb2 import OpenSessionRequest
from stockade_client import AlreadyExists, Daemon, Event, InvalidRequest, NotFound, NotPossible, connect
from stockade_client.session import Session
from tests.end_to_end.proxy import between
from tests.end_to_end.stockaded import COMMAND_S, Stockaded

HOUR_S = 3600.0


async def told(daemon: Daemon, session_id: str) -> list[Event]:
    """All events of a session, once it is closed."""
    async with asyncio.timeout(COMMAND_S), daemon.events(session_id, follow=True) as events:
        return [event async for event in events]


async def dispatched(daemon: Daemon, session_id: str) -> None:
    async with asyncio.timeout(COMMAND_S), daemon.events(session_id, follow=True) as events:
        async for event in events:
            if event.type == "call/dispatched":
                return


async def opened(daemon: Daemon, workspace: Path, id: str, lease_s: float, *, renewal: bool = False) -> Session:
    """A session that nobody renews."""
    request = OpenSessionRequest(
        session_id=id, workspace=str(workspace), profile_name="ci", lease_s=lease_s, renewal=renewal
    )
    request.approval_policy, request.workspace_view = "ask", "itself"
    return Session(daemon._link, await daemon._open(request, close=False))


def ended_by_its_lease(event: Event, seconds: float) -> bool:
    reason = f"its lease of {seconds:g} s ended, since Open was not repeated"
    return (event.type, event.principal, event.body) == ("session/closed", "daemon", {"reason": reason})


async def test_a_session_that_nobody_opens_again_is_closed_with_the_reason(shared: Stockaded, workspace: Path) -> None:
    async with connect(shared.address) as daemon:
        session = await opened(daemon, workspace, "left", 1)
        assert session.info.lease_s == 1
        call = await session.start("shell", call_id="c", command="exec sleep 600")
        turn = asyncio.create_task(
            session.turn_json([("shell", b'{"command": "sleep 600"}', str(n)) for n in range(2)])
        )
        events = await told(daemon, "left")
        assert events[0].body["lease_s"] == 1
        assert ended_by_its_lease(events[-1], 1)
        for result in (await call.result(), *await turn):
            assert result.error is not None
            assert result.error.code in ("ABORTED", "ABORTED_BEFORE_DISPATCH")
            assert result.error.message.startswith("the session's lease ended")
        ends = [event.principal for event in events if event.type == "tool/result"]
        assert ends == ["daemon"] * 3
        # And that is how it stays, for whoever comes back.
        ended = "session left is closed: its lease of 1 s ended, since Open was not repeated; open another one"
        for attempt in (session.call("read", path="a.txt"), opened(daemon, workspace, "left", 1)):
            with pytest.raises(NotPossible) as raised:
                await attempt
            assert str(raised.value) == ended
        assert (await daemon.close_session("left")).state == "closed"


async def test_a_session_object_renews_its_lease_and_closes_its_session(shared: Stockaded, workspace: Path) -> None:
    async with connect(shared.address) as daemon:
        async with daemon.session(workspace, "ci", lease_s=3) as session:
            assert (await session.call("shell", command="sleep 8")).ok
        events = await told(daemon, session.session_id)
        assert (events[-1].type, events[-1].body) == ("session/closed", {})
        # One with an id stays for as long as the lease is, and is resumed with it.
        async with daemon.session(workspace, "ci", id="kept", lease_s=2):
            pass
        async with daemon.session(id="kept") as session:
            assert session.info.lease_s == 2
            assert (await session.call("shell", command="sleep 5")).ok
        assert ended_by_its_lease((await told(daemon, "kept"))[-1], 2)


async def test_a_client_that_was_cut_off_for_longer_than_its_lease_is_told(
    shared: Stockaded, workspace: Path, directory: Path
) -> None:
    socket = directory / "proxy.sock"
    async with AsyncExitStack() as way, connect(shared.address) as beside:
        await way.enter_async_context(between(shared.socket, socket))
        async with (
            connect(f"unix:{socket}") as daemon,
            daemon.session(workspace, "ci", lease_s=1, workspace_view="copy") as session,
        ):
            call = await session.start("shell", command="exec sleep 600")
            await dispatched(beside, session.session_id)
            await way.aclose()
            assert ended_by_its_lease((await told(beside, session.session_id))[-1], 1)
            async with between(shared.socket, socket):
                result = await call.result()
                assert result.error is not None
                assert result.error.code == "ABORTED"
                assert "the session's lease ended while it ran" in result.error.message
                with pytest.raises(NotPossible, match="is closed: its lease of 1 s ended, since Open was not repeated"):
                    await session.call("read", path="a.txt")
                await session.close()  # returns when all that it held is gone
                assert f"of-{session.session_id}" not in os.listdir(shared.state / "copies")


@asynccontextmanager
async def leased_sessions(stockaded: Stockaded, workspace: Path, lease_s: float) -> AsyncIterator[None]:
    """A daemon with sessions of this lease, on the workspace and on a copy, that nobody renews."""
    stockaded.start()
    async with connect(stockaded.address) as daemon:
        session = await opened(daemon, workspace, "itself", lease_s)
        assert (await session.call("read", path="a.txt")).ok
        async with daemon.session(workspace, "ci", id="copy", workspace_view="copy", lease_s=lease_s):
            pass
    yield


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM])
async def test_a_lease_begins_anew_with_the_next_daemon(
    stockaded: Stockaded, workspace: Path, number: signal.Signals
) -> None:
    async with leased_sessions(stockaded, workspace, 2):
        stockaded.end(number)
        stockaded.start()
    async with connect(stockaded.address) as daemon:
        assert (await daemon.get_session("itself")).lease_s == 2
        assert ended_by_its_lease((await told(daemon, "itself"))[-1], 2)
        assert (await told(daemon, "copy"))[-1].type == "session/closed"  # with the daemon that had the copy
    assert stockaded.end() == 0


async def test_a_long_lease_outlives_a_daemon_that_is_stopped(stockaded: Stockaded, workspace: Path) -> None:
    async with leased_sessions(stockaded, workspace, HOUR_S):
        assert stockaded.end() == 0
        stockaded.start()
    async with connect(stockaded.address) as daemon, daemon.session(id="itself") as session:
        assert (await session.call("read", path="a.txt")).ok
    assert stockaded.end() == 0


async def test_leases_that_cannot_be_are_refused_and_open_nothing(shared: Stockaded, workspace: Path) -> None:
    async with connect(shared.address) as daemon:
        before = {each.session_id for each in await daemon.sessions()}
        for seconds in (-1.0, -0.001, 0.5, 86400.5, 1e300, float("inf"), float("-inf"), float("nan")):
            with pytest.raises(InvalidRequest) as raised:
                async with daemon.session(workspace, "ci", lease_s=seconds):
                    pass
            said = f"lease_s {seconds:g} is not from 1 to 86400 seconds; 0 is a session without a lease"
            assert str(raised.value) == said
        with pytest.raises(NotFound, match="there is no session 'gone'"):
            await opened(daemon, workspace, "gone", 1, renewal=True)
        assert {each.session_id for each in await daemon.sessions()} == before
        async with daemon.session(workspace, "ci", id="with", lease_s=HOUR_S):
            pass
        async with daemon.session(workspace, "ci", id="without"):
            pass
        for id, seconds, has in (
            ("with", 0.0, "a lease of 3600 s"),
            ("with", 60.0, "a lease"),
            ("without", 60.0, "no"),
        ):
            with pytest.raises(AlreadyExists, match=f"exists with {has}"):
                async with daemon.session(workspace, "ci", id=id, lease_s=seconds):
                    pass
        for id in ("with", "without"):
            await daemon.close_session(id)
