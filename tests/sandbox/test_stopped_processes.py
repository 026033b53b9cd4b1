"""Processes of the daemon's own that stand still, because somebody stopped them: nothing waits for them for ever."""

import asyncio
import os
import signal

import pytest

from stockade_daemon.errors import SandboxFailure
from stockade_daemon.sandbox import channel
from stockade_daemon.sandbox.pool import Pool
from stockade_daemon.sandbox.worker import Ends, Worker
from stockade_daemon.values import Access, Profile
from tests.sandbox.conftest import children, mounters, run


@pytest.fixture
def short_patience(monkeypatch: pytest.MonkeyPatch) -> None:
    """Short, but long enough for a new process to start on a busy machine."""
    monkeypatch.setattr(channel, "PATIENCE_S", 4.0)


async def said(pool: Pool, room: str) -> bytes:
    async with pool.worker(room, Access.OVERLAY) as worker:
        await run(worker, "echo again")
        return os.read(worker.stdout, 10)


@pytest.mark.usefixtures("short_patience")
async def test_a_mounter_that_stands_still_is_ended_and_started_again(pool: Pool, room: str) -> None:
    [stopped] = mounters()
    os.kill(stopped, signal.SIGSTOP)
    assert await said(pool, room) == b"again\n"
    assert stopped not in mounters()


@pytest.mark.usefixtures("short_patience")
async def test_a_template_that_stands_still_is_ended_and_started_again(pool: Pool, room: str) -> None:
    assert await said(pool, room) == b"again\n"
    [template] = children(mounters()[0])
    os.kill(template, signal.SIGSTOP)
    assert [await said(pool, room) for _ in range(3)] == [b"again\n"] * 3
    assert template not in children(mounters()[0])


async def test_who_no_longer_wants_a_worker_does_not_wait_for_it(pool: Pool, room: str) -> None:
    [stopped] = mounters()
    os.kill(stopped, signal.SIGSTOP)
    try:
        wanting = asyncio.create_task(said(pool, room))
        await asyncio.wait([wanting], timeout=0.2)
        wanting.cancel()
        with pytest.raises(asyncio.CancelledError):
            await wanting
    finally:
        os.kill(stopped, signal.SIGCONT)
    # What was being made then is the next one's.
    assert await said(pool, room) == b"again\n"
    assert mounters() == [stopped]


async def test_a_worker_that_says_nothing_before_it_is_sealed_is_ended(
    profile: Profile, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(channel, "PATIENCE_S", 0.1)
    process = await asyncio.create_subprocess_exec("sleep", "47.45")
    ends = Ends()
    worker = Worker(ends, os.pidfd_open(process.pid), limits=profile.limits, scratch=None)
    try:
        with pytest.raises(SandboxFailure, match=r"not sealed within 0\.1 s .* nothing was run") as caught:
            await worker.ready()
    finally:
        await worker.close()
        ends.close_inner()
    assert caught.value.code == "SANDBOX_FAILED"
    assert await process.wait() == -signal.SIGKILL
