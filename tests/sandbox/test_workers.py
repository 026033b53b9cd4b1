"""Templates and workers: prepared, single-use, gone."""

import asyncio
import contextlib
import os
import resource
import select
import signal
import time
from dataclasses import replace
from pathlib import Path

import pytest

from stockade_daemon.errors import InfrastructureFailure, SandboxFailure
from stockade_daemon.sandbox import layers
from stockade_daemon.sandbox.attached import Place
from stockade_daemon.sandbox.pool import Pool
from stockade_daemon.sandbox.uids import UidAllotment, UidRange, available
from stockade_daemon.sandbox.worker import Worker
from stockade_daemon.values import Access, Layer, Profile
from tests.sandbox.conftest import children, mounters, parents, run


async def test_a_worker_has_every_layer_that_the_shipped_profiles_require(pool: Pool, profile: Profile) -> None:
    held = await pool.probe(profile)
    assert layers.missing(held, profile.required_layers) == []
    named = {layer.name: layer.held for layer in held}
    assert named["uid"] == (os.getuid() == 0)


async def test_a_required_layer_that_is_missing_refuses_the_worker_with_the_reason(
    pool: Pool, profile: Profile
) -> None:
    if os.getuid() == 0:
        pytest.skip("as root every layer that can be required is there")
    with pytest.raises(SandboxFailure) as caught:
        await pool.probe(replace(profile, required_layers=("uid",), digest="needs uid"))
    assert caught.value.code == "SANDBOX_UNAVAILABLE"
    assert "not root" in caught.value.message


def test_a_layer_is_held_only_where_the_kernel_says_so() -> None:
    ours = {"user": 1, "mnt": 2, "pid": 3, "net": 4, "ipc": 5, "uts": 6, "cgroup": 7}
    facts = {
        "namespaces": {**ours, "user": 11, "pid": 13},
        "Groups": "65534 65534",
        "CapEff": "0000000000000001",
        "NoNewPrivs": "1",
        "Seccomp": "0",
    }
    cgroup = Layer("cgroup", False, "why")
    held = {layer.name: layer.held for layer in layers.held(facts, ours, own_uid=False, overlay=False, cgroup=cgroup)}
    assert {name for name in ("user", "mount", "pid", "net", "ipc", "uts", "cgroup_ns") if held[name]} == {
        "user",
        "pid",
    }
    assert not any(held[name] for name in ("groups", "capabilities", "seccomp", "uid"))
    assert held["no_new_privs"]
    assert layers.missing((Layer("net", False, "why"),), ("net", "overlay"))[0].reason == "why"


async def test_a_worker_serves_one_job(pool: Pool, room: str) -> None:
    pids = []
    for _ in range(3):
        async with pool.worker(room, Access.OVERLAY) as worker:
            await run(worker, "echo left > /tmp/left; ls /tmp | grep -c left")
            pids.append(os.read(worker.stdout, 10))
            with pytest.raises(InfrastructureFailure):
                await worker.exited()
    assert pids == [b"1\n"] * 3


async def test_a_worker_killed_from_outside_is_told_from_a_command_that_failed(pool: Pool, room: str) -> None:
    async with pool.worker(room, Access.OVERLAY) as worker:
        blob = b"sleep\x0047.41\0"
        await worker.requests.send({"type": "command", "directory": "", "shell": False}, blob)
        worker.kill()
        with pytest.raises(InfrastructureFailure) as caught:
            await worker.exited()
    assert "none (proven)" in caught.value.message


async def test_many_workers_at_once_leave_nothing(pool: Pool, room: str, tmp_path: Path) -> None:
    async def one(number: int) -> bytes:
        async with pool.worker(room, Access.OVERLAY) as worker:
            await run(worker, f"echo {number} > n; cat n")
            return os.read(worker.stdout, 10)

    found = await asyncio.gather(*(one(number) for number in range(12)))
    assert found == [f"{number}\n".encode() for number in range(12)]


async def test_a_workspace_that_was_exchanged_is_noticed(pool: Pool, profile: Profile, workspace: Path) -> None:
    found = os.stat(workspace)
    pool.open_room("moved", profile, Place(str(workspace), found.st_dev, found.st_ino + 1))
    with pytest.raises(SandboxFailure) as caught:
        async with pool.worker("moved", Access.OVERLAY):
            pass
    assert "another directory" in caught.value.message


async def test_a_killed_template_is_started_again(pool: Pool, room: str) -> None:
    async with pool.worker(room, Access.OVERLAY) as worker:
        await run(worker, "true")
    for pid in children(mounters()[0]):
        os.kill(pid, signal.SIGKILL)
    async with pool.worker(room, Access.OVERLAY) as worker:
        await run(worker, "echo again")
        assert os.read(worker.stdout, 10) == b"again\n"


