"""Commands whose daemon stops, or is killed, under them."""

import asyncio
import os
import signal
import sys
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from stockade_client import NoAnswer, connect
from stockade_client.link import PATIENCE_S
from tests.client.served import Served, running

AWAY = b"stockade: the daemon went away; waiting for it to come back\n"
PIPE = asyncio.subprocess.PIPE


@asynccontextmanager
async def command(served: Served, workspace: Path, *arguments: str) -> AsyncIterator[asyncio.subprocess.Process]:
    """`stockade ARGUMENTS…` against the served daemon; killed where a test did not see it end."""
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "stockade_client", *arguments),
        cwd=workspace,
        env={**os.environ, "STOCKADE_ADDRESS": served.address},
        stdin=asyncio.subprocess.DEVNULL,
        stdout=PIPE,
        stderr=PIPE,
    )
    try:
        yield process
    finally:
        if process.returncode is None:
            process.kill()
            await process.communicate()


async def begun(process: asyncio.subprocess.Process) -> None:
    assert process.stdout is not None
    assert await process.stdout.readline() == b"begun\n"


async def test_a_daemon_that_drains_still_gives_exec_its_result(served: Served, workspace: Path) -> None:
    # Ends while the daemon drains: its ten seconds have begun when the daemon says that it is stopping.
    program = "echo begun; sleep 2; echo done; echo well >&2; exit 7"
    async with running(served, PIPE) as processes:
        daemon = processes[-1]
        async with command(served, workspace, "exec", "--profile", "dev", "--", "sh", "-c", program) as process:
            await begun(process)
            daemon.send_signal(signal.SIGTERM)
            assert daemon.stderr is not None
            async for line in daemon.stderr:
                if b"stopping" in line:
                    break
            out, errors = await process.communicate()
        await daemon.communicate()
    assert (process.returncode, out, errors) == (7, b"done\n", b"well\n")


async def test_exec_waits_for_a_killed_daemon_and_says_so_once(served: Served, workspace: Path) -> None:
    async with running(served) as processes:
        program = "echo begun; while :; do :; done"
        async with command(served, workspace, "exec", "--profile", "dev", "--", "sh", "-c", program) as process:
            await begun(process)
            processes[-1].kill()
            await processes[-1].wait()
            assert process.stderr is not None
            assert await process.stderr.readline() == AWAY
            processes.append(await served.started())
            _, errors = await process.communicate()
    assert process.returncode == 125
    assert b"TOOL_OUTCOME_UNKNOWN" in errors
    assert AWAY not in errors


async def test_a_daemon_that_stays_away_is_waited_for_once(served: Served, workspace: Path) -> None:
    async with running(served) as processes:
        program = "echo begun; while :; do :; done"
        async with command(served, workspace, "exec", "--profile", "dev", "--", "sh", "-c", program) as process:
            await begun(process)
            processes[-1].kill()
            await processes[-1].wait()
            start = time.monotonic()
            _, errors = await process.communicate()
            took = time.monotonic() - start
        # What a killed daemon leaves is removed at the next start.
        processes.append(await served.started())
    assert process.returncode == 125
    away, gone, *more = errors.decode().splitlines(keepends=True)
    assert away.encode() == AWAY
    assert more == []
    assert "the daemon is gone, asked to " in gone
    # A second round of patience, for taking the call back or for closing the session, would be over twice of it.
    assert took < PATIENCE_S * 1.7


async def test_what_is_said_of_a_daemon_that_is_gone_names_session_and_call(served: Served, workspace: Path) -> None:
    async with running(served) as processes, connect(served.address) as daemon:
        async with daemon.session(workspace, "dev", id="left-alone") as session:
            call = await session.start("shell", call_id="cut-off", command="while :; do :; done")
            processes[-1].kill()
            await processes[-1].wait()
            with pytest.raises(NoAnswer) as raised:
                await call.result()
            start = time.monotonic()
            assert await call.withdraw() is None
            assert time.monotonic() - start < PATIENCE_S / 2
        processes.append(await served.started())
        # Whoever asks for something new waits for it again.
        assert (await daemon.get_session("left-alone")).state == "open"
    said = str(raised.value)
    assert "call cut-off of session left-alone" in said
    assert "`stockade ledger cut-off` after a restart tells what became of it" in said
    assert "grpc" not in said
    assert "connect" not in said
