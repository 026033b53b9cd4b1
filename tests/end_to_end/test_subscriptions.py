"""Following a session: over connections that break or fall silent nothing is missing and nothing comes twice, and a
reader that stalls costs neither calls nor memory.
"""

import asyncio
import os
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import Any

from stockade.v1 import approvals_pb2, calls_pb2, events_pb2
from stockade_client import Daemon, connect
from stockade_client.link import opened
from stockade_daemon.ledger import Ledger, SessionRecord
from stockade_daemon.profiles import read as profiles
from tests.end_to_end.proxy import Proxy, between
from tests.end_to_end.stockaded import Stockaded

HANG_S = 240.0  # a hang detector
EVENTS = int(os.environ.get("STOCKADE_TEST_EVENTS", "4000"))  # `make proxy` has 20,000
WRITERS = 4
CALLS = EVENTS // 80  # of each writer; of a tool that does not exist, two events each: a tenth of all


async def written(stockaded: Stockaded, workspace: Path, events: int) -> None:
    """A ledger for the daemon that is not started yet, with an open session of so many events."""
    await asyncio.to_thread(stockaded.state.mkdir, 0o700)
    found = await asyncio.to_thread(workspace.stat)
    strict = await asyncio.to_thread(profiles.load, "strict", directories=[profiles.shipped()])
    record = SessionRecord(
        session_id="s",
        workspace=str(workspace),
        device=found.st_dev,
        inode=found.st_ino,
        profile_name=strict.name,
        profile_digest=strict.digest,
        profile_source=strict.source,
        profile_text=strict.text,
        profile_by_name=True,
        approval_policy="ask",
        state="open",
        opened_ms=0,
    )
    async with Ledger.open(str(stockaded.state / "ledger.sqlite3")) as ledger:
        await ledger.open_session(record)
        for number in range(events - 1):
            ledger.note("s", "x", body={"n": number})


async def write(daemon: Daemon, name: str, calls: int, arguments: bytes = b"{}") -> None:
    """A fast writer."""
    async with daemon.session(id="s") as session:
        for number in range(calls):
            result = await session.call_json("nothing", arguments, call_id=f"{name}-{number}")
            assert result.error is not None
            assert result.error.code == "UNKNOWN_TOOL"


async def close(daemon: Daemon) -> None:
    async with daemon.session(id="s") as session:
        await session.close()


@asynccontextmanager
async def two_ways(stockaded: Stockaded) -> AsyncIterator[tuple[Proxy, Daemon, Daemon]]:
    """A proxy, a connection beside it, and one through it; for as long as a test may take at most."""
    async with (
        asyncio.timeout(HANG_S),
        between(stockaded.socket, stockaded.directory / "proxy.sock") as proxy,
        connect(stockaded.address) as beside,
        connect(proxy.address) as daemon,
    ):
        yield proxy, beside, daemon


async def test_a_subscriber_over_a_connection_cut_every_100_ms_reads_each_event_once(
    stockaded: Stockaded, workspace: Path
) -> None:
    await written(stockaded, workspace, EVENTS - 2 * WRITERS * CALLS - 1)
    stockaded.start()
    async with (
        two_ways(stockaded) as (proxy, beside, daemon),
        daemon.events("s", follow=True) as events,
        asyncio.TaskGroup() as tasks,
    ):

        async def read() -> list[int]:
            return [event.seq async for event in events]

        with proxy.cutting_every(0.1):
            reading = tasks.create_task(read())
            async with asyncio.TaskGroup() as writers:
                for number in range(WRITERS):
                    writers.create_task(write(beside, f"w{number}", CALLS))
            await close(beside)
            numbers = await reading
    print(f"{len(numbers)} events came over {proxy.connections} connections, of which {proxy.cuts} were cut")
    assert numbers == list(range(1, EVENTS + 1))
    assert proxy.cuts > 5


