"""A private daemon lives exactly as long as whoever started it."""

import asyncio
import fcntl
import os
import select
import signal
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

from stockade_client import DaemonStartFailed, NoAnswer, connect, local_daemon
from stockade_client.addresses import socket_path
from stockade_client.private_directory import LOCK, PREFIX, private_directory, sweep
from tests.client.conftest import Stockade

ENDS_S = 10.0  # a hang detector

# Starts a daemon, prints its address and its process id, and waits to be killed.
CLIENT = textwrap.dedent(
    """
    import asyncio, os, sys
    from stockade_client import local_daemon

    async def main():
        async with local_daemon() as address:
            with open(f"/proc/self/task/{os.getpid()}/children") as children:
                print(address, children.read().split()[0], flush=True)
            await asyncio.Event().wait()

    asyncio.run(main())
    """
)


def directory_of(address: str) -> Path:
    return Path(socket_path(address)).parent


def children() -> list[int]:
    """Process ids that this thread started, the daemon's among them."""
    with open(f"/proc/self/task/{os.getpid()}/children") as listed:
        return [int(pid) for pid in listed.read().split()]


def has_ended(pidfd: int) -> bool:
    readable, _, _ = select.select([pidfd], [], [], ENDS_S)
    return bool(readable)


async def test_it_is_gone_afterwards_with_its_directory() -> None:
    async with local_daemon() as address:
        directory = directory_of(address)
        assert directory.stat().st_mode & 0o077 == 0
        async with connect(address) as daemon:
            assert daemon.info.private
            assert daemon.info.uid == os.geteuid()
    assert not directory.exists()


async def test_it_is_gone_although_the_block_fails_or_is_cancelled() -> None:
    with pytest.raises(ZeroDivisionError):
        async with local_daemon() as address:
            raise ZeroDivisionError
    assert not directory_of(address).exists()

    started = asyncio.get_running_loop().create_future()

    async def held() -> None:
        async with local_daemon() as address:
            started.set_result(address)
            await asyncio.Event().wait()

    task = asyncio.create_task(held())
    address = await started
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert not directory_of(address).exists()


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM])
def test_it_ends_and_cleans_up_when_its_client_is_killed(number: signal.Signals) -> None:
    with subprocess.Popen([sys.executable, "-c", CLIENT], stdout=subprocess.PIPE, text=True) as client:
        assert client.stdout is not None
        address, pid = client.stdout.readline().split()
        pidfd = os.pidfd_open(int(pid))
        try:
            client.send_signal(number)
            client.wait()
            assert has_ended(pidfd)
        finally:
            os.close(pidfd)
    assert not directory_of(address).exists()


def test_what_a_killed_client_and_daemon_leave_is_swept_by_the_next() -> None:
    with subprocess.Popen([sys.executable, "-c", CLIENT], stdout=subprocess.PIPE, text=True) as client:
        assert client.stdout is not None
        address, pid = client.stdout.readline().split()
        pidfd = os.pidfd_open(int(pid))
        try:
            signal.pidfd_send_signal(pidfd, signal.SIGKILL)
            client.kill()
            client.wait()
            assert has_ended(pidfd)
        finally:
            os.close(pidfd)
    with private_directory():
        assert not directory_of(address).exists()


def test_a_live_directory_and_one_being_made_are_not_swept(tmp_path: Path) -> None:
    live, unfinished, dead = (tmp_path / f"{PREFIX}{name}" for name in ("live", "unfinished", "dead"))
    for directory in (live, unfinished, dead):
        directory.mkdir()
    (dead / LOCK).touch()
    (dead / "state").mkdir()
    (dead / "state" / "ledger").touch()
    with (live / LOCK).open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        assert sweep(str(tmp_path)) == [str(dead)]
    assert live.exists()
    assert unfinished.exists()


def test_a_link_among_the_directories_is_not_followed(tmp_path: Path) -> None:
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    (elsewhere / LOCK).touch()
    (tmp_path / f"{PREFIX}link").symlink_to(elsewhere)
    assert sweep(str(tmp_path)) == []
    assert (elsewhere / LOCK).exists()


async def test_a_call_to_a_daemon_that_was_killed_ends_at_once_and_says_so(workspace: Path) -> None:
    own = set(children())
    async with local_daemon() as address:
        (pid,) = set(children()) - own
        async with connect(address) as daemon, daemon.session(workspace, "dev", id="doomed") as session:
            call = await session.start("shell", command="while :; do :; done")
            os.kill(pid, signal.SIGKILL)
            with pytest.raises(NoAnswer, match="the daemon is gone"):
                await call.result()
    assert not directory_of(address).exists()


async def test_a_daemon_that_cannot_start_says_why(tmp_path: Path) -> None:
    config = tmp_path / "stockade.toml"
    config.write_text("[deamon]\n")
    with pytest.raises(DaemonStartFailed, match=r"stockade\.toml:1"):
        async with local_daemon(config=config):
            pass


async def test_a_state_of_ones_own_outlives_the_daemon(tmp_path: Path, workspace: Path) -> None:
    state = tmp_path / "state"
    async with (
        local_daemon(state=state) as address,
        connect(address) as daemon,
        daemon.session(workspace, "dev", id="kept") as session,
    ):
        first = await session.call_json("read", b'{"path": "a.txt"}', call_id="one")
    async with (
        local_daemon(state=state) as address,
        connect(address) as daemon,
        daemon.session(id="kept") as session,
    ):
        again = await session.call_json("read", b'{"path": "a.txt"}', call_id="one")
    assert again == first


async def test_modules_in_the_current_directory_are_not_imported(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("grpc", "json", "stockade_daemon"):
        (tmp_path / f"{name}.py").write_text("raise SystemExit('imported from the workspace')\n")
    monkeypatch.chdir(tmp_path)
    async with local_daemon() as address, connect(address):
        pass


@pytest.mark.parametrize(
    "arguments",
    [
        ("exec", "--profile", "./mine.toml", "--private", "--", "true"),
        ("call", "read", '{"path": "a.txt"}', "--profile", "./mine.toml", "--private"),
        ("profile", "check", "./mine.toml", "--private"),
        ("profile", "list", "--private"),
        ("catalog", "--private"),
        ("tool", "check", "--private", "today.toml"),
    ],
)
def test_a_private_daemon_can_be_asked_for_where_another_one_is_named(
    stockade: Stockade, environment: dict[str, str], scratch: Path, workspace: Path, arguments: tuple[str, ...]
) -> None:
    (workspace / "mine.toml").write_text('extends = "strict"\n')
    (workspace / "today.toml").write_text('description = "Says the date."\n[program]\nargv = ["date"]\n')
    nobody = {**environment, "STOCKADE_ADDRESS": f"unix:{scratch}/nobody.sock"}
    without = tuple(each for each in arguments if each != "--private")
    assert stockade(*without, env=nobody).returncode in (3, 125)
    done = stockade(*arguments, env=nobody)
    assert done.returncode == 0, done.stderr


def test_a_session_that_should_stay_is_none_of_a_private_daemons(stockade: Stockade) -> None:
    done = stockade("call", "read", "{}", "--session", "s", "--private")
    assert done.returncode == 2
    assert b"--session or --private, not both" in done.stderr
