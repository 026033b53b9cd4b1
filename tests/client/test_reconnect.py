"""A daemon that goes away and comes back: the client asks again and gets the one recorded result."""

import asyncio
from pathlib import Path

import pytest

from stockade_client import Ask, Daemon, Event, Misused, Session, Stream, connect, link
from tests.client.served import Served, running
from tests.end_to_end.proxy import between

HANG_S = 120.0  # a hang detector


async def killed_and_started_again(served: Served, processes: list[asyncio.subprocess.Process]) -> None:
    processes[-1].kill()
    await processes[-1].wait()
    processes.append(await served.started())


async def stopped_and_started_again(served: Served, processes: list[asyncio.subprocess.Process]) -> None:
    processes[-1].terminate()
    await processes[-1].wait()
    processes.append(await served.started())


async def dispatched(daemon: Daemon, session_id: str) -> None:
    async with daemon.events(session_id, follow=True) as events:
        async for event in events:
            if event.type == "call/dispatched":
                return


async def test_a_call_cut_off_by_a_killed_daemon_has_its_recorded_result(served: Served, workspace: Path) -> None:
    async with running(served) as processes, connect(served.address) as daemon:
        assert not daemon.info.private
        async with daemon.session(workspace, "dev", id="cut-off") as session:
            calling = asyncio.create_task(session.call("shell", command="while :; do :; done"))
            await dispatched(daemon, "cut-off")
            await killed_and_started_again(served, processes)
            result = await calling
    assert result.error is not None
    assert result.error.code == "TOOL_OUTCOME_UNKNOWN"
    assert "effects: none (proven)" in result.error.message


async def test_a_turn_cut_off_by_a_killed_daemon_begins_nothing_more(served: Served, workspace: Path) -> None:
    async with (
        running(served) as processes,
        connect(served.address) as daemon,
        daemon.session(workspace, "dev", id="cut-off") as session,
    ):
        assert (await session.call("read", path="a.txt")).ok
        loop = b'{"command": "while :; do :; done"}'
        calls = [("read", b'{"path": "b.txt"}'), ("shell", loop), ("read", b"{}"), ("shell", b"")]
        calling = asyncio.create_task(session.call_many(calls))
        async with session.events(follow=True) as events:
            count = 0
            async for event in events:
                count += event.type == "call/dispatched"
                if count == 3:
                    break
        await killed_and_started_again(served, processes)
        results = await calling
        codes = [result.error.code if result.error else "ok" for result in results]
        assert codes == ["ok", "TOOL_OUTCOME_UNKNOWN", "TOOL_NOT_STARTED", "TOOL_NOT_STARTED"]
        assert (await session.call("read", path="b.txt")).ok


async def test_followed_events_go_on_where_they_were(served: Served, workspace: Path) -> None:
    async with (
        running(served) as processes,
        connect(served.address) as daemon,
        daemon.session(workspace, "dev", id="followed") as session,
        session.events(follow=True) as events,
    ):
        first = await anext(events)
        await killed_and_started_again(served, processes)
        assert (await session.call("read", path="a.txt")).ok
        await session.close()
        numbers = [first.seq] + [event.seq async for event in events]
    assert numbers == list(range(1, len(numbers) + 1))


async def test_an_approver_goes_on_watching(served: Served, workspace: Path) -> None:
    asked = []

    async with (
        running(served) as processes,
        connect(served.address) as daemon,
        daemon.session(workspace, "dev", id="watched") as session,
        daemon.approvals("watched") as asks,
    ):
        await killed_and_started_again(served, processes)
        assert (await session.call("read", path="a.txt")).ok
        watching = asyncio.ensure_future(anext(asks))
        while not watching.done():
            # Until the stream is open again nobody counts as an approver; then the same edit is asked about.
            call = await session.start("edit", path="a.txt", old_string="two", new_string="2")
            settled = asyncio.ensure_future(call.result())
            await asyncio.wait([watching, settled], return_when=asyncio.FIRST_COMPLETED)
            asked.append(call.call_id)
        ask = await watching
        await ask.decide(True)
        assert (await settled).ok
    assert ask.call == asked[-1]
    assert (workspace / "a.txt").read_text() == "one\n2\nthree\n"


async def test_followed_events_go_on_after_a_daemon_that_was_told_to_stop(served: Served, workspace: Path) -> None:
    async with (
        running(served) as processes,
        connect(served.address) as daemon,
        daemon.session(workspace, "dev", id="followed") as session,
        session.events(follow=True) as events,
    ):
        first = await anext(events)
        await stopped_and_started_again(served, processes)
        assert (await session.call("read", path="a.txt")).ok
        await session.close()
        numbers = [first.seq] + [event.seq async for event in events]
    assert numbers == list(range(1, len(numbers) + 1))


