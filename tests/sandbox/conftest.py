"""A real pool on the real kernel, without a daemon around it."""

import asyncio
import contextlib
import os
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
import pytest_asyncio

from stockade_daemon.profiles import read as profiles
from stockade_daemon.sandbox.attached import Place
from stockade_daemon.sandbox.pool import Pool
from stockade_daemon.sandbox.worker import Worker
from stockade_daemon.values import Profile


@pytest.fixture
def workspace(tmp_path: Path) -> Path:
    place = tmp_path / "work: space, with\\odd names"
    place.mkdir()
    (place / "a.txt").write_text("one\n")
    (place / "d").mkdir()
    (place / "d" / "x").write_text("x\n")
    return place


@pytest.fixture
def profile() -> Profile:
    return profiles.load("dev", directories=[profiles.shipped()])


@pytest_asyncio.fixture
async def pool(tmp_path: Path) -> AsyncIterator[Pool]:
    state = tmp_path / "state"
    state.mkdir(mode=0o700)
    async with Pool.start(state) as pool:
        yield pool
    assert os.listdir(state / "scratch") == []


@pytest_asyncio.fixture
async def room(pool: Pool, profile: Profile, workspace: Path) -> str:
    """The name of a room on the workspace."""
    found = await asyncio.to_thread(workspace.stat)
    pool.open_room("room", profile, Place(str(workspace), found.st_dev, found.st_ino))
    return "room"


async def run(worker: Worker, command: str) -> None:
    """Gives a worker its one job and waits until everything of it is gone."""
    blob = b"".join(part + b"\0" for part in (b"bash", b"-c", command.encode()))
    await worker.requests.send({"type": "command", "directory": "", "shell": True}, blob)
    await worker.exited()
    await worker.gone()


def mounters() -> list[int]:
    """The pids of this process's mounters."""
    return [pid for pid in children(os.getpid()) if _is_mounter(pid)]


def children(pid: int) -> list[int]:
    """Those of a mounter are its templates."""
    return [child for child, parent in parents().items() if parent == pid]


def parents() -> dict[int, int]:
    """Every process's parent (proc_pid_stat(5))."""
    found: dict[int, int] = {}
    for process in Path("/proc").iterdir():
        if process.name.isdigit():
            with contextlib.suppress(OSError):
                found[int(process.name)] = int((process / "stat").read_text().rpartition(")")[2].split()[1])
    return found


def _is_mounter(pid: int) -> bool:
    try:
        return b"stockade_worker.mounter" in Path(f"/proc/{pid}/cmdline").read_bytes()
    except OSError:
        return False