async def test_a_subscriber_over_a_silent_connection_notices_and_goes_on_over_another(
    stockaded: Stockaded, workspace: Path
) -> None:
    await written(stockaded, workspace, 3)
    stockaded.start()
    async with (
        two_ways(stockaded) as (proxy, beside, daemon),
        daemon.events("s", follow=True, heartbeat_s=0.2) as events,
    ):
        numbers = [(await anext(events)).seq for _ in range(3)]
        proxy.silence()
        before = proxy.connections
        await write(beside, "w", 10)
        await close(beside)
        numbers += [event.seq async for event in events]
    assert numbers == list(range(1, 25))
    assert proxy.connections > before


ASKS = 'extends = "dev"\nwiden = ["approval.wait_s"]\napproval.wait_s = 600\napproval.commands = "ask"\n'
SHELL = b'{"command": "echo one; until [ -s go ]; do sleep 0.05; done; echo two"}'


def asks_before_commands(stockaded: Stockaded) -> None:
    """Has the daemon know a profile under which every command waits for somebody."""
    profiles_directory = stockaded.directory / "profiles"
    profiles_directory.mkdir()
    (profiles_directory / "asks.toml").write_text(ASKS)
    with stockaded.configuration.open("a") as configuration:
        configuration.write(f'[profiles]\npaths = ["{profiles_directory}"]\n')


async def test_an_approver_over_a_silent_connection_notices_and_gets_the_ask_over_another(
    stockaded: Stockaded, workspace: Path
) -> None:
    asks_before_commands(stockaded)
    stockaded.start()
    async with (
        two_ways(stockaded) as (proxy, beside, daemon),
        daemon.approvals(heartbeat_s=0.2) as asks,
        beside.session(workspace, "asks") as session,
    ):
        proxy.silence()
        before = proxy.connections
        call = await session.start("shell", command="true")
        ask = await anext(asks)
        assert proxy.connections > before
        await ask.decide(True)
        assert (await call.result()).ok


async def test_an_output_over_a_silent_connection_goes_on_over_another(stockaded: Stockaded, workspace: Path) -> None:
    stockaded.start()
    async with (
        two_ways(stockaded) as (proxy, beside, daemon),
        beside.session(workspace, "dev", id="s"),
        daemon.session(id="s") as session,
    ):
        (workspace / "go").touch()  # a view may remember that there was no file, but not that it was empty
        call = await session.start_json("shell", SHELL)
        async with call.output(heartbeat_s=0.2) as chunks:
            text = await anext(chunks)
            proxy.silence()
            before = proxy.connections
            (workspace / "go").write_text("go")
            text += b"".join([chunk async for chunk in chunks])
        assert text == b"one\ntwo\n"
        assert proxy.connections > before


async def test_idle_approvals_and_outputs_have_heartbeats_only_where_they_are_asked_for(
    stockaded: Stockaded, workspace: Path
) -> None:
    stockaded.start()
    async with (
        asyncio.timeout(HANG_S),
        connect(stockaded.address) as daemon,
        daemon.session(workspace, "dev", id="s") as session,
        opened(stockaded.address, None) as link,
    ):
        (workspace / "go").touch()  # a view may remember that there was no file, but not that it was empty
        call = await session.start_json("shell", SHELL, call_id="c")
        wanted = calls_pb2.ReadOutputRequest(
            session_id="s", call_id="c", part=calls_pb2.OUTPUT_PART_STDOUT, follow=True
        )
        plain = link.calls.ReadOutput(wanted)
        beating = link.calls.ReadOutput(
            calls_pb2.ReadOutputRequest(
                session_id="s", call_id="c", part=calls_pb2.OUTPUT_PART_STDOUT, follow=True, heartbeat_s=0.1
            )
        )
        watching = link.approvals.Watch(approvals_pb2.WatchAsksRequest(heartbeat_s=0.1))
        for _ in range(3):
            ask = await watching.read()
            assert isinstance(ask, approvals_pb2.Ask)
            assert ask == approvals_pb2.Ask(heartbeat=True)
        watching.cancel()
        seen: list[calls_pb2.OutputChunk] = []
        while not any(each.data for each in seen) or not seen[-1].heartbeat:
            chunk = await beating.read()
            assert isinstance(chunk, calls_pb2.OutputChunk)
            seen.append(chunk)
        assert seen[0].heartbeat
        assert (seen[-1].offset, seen[-1].data) == (4, b"")  # where it will go on
        (workspace / "go").write_text("go")
        await call.result()
        while isinstance(each := await beating.read(), calls_pb2.OutputChunk):
            seen.append(each)
        assert b"".join(each.data for each in seen) == b"one\ntwo\n"
        without = [each async for each in plain]
        assert not any(each.heartbeat for each in without)
        assert b"".join(each.data for each in without) == b"one\ntwo\n"