@pytest.mark.parametrize("deaths", [1, 2])
async def test_a_template_that_dies_before_its_worker_is_sealed_is_tried_once_more(
    pool: Pool, room: str, deaths: int, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """Killed when the worker is cloned and has not been told to go on."""
    go = Worker.go
    killed: list[int] = []

    async def killing(worker: Worker) -> None:
        if len(killed) < deaths:
            (template,) = children(mounters()[0])
            pidfd = os.pidfd_open(template)
            signal.pidfd_send_signal(pidfd, signal.SIGKILL)
            await asyncio.to_thread(select.select, [pidfd], [], [])  # it has ended, and all in its pid namespace
            os.close(pidfd)
            killed.append(template)
        await go(worker)

    monkeypatch.setattr(Worker, "go", killing)
    if deaths == 1:
        async with pool.worker(room, Access.OVERLAY) as worker:
            await run(worker, "echo again")
            assert os.read(worker.stdout, 10) == b"again\n"
    else:
        with pytest.raises(SandboxFailure, match="failed twice") as caught:
            async with pool.worker(room, Access.OVERLAY):
                pass
        assert caught.value.code == "SANDBOX_FAILED"
        assert "nothing was run" in caught.value.message
    assert len(set(killed)) == deaths
    assert sum("before a worker of it was sealed" in each.getMessage() for each in caplog.records) == deaths


async def test_a_killed_mounter_is_started_again(pool: Pool, room: str) -> None:
    async with pool.worker(room, Access.OVERLAY) as worker:
        await run(worker, "true")
    os.kill(mounters()[0], signal.SIGKILL)
    for _ in range(2):
        async with pool.worker(room, Access.OVERLAY) as worker:
            await run(worker, "echo again")
            assert os.read(worker.stdout, 10) == b"again\n"


def _descendants(pid: int) -> set[int]:
    table, found = parents(), {pid}
    while more := {child for child, parent in table.items() if parent in found} - found:
        found |= more
    return found - {pid}


def _until_gone(pids: set[int]) -> None:
    deadline = time.monotonic() + 10
    while any(map(_lives, pids)):
        assert time.monotonic() < deadline


def _lives(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] not in "ZX"
    except OSError:
        return False


async def test_a_closed_room_makes_no_more_workers(pool: Pool, room: str) -> None:
    async with pool.worker(room, Access.OVERLAY) as worker:
        await run(worker, "true")
    await pool.close_room(room)
    with pytest.raises(SandboxFailure):
        async with pool.worker(room, Access.OVERLAY):
            pass


async def test_standard_error_can_be_opened_by_name(pool: Pool, room: str) -> None:
    async with pool.worker(room, Access.OVERLAY) as worker:
        await run(worker, "echo hello > /dev/stderr; echo there > /proc/self/fd/1")
        assert (os.read(worker.stdout, 10), os.read(worker.stderr, 10)) == (b"there\n", b"hello\n")


async def test_a_text_longer_than_one_argument_may_be_is_run_whole(pool: Pool, room: str) -> None:
    async with pool.worker(room, Access.OVERLAY) as worker:
        await run(worker, f": {'x' * 300_000}; echo end")
        assert os.read(worker.stdout, 10) == b"end\n"


def test_a_uid_is_given_to_one_at_a_time_the_overflow_uid_and_the_last_one_to_none() -> None:
    allotment = UidAllotment(UidRange(65532, 5))
    taken = [allotment.take() for _ in range(3)]
    assert taken == [65532, 65533, 65535]
    with pytest.raises(OSError, match="all 5 uids"):
        allotment.take()
    allotment.give_back(65533)
    assert allotment.take() == 65533


def test_only_root_has_a_range_of_uids() -> None:
    assert (available() is not None) == (os.getuid() == 0)
    assert UidAllotment(None).take() is None


async def test_every_session_recovers_from_a_killed_mounter(
    pool: Pool, room: str, profile: Profile, workspace: Path
) -> None:
    found = await asyncio.to_thread(workspace.stat)
    pool.open_room("other", profile, Place(str(workspace), found.st_dev, found.st_ino))
    for name in (room, "other"):
        async with pool.worker(name, Access.OVERLAY) as worker:
            await run(worker, "true")
    made = _descendants(mounters()[0])
    os.kill(mounters()[0], signal.SIGKILL)
    _until_gone(made)  # they die of its death, a moment later
    for name in (room, "other", room, "other"):
        async with pool.worker(name, Access.OVERLAY) as worker:
            await run(worker, "echo again")
            assert os.read(worker.stdout, 10) == b"again\n"


async def test_a_daemon_with_many_descriptors_has_workers_all_the_same(
    pool: Pool, room: str, request: pytest.FixtureRequest
) -> None:
    """select(2) takes none above 1023."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if hard < 4096:
        pytest.skip("needs a hard limit of 4096 descriptors")
    resource.setrlimit(resource.RLIMIT_NOFILE, (max(soft, 4096), hard))
    request.addfinalizer(lambda: resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard)))
    with contextlib.ExitStack() as stack:
        while (last := os.open("/dev/null", os.O_RDONLY | os.O_CLOEXEC)) < 1100:
            stack.callback(os.close, last)
        os.close(last)
        for _ in range(2):  # the second finds one that was prepared
            async with pool.worker(room, Access.OVERLAY) as worker:
                await run(worker, "echo went")
                assert os.read(worker.stdout, 100) == b"went\n"
            while not pool._sessions[room].own._prepared[Access.OVERLAY]:  # noqa: ASYNC110 (nobody is told of it)
                await asyncio.sleep(0)
