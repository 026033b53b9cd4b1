"""Whoever reads or waits while a daemon is told to stop and started again goes on where he was, through the wire."""

import asyncio
import json
import sys
from pathlib import Path

import pytest

from stockade_client import Ask, Stream, approvals, connect
from tests.client.approver import approving
from tests.end_to_end.session_s import code, opened, result_of, start_with
from tests.end_to_end.stockaded import COMMAND_S, SLEEPER, Stockaded, woken

LINES = 1_000_000  # 6.9 MB: more than any connection holds of it


@pytest.fixture
def served(stockaded: Stockaded) -> Stockaded:
    """A running daemon; the fixture of all ends it."""
    return start_with(stockaded, {"asking": '[approval]\ncommands = "ask"\nwait_s = 600\n'})


async def stopped_and_started_again(served: Stockaded) -> None:
    assert await asyncio.to_thread(served.end) == 0
    await asyncio.to_thread(served.start)


async def test_an_output_is_read_on_where_it_was_and_nothing_is_missing_or_there_twice(
    served: Stockaded, workspace: Path
) -> None:
    async with opened(served, workspace, "ci") as (daemon, session), asyncio.timeout(COMMAND_S):
        call = await session.start("shell", call_id="c", command=f"seq {LINES}")
        async with call.output() as output:
            pieces = [await anext(output)]
            assert code(await call.result()) == "ok"
            await stopped_and_started_again(served)
            pieces += [piece async for piece in output]
        assert code(await result_of(daemon)) == "ok"
    assert b"".join(pieces) == b"".join(b"%d\n" % number for number in range(1, LINES + 1))


async def test_an_output_of_a_call_that_ends_with_its_daemon_has_all_that_was_printed(
    served: Stockaded, workspace: Path
) -> None:
    """It ends within the time that a daemon which was told to stop gives."""
    async with opened(served, workspace, "ci") as (_, session), asyncio.timeout(COMMAND_S):
        call = await session.start("shell", call_id="c", command=f"echo begun; {SLEEPER} || :; echo done")
        async with call.output() as output:
            pieces = [await anext(output)]
            again = asyncio.create_task(stopped_and_started_again(served))
            while "stopping: 1 calls under way" not in await asyncio.to_thread(served.log.read_text):
                assert not again.done()
            await woken()
            await again
            pieces += [piece async for piece in output]
        assert code(await call.result()) == "ok"
    assert b"".join(pieces) == b"begun\ndone\n"


async def test_plain_lines_answer_an_ask_after_a_restart(served: Stockaded, workspace: Path) -> None:
    async with opened(served, workspace) as (daemon, session):
        with approving(served.environment, "--plain", "--session", "s") as approver:
            await asyncio.to_thread(approver.until, b"Waiting for asks.")
            await session.start("shell", call_id="c", command="echo first")
            card, _ = await asyncio.to_thread(approver.question)
            await stopped_and_started_again(served)
            approver.type(f"y {card}\n".encode())
            await asyncio.to_thread(approver.until, b"You said yes.")
            assert code(await result_of(daemon)) == "ok"
            # It is an approver of the next daemon's as well: it hears of what comes.
            await session.start("shell", call_id="d", command="echo second")
            other, _ = await asyncio.to_thread(approver.question)
            assert other != card
            approver.type(b"n not now\n")
            assert code(await result_of(daemon, "d")) == "APPROVAL_REJECTED"
            approver.type(b"q\n")
            assert await asyncio.to_thread(approver.ended) == 0
            assert approver.all.count(b"You said yes.") == 1
            assert b"Somebody else" not in approver.all


async def test_who_looks_at_an_ask_is_shown_by_the_next_daemon_as_well(
    served: Stockaded, workspace: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(approvals, "_LEASE_S", 3600.0)  # it is not by its time that the claim is made again

    async def read_on(asks: Stream[Ask]) -> None:
        async for _ in asks:
            pass

    async with (
        asyncio.timeout(COMMAND_S),
        opened(served, workspace) as (daemon, session),
        daemon.approvals("s", changes=True) as asks,
    ):
        await session.start("shell", call_id="c", command="echo first")
        ask = await anext(asks)
        async with ask.claim("anna"):
            while not ask.claims:
                await anext(asks)
            reading = asyncio.create_task(read_on(asks))
            await stopped_and_started_again(served)
            async with connect(served.address) as other, other.approvals("s", changes=True) as others:
                theirs = await anext(others)
                while [each.name for each in theirs.claims] != ["anna"]:
                    await anext(others)
        await ask.decide(False)
        assert code(await result_of(daemon)) == "APPROVAL_REJECTED"
        reading.cancel()


async def test_a_ledger_that_is_followed_goes_on_until_the_session_closes(served: Stockaded, workspace: Path) -> None:
    async with opened(served, workspace) as (_, session):
        following = await asyncio.create_subprocess_exec(
            *(sys.executable, "-m", "stockade_client", "ledger", "s", "--json", "--follow"),
            env=served.environment,
            stdout=asyncio.subprocess.PIPE,
        )
        assert following.stdout is not None
        first = await following.stdout.readline()
        await stopped_and_started_again(served)
        assert (await session.call("read", path="a.txt")).ok
        await session.close()
        async with asyncio.timeout(COMMAND_S):
            rest, _ = await following.communicate()
        async with session.events() as events:
            recorded = [(event.seq, event.type) async for event in events]
    assert following.returncode == 0
    shown = [json.loads(line) for line in [first, *rest.splitlines()]]
    assert [(each["seq"], each["type"]) for each in shown] == recorded
    assert recorded[-1][1] == "session/closed"
