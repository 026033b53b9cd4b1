"""A session's workers are made under the profile of their call, and what served an earlier one is put away."""

import asyncio
import os
from dataclasses import replace
from pathlib import Path

import pytest

from stockade_daemon.profiles.tighten import tighten
from stockade_daemon.sandbox import pool as module
from stockade_daemon.sandbox.attached import Place
from stockade_daemon.sandbox.pool import Pool
from stockade_daemon.values import Access, Profile
from tests.sandbox.conftest import children, mounters, run


@pytest.fixture
def later(profile: Profile) -> Profile:
    return tighten(profile, b"limits.open_files = 77\n")


async def open_files(pool: Pool, room: str, profile: Profile | None = None) -> str:
    async with pool.worker(room, Access.OVERLAY, profile=profile) as worker:
        await run(worker, "ulimit -n")
        return os.read(worker.stdout, 100).decode().strip()


async def ready(pool: Pool, room: str) -> None:
    """Waits until a worker is prepared for the next call."""
    while not pool._sessions[room].own._prepared[Access.OVERLAY]:  # noqa: ASYNC110 (nobody is told of it)
        await asyncio.sleep(0)


async def templates(wanted: int) -> None:
    """Waits until there are so many; they end in the background."""
    async with asyncio.timeout(20):
        while len(await asyncio.to_thread(children, mounters()[0])) != wanted:  # noqa: ASYNC110 (a process's end)
            await asyncio.sleep(0)


async def test_a_worker_that_was_prepared_before_an_edit_serves_no_call_after_it(
    pool: Pool, room: str, profile: Profile, later: Profile, workspace: Path
) -> None:
    before = await open_files(pool, room)
    await ready(pool, room)
    found = await asyncio.to_thread(workspace.stat)
    pool.open_room(room, later, Place(str(workspace), found.st_dev, found.st_ino))
    assert (before, await open_files(pool, room)) == (str(profile.limits.open_files), "77")
    await templates(1)


async def test_a_call_under_the_profile_of_before_gets_its_worker_and_its_room_is_closed_then(
    pool: Pool, room: str, profile: Profile, later: Profile
) -> None:
    await open_files(pool, room)
    place = pool._sessions[room].place
    async with pool.worker(room, Access.OVERLAY, profile=profile) as running:
        pool.open_room(room, later, place)
        assert await open_files(pool, room) == "77"
        await run(running, "ulimit -n")
        assert os.read(running.stdout, 100).decode().strip() == str(profile.limits.open_files)
    await templates(1)
    # A call that began before and comes to its worker only now, as after a person's answer.
    assert await open_files(pool, room, profile) == str(profile.limits.open_files)
    await templates(1)
    assert list(pool._sessions[room].by_digest) == [later.digest]


async def test_a_narrower_profile_of_one_call_leaves_the_sessions_own_room_ready_and_has_one_for_the_next(
    pool: Pool, room: str, profile: Profile, later: Profile
) -> None:
    await open_files(pool, room)
    await ready(pool, room)
    prepared = pool._sessions[room].own._prepared[Access.OVERLAY][0]
    narrow = [open_files(pool, room, later), open_files(pool, room, later)]
    assert await asyncio.gather(*narrow) == ["77", "77"]
    beside = pool._sessions[room].by_digest[later.digest]
    assert await open_files(pool, room, later) == "77"
    assert pool._sessions[room].by_digest[later.digest] is beside
    await templates(2)
    async with pool.worker(room, Access.OVERLAY) as worker:
        assert worker is prepared


async def test_few_rooms_are_kept_beside_the_sessions_own_and_none_of_an_earlier_version(
    pool: Pool, room: str, profile: Profile, later: Profile
) -> None:
    narrower = [tighten(profile, f"limits.open_files = {number}\n".encode()) for number in range(80, 86)]
    assert [await open_files(pool, room, each) for each in narrower] == [str(number) for number in range(80, 86)]
    await templates(4)
    pool.open_room(room, later, pool._sessions[room].place)
    await templates(0)
    assert await open_files(pool, room) == "77"


async def test_a_room_beside_that_nobody_uses_is_closed(
    pool: Pool, room: str, profile: Profile, later: Profile, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "_IDLE_S", 0.0)
    assert await open_files(pool, room, later) == "77"
    sweeping = asyncio.create_task(pool._retire_idle())
    await templates(0)
    sweeping.cancel()
    assert list(pool._sessions[room].by_digest) == [profile.digest]


async def test_a_session_that_ends_takes_all_its_rooms_with_it(
    pool: Pool, room: str, profile: Profile, later: Profile
) -> None:
    async with pool.worker(room, Access.OVERLAY), pool.worker(room, Access.NONE, profile=later):
        await pool.close_room(room)
    await templates(0)
    assert pool._sessions == {}


async def test_a_version_that_comes_back_is_the_sessions_own_again(
    pool: Pool, room: str, profile: Profile, later: Profile
) -> None:
    place = pool._sessions[room].place
    async with pool.worker(room, Access.OVERLAY) as running:
        pool.open_room(room, later, place)
        pool.open_room(room, replace(profile), place)
        await run(running, "true")
    await templates(1)
    assert list(pool._sessions[room].by_digest) == [profile.digest]
    assert await open_files(pool, room) == str(profile.limits.open_files)
    await ready(pool, room)