async def message(stream: Any) -> events_pb2.Event:
    read = await stream.read()
    assert isinstance(read, events_pb2.Event)
    return read


async def test_an_idle_stream_has_heartbeats_where_they_are_asked_for(stockaded: Stockaded, workspace: Path) -> None:
    await written(stockaded, workspace, 1)
    stockaded.start()
    request = events_pb2.ReadEventsRequest(session_id="s", follow=True)
    async with (
        asyncio.timeout(HANG_S),
        connect(stockaded.address) as daemon,
        opened(stockaded.address, None) as link,
    ):
        plain = link.events.Read(request)
        beating = link.events.Read(events_pb2.ReadEventsRequest(session_id="s", follow=True, heartbeat_s=0.1))
        seen = [await message(beating) for _ in range(4)]
        await write(daemon, "w", 1)
        await close(daemon)
        while isinstance(each := await beating.read(), events_pb2.Event):
            seen.append(each)
        without = [each async for each in plain]
    assert [each.seq for each in without] == [1, 2, 3, 4]
    assert not any(each.heartbeat for each in without)
    beats = [each for each in seen if each.heartbeat]
    assert [each for each in seen if not each.heartbeat] == without
    assert len(beats) >= 3
    assert {(each.type, each.body, each.session_id) for each in beats} == {("", b"", "s")}
    assert [each.seq for each in seen[1:4]] == [1, 1, 1]  # the number to resume after


async def test_many_events_come_without_heartbeats_between_them(stockaded: Stockaded, workspace: Path) -> None:
    await written(stockaded, workspace, 2000)
    stockaded.start()
    async with asyncio.timeout(HANG_S), opened(stockaded.address, None) as link:
        stream = link.events.Read(events_pb2.ReadEventsRequest(session_id="s", follow=True, heartbeat_s=60))
        seen = [await message(stream) for _ in range(2001)]
        stream.cancel()
    assert [each.heartbeat for each in seen] == [False] * 2000 + [True]


STALLED = 8
STALLED_CALLS = 150
ARGUMENTS = b'{"x":"' + b"y" * 200_000 + b'"}'
BOUND_KIB = 8 * 1024  # for each: its page as text, as values and as messages, and what grpc and the socket hold


async def test_stalled_subscribers_beside_a_fast_writer_cost_bounded_memory(
    stockaded: Stockaded, workspace: Path
) -> None:
    """30 MB are recorded before they come and 30 MB afterwards. A daemon that kept what they have not taken would hold
    480 MB for them."""
    await written(stockaded, workspace, 1)
    stockaded.start()
    async with (
        asyncio.timeout(HANG_S),
        between(stockaded.socket, stockaded.directory / "proxy.sock") as proxy,
        connect(stockaded.address) as daemon,
        AsyncExitStack() as links,
    ):
        await write(daemon, "first", STALLED_CALLS, ARGUMENTS)
        before = await peak_kib(stockaded)
        for _ in range(STALLED):
            link = await links.enter_async_context(opened(proxy.address, None))
            stream = link.events.Read(events_pb2.ReadEventsRequest(session_id="s", follow=True))
            links.callback(stream.cancel)
            await stream.read()
        proxy.silence()
        passed = proxy.passed
        await write(daemon, "second", STALLED_CALLS, ARGUMENTS)
        grown = await peak_kib(stockaded) - before
        assert proxy.passed - passed < STALLED * 1024 * 1024  # they did stall
    print(f"{STALLED} stalled subscribers: the daemon's peak memory grew by {grown} KiB, {grown // STALLED} each")
    assert grown < STALLED * BOUND_KIB


