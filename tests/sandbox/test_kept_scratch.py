"""What a session keeps beside its workspace: shared by workers of all its rooms, whichever host uid they have."""

import asyncio
import os
import threading
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from stockade_daemon.errors import SandboxFailure
from stockade_daemon.sandbox import session_scratch
from stockade_daemon.sandbox.attached import Place
from stockade_daemon.sandbox.pool import Pool
from stockade_daemon.sandbox.session_scratch import Kept, SessionScratch
from stockade_daemon.sandbox.uids import UidAllotment, UidRange
from stockade_daemon.values import Access, Profile
from tests.sandbox.conftest import mounters, run


@pytest.fixture
def keeping(profile: Profile) -> Profile:
    return replace(profile, scratch=("kept", "d/kept"))


@pytest.fixture
async def shared(pool: Pool, keeping: Profile, workspace: Path) -> str:
    """The name of a room on the workspace whose workers have scratch."""
    found = await asyncio.to_thread(workspace.stat)
    pool.open_room("shared", keeping, Place(str(workspace), found.st_dev, found.st_ino))
    return "shared"


async def said(pool: Pool, room: str, command: str, access: Access = Access.OVERLAY, **more: Any) -> str:
    async with pool.worker(room, access, **more) as worker:
        await run(worker, f"exec 2>&1; {command}")
        return os.read(worker.stdout, 1 << 16).decode()


async def test_workers_of_two_rooms_write_the_same_directory_at_one_time(
    pool: Pool, shared: str, keeping: Profile
) -> None:
    """Under a root daemon each room has a host uid of its own; inside, all is the worker's."""
    other = replace(keeping, digest="another", scratch=("kept",))
    command = (
        "mkdir kept/{0}; echo {0} > kept/{0}/x; until [ -e kept/{1}/x ]; do :; done; rm kept/{1}/x; stat -c %U kept"
    )
    both = await asyncio.gather(
        said(pool, shared, command.format("one", "two")),
        said(pool, shared, command.format("two", "one"), profile=other),
    )
    assert list(both) == ["agent\n", "agent\n"]
    assert await said(pool, shared, "find kept -user agent | sort; ls d/kept") == "kept\nkept/one\nkept/two\n"


async def test_a_worker_that_does_not_change_the_workspace_sees_scratch_only_in_a_job(pool: Pool, shared: str) -> None:
    await said(pool, shared, "echo x > kept/x; echo y > d/kept/y")
    for _ in range(2):
        assert "No such file" in await said(pool, shared, "ls kept d/kept; ls d", Access.READ)
        assert await said(pool, shared, "ls kept d/kept; ls d", Access.READ, job=True) == (
            "d/kept:\ny\n\nkept:\nx\nkept\nx\n"
        )
    assert "Read-only" in await said(pool, shared, "echo > kept/new && echo > new", Access.READ, job=True)
    assert await said(pool, shared, "ls kept") == "new\nx\n"


async def test_scratch_is_there_again_after_a_mounter_was_killed(pool: Pool, shared: str) -> None:
    await said(pool, shared, "echo x > kept/x")
    os.kill(mounters()[0], 9)
    assert await said(pool, shared, "cat kept/x") == "x\n"


async def test_where_scratch_cannot_be_mounted_commands_are_refused_with_the_reason_and_functions_run(
    pool: Pool, keeping: Profile, workspace: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    made = SessionScratch.make

    def moved(self: SessionScratch, session_id: str, paths: tuple[str, ...]) -> tuple[Kept, ...]:
        return tuple(replace(each, inode=each.inode + 1) for each in made(self, session_id, paths))

    monkeypatch.setattr(SessionScratch, "make", moved)
    found = await asyncio.to_thread(workspace.stat)
    pool.open_room("room", keeping, Place(str(workspace), found.st_dev, found.st_ino))
    with pytest.raises(SandboxFailure) as refused:
        await said(pool, "room", "true")
    assert refused.value.code == "SANDBOX_UNAVAILABLE"
    assert "is another directory for the mounter" in refused.value.message
    assert "choose another --state" in refused.value.message
    assert await said(pool, "room", "echo runs", Access.READ) == "runs\n"
    os.kill(mounters()[0], 9)  # a template after it
    assert await said(pool, "room", "echo runs", Access.READ) == "runs\n"
    told = [each.getMessage() for each in caplog.records if "`filesystem.scratch`" in each.getMessage()]
    assert len(told) == 1, told
    assert told[0].startswith("session room: ")


async def test_a_cover_has_a_mount_point_only_where_its_directory_is(pool: Pool, shared: str, workspace: Path) -> None:
    (workspace / "d").rename(workspace / "away")
    (workspace / "d").symlink_to("away")
    assert (
        await said(pool, shared, "ls away/ d/; mountpoint -q kept && echo mounted") == "away/:\nx\n\nd/:\nx\nmounted\n"
    )
    (workspace / "d").unlink()
    (workspace / "away").rename(workspace / "d")
    assert await said(pool, shared, "ls d") == "kept\nx\n"


async def test_what_ended_sessions_kept_is_removed_one_after_the_other(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """However many end at once: calls want the same few threads."""
    kept, seen = SessionScratch(tmp_path, None), []
    begun, go = threading.Event(), threading.Event()

    def removing(path: Path) -> None:
        seen.append(f"{path.name} begins")
        begun.set()
        assert go.wait(60)
        seen.append(f"{path.name} ends")

    monkeypatch.setattr(session_scratch, "remove_tree", removing)
    async with asyncio.TaskGroup() as tasks:
        for name in ("one", "other"):
            tasks.create_task(kept.remove(tmp_path / name))
            await asyncio.to_thread(begun.wait, 60)
        await asyncio.to_thread(lambda: None)  # whatever was begun before this has begun
        go.set()
    assert seen == ["one begins", "one ends", "other begins", "other ends"]


async def test_what_a_daemon_puts_out_of_reach_never_has_the_name_of_what_an_earlier_one_did(tmp_path: Path) -> None:
    """In a container both have one pid, and what the earlier one left may be under removal."""
    dropped = []
    for name in ("one", "other"):
        kept = SessionScratch(tmp_path, None)
        kept.make(name, ("kept",))
        dropped.append(await kept.drop(name))
    assert dropped[0] != dropped[1]
    assert await SessionScratch(tmp_path, None).left(is_open) == sorted(each for each in dropped if each is not None)


def test_rooms_of_one_session_that_begin_at_once_have_one_directory(tmp_path: Path) -> None:
    kept, at_once = SessionScratch(tmp_path, None), 8
    with ThreadPoolExecutor(at_once) as threads:
        for number in range(50):
            together = threading.Barrier(at_once)

            def make(session_id: str = str(number), together: threading.Barrier = together) -> tuple[Kept, ...]:
                together.wait(60)
                return kept.make(session_id, ("kept", "d/kept"))

            found = {each.result() for each in [threads.submit(make) for _ in range(at_once)]}
            assert found == {kept.make(str(number), ("kept", "d/kept"))}


async def is_open(session_id: str) -> bool:
    raise AssertionError(f"{session_id} has nothing here any more")


def test_what_outlives_workers_is_owned_by_a_uid_that_none_of_them_has() -> None:
    allotment = UidAllotment(UidRange(1000, 3))
    assert [allotment.take(), allotment.take()] == [1000, 1001]
    assert allotment.of_nobody == 1002
    with pytest.raises(OSError, match="all 3 uids"):
        allotment.take()
    assert UidAllotment(None).of_nobody is None