async def test_a_sessions_approver_goes_on_after_a_daemon_that_was_told_to_stop(
    served: Served, workspace: Path
) -> None:
    async def approve(ask: Ask) -> bool:
        return True

    async with (
        asyncio.timeout(HANG_S),
        running(served) as processes,
        connect(served.address) as daemon,
        daemon.session(workspace, "dev", id="answered", approve=approve) as session,
    ):
        await stopped_and_started_again(served, processes)
        assert (await session.call("read", path="a.txt")).ok
        edit = {"path": "a.txt", "old_string": "two", "new_string": "2"}
        # Until the stream is open again nobody counts as an approver.
        while not (result := await session.call("edit", **edit)).ok:
            assert result.error is not None
            assert result.error.code == "APPROVAL_UNAVAILABLE"


async def test_a_request_on_a_connection_that_fell_silent_goes_on_over_another(
    address: str, workspace: Path, scratch: Path
) -> None:
    """Without a ping it would wait for the whole time that its daemon may take, and fail."""
    async with (
        asyncio.timeout(HANG_S),
        between(Path(address.removeprefix("unix:")), scratch / "silent.sock") as proxy,
        connect(proxy.address) as daemon,
        daemon.session(workspace, "dev") as session,
    ):
        assert (await session.call("read", path="a.txt")).ok
        assert proxy.connections == 1
        proxy.silence()
        assert (await session.call("read", path="a.txt")).ok
        assert proxy.connections > 1


async def test_a_call_that_takes_long_keeps_its_connection(
    address: str, workspace: Path, scratch: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A daemon that does not expect pings ends the connection at the fourth."""
    # Often, and none but those of a connection that waits.
    mine = {"grpc.keepalive_time_ms": 1100, "grpc.http2.bdp_probe": 0}
    monkeypatch.setattr(link, "_OPTIONS", list((dict(link._OPTIONS) | mine).items()))
    async with (
        asyncio.timeout(HANG_S),
        between(Path(address.removeprefix("unix:")), scratch / "long.sock") as proxy,
        connect(proxy.address) as daemon,
        daemon.session(workspace, "dev") as session,
    ):
        call = await session.start("shell", command="while :; do sleep 1; done")
        waiting = asyncio.create_task(call.result())
        while proxy.pings < 6:
            proxy.pinged.clear()
            await proxy.pinged.wait()
        await call.cancel()
        result = await waiting
        assert result.error is not None
        assert result.error.code == "ABORTED"
        assert proxy.connections == 1


async def test_what_is_used_after_its_connection_says_what_to_do(daemon: Daemon, workspace: Path) -> None:
    async with daemon.session(workspace, "dev", id="kept-on") as mine:
        assert (await mine.call("read", path="a.txt")).ok
        async with (
            connect(daemon.address) as other,
            other.session(id="kept-on") as session,
            other.approvals("kept-on") as asks,
        ):
            call = await mine.start("edit", path="a.txt", old_string="two", new_string="2")
            ask = await anext(asks)
            waiting = [
                asyncio.create_task(session.call("shell", command="sleep 60")),
                asyncio.create_task(_all(session)),
            ]
            await dispatched(daemon, "kept-on")
        for each in waiting:
            with pytest.raises(Misused, match=r"the connection is closed, asked to .*; do it inside of the block of"):
                await each
        with pytest.raises(Misused, match="the connection is closed, asked to answer the ask for edit; do it inside"):
            await ask.decide(True)
        with pytest.raises(Misused, match="the connection is closed, asked to start read"):
            await session.call("read", path="a.txt")
        assert (await call.result()).error is not None
        await mine.close()


async def _all(session: Session) -> list[Event]:
    async with session.events(follow=True) as events:
        return [event async for event in events]


async def test_a_stream_that_is_closed_is_over_for_the_task_that_reads_it(daemon: Daemon, workspace: Path) -> None:
    async with daemon.session(workspace, "dev") as session:
        events = session.events(follow=True)
        first = await anext(events)

        async def rest(stream: Stream[Event]) -> list[Event]:
            return [event async for event in stream]

        reading = asyncio.create_task(rest(events))
        await asyncio.sleep(0)
        with pytest.raises(Misused, match="another task is iterating over this stream"):
            await anext(events)
        await events.aclose()
        assert (first.type, await reading) == ("session/opened", [])


async def test_a_daemon_that_is_slow_to_greet_is_there(address: str, scratch: Path) -> None:
    """On a machine that is busy an accepted connection may carry nothing for a while."""
    async with between(Path(address.removeprefix("unix:")), scratch / "slow.sock", begins_after_s=1.0) as proxy:
        async with connect(proxy.address) as daemon:
            assert daemon.info.private
        assert proxy.connections == 1