async def test_stalled_readers_of_a_long_output_cost_bounded_memory(stockaded: Stockaded, workspace: Path) -> None:
    """A daemon that kept what they have not taken would hold 480 MB for them."""
    stockaded.start()
    async with (
        asyncio.timeout(HANG_S),
        between(stockaded.socket, stockaded.directory / "proxy.sock") as proxy,
        connect(stockaded.address) as daemon,
        daemon.session(workspace, "dev", id="s") as session,
        AsyncExitStack() as links,
    ):
        assert (await session.call("shell", command="head -c 1000000 /dev/zero")).ok
        before = await peak_kib(stockaded)
        (workspace / "go").touch()
        command = "echo begun; until [ -s go ]; do sleep 0.05; done; head -c 60000000 /dev/zero"
        call = await session.start("shell", call_id="c", command=command)
        for _ in range(STALLED):
            link = await links.enter_async_context(opened(proxy.address, None))
            stream = link.calls.ReadOutput(
                calls_pb2.ReadOutputRequest(session_id="s", call_id="c", part=calls_pb2.OUTPUT_PART_STDOUT, follow=True)
            )
            links.callback(stream.cancel)
            await stream.read()
        proxy.silence()
        passed = proxy.passed
        (workspace / "go").write_text("go")
        result = await call.result()
        assert result.field("stdout_bytes") == 60_000_006
        grown = await peak_kib(stockaded) - before
        assert proxy.passed - passed < STALLED * 1024 * 1024  # they did stall
    print(f"{STALLED} stalled readers: the daemon's peak memory grew by {grown} KiB, {grown // STALLED} each")
    assert grown < STALLED * BOUND_KIB


async def test_stalled_approvers_beside_one_that_answers_cost_bounded_memory(
    stockaded: Stockaded, workspace: Path
) -> None:
    """30 MB of cards are answered by another. A daemon that kept those that they have not taken would hold all of
    them."""
    asks_before_commands(stockaded)
    stockaded.start()
    argument = "y" * 200_000

    async def ask_and_answer(count: int) -> None:
        for _ in range(count):
            call = await session.start("shell", command=f": {argument}")
            await (await anext(asks)).decide(False)
            await call.result()

    async with (
        asyncio.timeout(HANG_S),
        between(stockaded.socket, stockaded.directory / "proxy.sock") as proxy,
        connect(stockaded.address) as daemon,
        daemon.session(workspace, "asks", id="s") as session,
        daemon.approvals("s") as asks,
        AsyncExitStack() as links,
    ):
        await ask_and_answer(STALLED_CALLS // 3)
        before = await peak_kib(stockaded)
        for _ in range(STALLED):
            link = await links.enter_async_context(opened(proxy.address, None))
            stream = link.approvals.Watch(approvals_pb2.WatchAsksRequest(session_id="s"))
            links.callback(stream.cancel)
            await stream.initial_metadata()
        proxy.silence()
        passed = proxy.passed
        await ask_and_answer(STALLED_CALLS)
        grown = await peak_kib(stockaded) - before
        assert proxy.passed - passed < STALLED * 1024 * 1024  # they did stall
    print(f"{STALLED} stalled approvers: the daemon's peak memory grew by {grown} KiB")
    assert grown < 30 * 1024


async def peak_kib(stockaded: Stockaded) -> int:
    """The most memory that the daemon ever had, from proc(5)."""
    assert stockaded.process is not None
    status = Path(f"/proc/{stockaded.process.pid}/status")
    lines = (await asyncio.to_thread(status.read_text)).splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith("VmHWM:"))
