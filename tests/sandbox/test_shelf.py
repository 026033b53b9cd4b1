"""The template of a closed session is the next one's of the same principal, and brings along nothing of the first."""

import asyncio
import os
import signal
from dataclasses import replace
from pathlib import Path

import pytest

from stockade_daemon.profiles.tighten import tighten
from stockade_daemon.sandbox import pidfds
from stockade_daemon.sandbox import shelf as module
from stockade_daemon.sandbox.attached import Place
from stockade_daemon.sandbox.pool import Pool
from stockade_daemon.values import Access, Profile
from tests.sandbox.conftest import children, mounters, run

SHOWN = "/srv/work"  # where all of them have their workspace


async def said(pool: Pool, name: str, command: str = "true") -> str:
    async with pool.worker(name, Access.OVERLAY) as worker:
        await run(worker, command)
        return os.read(worker.stdout, 1000).decode().strip()


def placed(directory: Path) -> Place:
    directory.mkdir(exist_ok=True)
    found = directory.stat()
    return Place(str(directory), found.st_dev, found.st_ino, inside=SHOWN)


def templates() -> list[int]:
    """Those that run: one that has ended is its mounter's to collect, a moment later."""
    return sorted(each for mounter in mounters() for each in children(mounter) if runs(each))


def runs(pid: int) -> bool:
    try:
        return (Path("/proc") / str(pid) / "stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except FileNotFoundError:
        return False


async def one(pool: Pool, profile: Profile, directory: Path, whose: str, command: str = "true") -> str:
    """A session of one call."""
    pool.open_room("one", profile, await asyncio.to_thread(placed, directory), whose=whose)
    try:
        return await said(pool, "one", command)
    finally:
        await pool.close_room("one", for_good=True)


async def test_sessions_one_after_the_other_share_a_template_and_nothing_else(
    pool: Pool, profile: Profile, tmp_path: Path
) -> None:
    writing = f"echo 1 > /tmp/left; echo 1 > /dev/shm/left; echo 1 > {SHOWN}/left; sleep 60 & echo $UID"
    await one(pool, profile, tmp_path / "a", "uid:7", writing)
    first = templates()
    assert len(first) == 1
    (tmp_path / "b").mkdir()
    (tmp_path / "b" / "second").write_text("")
    looking = f"cat /tmp/left /dev/shm/left; ls {SHOWN}; ps -e -o comm= | grep -c sleep; ls /proc | grep -c '^[0-9]'"
    shown = await one(pool, profile, tmp_path / "b", "uid:7", looking)
    assert shown.splitlines()[:2] == ["second", "0"]
    assert templates() == first
    assert os.listdir(tmp_path / "a") == []


async def test_sessions_at_once_have_templates_of_their_own(pool: Pool, profile: Profile, tmp_path: Path) -> None:
    for name in ("a", "b"):
        pool.open_room(name, profile, await asyncio.to_thread(placed, tmp_path / name), whose="uid:7")
        await said(pool, name)
    assert len(templates()) == 2
    for name in ("a", "b"):
        await pool.close_room(name, for_good=True)
    assert len(templates()) == 2


ELSE = ["nobody's", "another principal", "another profile", "another place", "mounts", "secrets"]


@pytest.mark.parametrize("what", ELSE)
async def test_only_what_is_wholly_alike_is_shared(pool: Pool, profile: Profile, tmp_path: Path, what: str) -> None:
    if what == "mounts":
        (tmp_path / "tree").mkdir()
        profile = replace(profile, mounts=(str(tmp_path / "tree"),))
    if what == "secrets":
        (tmp_path / "secret").write_text("s")
        (tmp_path / "secret").chmod(0o600)
        profile = replace(profile, secrets={"s": str(tmp_path / "secret")})
    whose = "" if what == "nobody's" else "uid:7"
    await one(pool, profile, tmp_path / "a", whose)
    first = templates()
    if what == "another profile":
        profile = tighten(profile, b"limits.open_files = 77\n")
    place = await asyncio.to_thread(placed, tmp_path / "a")
    if what == "another place":
        place = replace(place, inside="/srv/other")
    if what == "another principal":
        whose = "uid:8"
    pool.open_room("other", profile, place, whose=whose)
    await said(pool, "other")
    assert len(set(templates()) - set(first)) == 1


async def test_a_template_that_ended_on_the_shelf_is_nobodys(pool: Pool, profile: Profile, tmp_path: Path) -> None:
    await one(pool, profile, tmp_path / "a", "uid:7")
    (first,) = templates()
    held = os.pidfd_open(first)
    os.kill(first, signal.SIGKILL)
    ended = asyncio.Event()
    asyncio.get_running_loop().add_reader(held, ended.set)
    await ended.wait()
    asyncio.get_running_loop().remove_reader(held)
    os.close(held)
    assert await one(pool, profile, tmp_path / "a", "uid:7", "echo went") == "went"
    assert first not in templates()


async def test_a_template_that_stands_still_on_the_shelf_costs_its_next_session_nothing_but_time(
    pool: Pool, profile: Profile, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("stockade_daemon.sandbox.channel.PATIENCE_S", 1.0)
    await one(pool, profile, tmp_path / "a", "uid:7")
    (first,) = templates()
    os.kill(first, signal.SIGSTOP)
    assert await one(pool, profile, tmp_path / "a", "uid:7", "echo went") == "went"
    assert first not in templates()


async def test_a_room_that_is_closed_under_a_call_takes_it_along(pool: Pool, profile: Profile, tmp_path: Path) -> None:
    pool.open_room("busy", profile, await asyncio.to_thread(placed, tmp_path / "a"), whose="uid:7")
    async with pool.worker("busy", Access.OVERLAY) as worker:
        await pool.close_room("busy", for_good=True)
        await worker.gone()
        assert templates() == []


async def test_few_are_kept_and_none_for_long(
    pool: Pool, profile: Profile, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "_MOST", 2)
    for number in range(4):
        await one(pool, tighten(profile, f"limits.open_files = {77 + number}\n".encode()), tmp_path / "a", "uid:7")
    assert len(templates()) == 2
    await pool._shelf.tidy()
    assert len(templates()) == 2
    monkeypatch.setattr(module, "_IDLE_S", 0.0)
    await pool._shelf.tidy()
    assert templates() == []
    monkeypatch.setattr(module, "_AGE_S", 0.0)
    await one(pool, profile, tmp_path / "a", "uid:7")
    assert templates() == []
    assert pool._shelf.uids._taken == set()


async def test_a_pool_that_ends_leaves_none(tmp_path: Path, profile: Profile) -> None:
    state = tmp_path / "state"
    state.mkdir(mode=0o700)
    async with Pool.start(state) as pool:
        await one(pool, profile, tmp_path / "a", "uid:7")
        kept = [os.pidfd_open(each) for each in templates()]
        assert kept
    for each in kept:
        assert pidfds.ended(each)
        os.close(each)
