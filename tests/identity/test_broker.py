"""The broker: who connects gets a token, and nobody can keep it from others."""

import asyncio
import errno
import json
import os
import socket
import stat
import subprocess
from collections.abc import Iterator
from contextlib import ExitStack, suppress
from pathlib import Path

import pytest
import pytest_asyncio

from stockade_daemon.rpc import broker
from stockade_daemon.rpc.broker import Broker, LocalTokens
from tests.everybodys_python import everybodys_python
from tests.identity.users import FIRST, HANG_S, answer_of, tell_needs


@pytest.fixture
def path(scratch: Path) -> Iterator[Path]:
    scratch.chmod(0o711)
    place = scratch / "broker.sock"
    yield place
    place.unlink(missing_ok=True)


@pytest_asyncio.fixture
async def tokens(path: Path) -> LocalTokens:
    return LocalTokens(300)


async def test_the_token_stands_for_the_uid_that_connected(path: Path, tokens: LocalTokens) -> None:
    with Broker.serving(tokens, path):
        said = await asyncio.to_thread(answer_of, path)
    assert tokens.of(said["token"]) == os.geteuid()
    assert 290 < said["seconds"] <= 300
    assert tokens.of(said["token"][:-1]) is None
    assert tokens.of(said["token"].rpartition(".")[0]) is None
    assert tokens.of("") is None


async def test_another_user_gets_a_token_of_his_own(path: Path, tokens: LocalTokens) -> None:
    tell_needs([path.parent])
    program = (
        "import socket, sys; s = socket.socket(socket.AF_UNIX); s.connect(sys.argv[1]); print(s.recv(4096).decode())"
    )
    command = [everybodys_python()[0], "-I", "-S", "-c", program, str(path)]
    with Broker.serving(tokens, path):
        asking = await asyncio.create_subprocess_exec(
            *command, user=FIRST, group=FIRST, extra_groups=[], stdout=subprocess.PIPE
        )
        said, _ = await asking.communicate()
        own = await asyncio.to_thread(answer_of, path)
    theirs = json.loads(said)["token"]
    assert tokens.of(theirs) == FIRST
    assert theirs != own["token"]


def test_a_uid_that_asks_all_the_time_holds_two_tokens() -> None:
    now = 1000.0
    tokens = LocalTokens(100, clock=lambda: now)
    first, seconds = tokens.give(1)
    assert tokens.give(1) == (first, seconds) == (first, 100)
    now += 51
    second, _ = tokens.give(1)
    assert second != first
    assert (tokens.of(first), tokens.of(second)) == (1, 1)
    now += 50
    assert (tokens.of(first), tokens.of(second)) == (None, 1)
    now += 1
    tokens.give(1)
    assert len(tokens._given) == 2
    now += 1000
    assert tokens.of(second) is None
    tokens.give(2)
    assert len(tokens._given) == len(tokens._newest) == 1


def test_there_is_an_end_to_how_many_uids_hold_one(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(broker, "_MOST", 2)
    tokens = LocalTokens(100)
    tokens.give(1)
    tokens.give(2)
    with pytest.raises(OverflowError):
        tokens.give(3)
    assert tokens.give(1)[0]  # who has one keeps it


async def test_peers_that_hang_hold_up_nobody_and_nothing(path: Path, tokens: LocalTokens) -> None:
    before = len(os.listdir("/proc/self/fd"))
    with ExitStack() as held, Broker.serving(tokens, path):
        hanging = []
        for _ in range(200):
            each = held.enter_context(socket.socket(socket.AF_UNIX))
            each.connect(str(path))  # and never reads
            hanging.append(each)
        async with asyncio.timeout(HANG_S):
            assert (await asyncio.to_thread(answer_of, path))["token"]
        # The daemon has let go of all of them: what is open here are our own ends, and its listening socket.
        assert len(os.listdir("/proc/self/fd")) <= before + len(hanging) + 2


async def test_a_flood_leaves_time_for_everything_else(path: Path, tokens: LocalTokens) -> None:
    """Between small groups of connections the loop does what else there is."""
    loop = asyncio.get_running_loop()
    with ExitStack() as held, Broker.serving(tokens, path):
        for _ in range(10 * broker._AT_ONCE):
            held.enter_context(socket.socket(socket.AF_UNIX)).connect(str(path))
        turns = 0

        async def everything_else() -> None:
            nonlocal turns
            while True:
                await asyncio.sleep(0)
                turns += 1

        other = loop.create_task(everything_else())
        async with asyncio.timeout(HANG_S):
            assert (await asyncio.to_thread(answer_of, path))["token"]
        other.cancel()
    assert turns >= 10


async def test_whoever_goes_before_the_answer_harms_nobody(path: Path, tokens: LocalTokens) -> None:
    with Broker.serving(tokens, path):
        for _ in range(50):
            with socket.socket(socket.AF_UNIX) as gone:
                gone.connect(str(path))
        assert (await asyncio.to_thread(answer_of, path))["token"]


async def test_whatever_is_sent_is_not_read(path: Path, tokens: LocalTokens) -> None:
    """Neither a request that never ends nor one that fills all buffers costs the daemon more than its answer."""
    with Broker.serving(tokens, path), socket.socket(socket.AF_UNIX) as asking:
        asking.settimeout(HANG_S)
        asking.connect(str(path))

        def flood() -> int:
            sent = 0
            with suppress(BrokenPipeError, ConnectionResetError):  # it has hung up; one that hangs is TimeoutError
                while sent < 1 << 26:
                    sent += asking.send(b"x" * 65536)
            return sent

        assert await asyncio.to_thread(flood) < 1 << 26
        assert (await asyncio.to_thread(answer_of, path))["token"]


async def test_a_name_at_which_nobody_could_be_heard_is_made_again_by_the_next_who_looks(
    path: Path, tokens: LocalTokens, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refused(self: socket.socket, backlog: int = 0) -> None:
        raise OSError(errno.ENOMEM, os.strerror(errno.ENOMEM))

    with Broker.serving(tokens, path) as serving:
        os.unlink(path)
        with monkeypatch.context() as failing:
            failing.setattr(socket.socket, "listen", refused)
            assert "cannot be made again (Cannot allocate memory)" in serving.fault()
        assert path.name not in os.listdir(path.parent)
        assert serving.fault() == ""
        assert (await asyncio.to_thread(answer_of, path))["token"]


async def test_a_link_that_is_put_in_the_sockets_place_while_it_is_made_leads_to_nothing_that_changes(
    path: Path, tokens: LocalTokens, monkeypatch: pytest.MonkeyPatch
) -> None:
    private, bind = path.with_name("private"), socket.socket.bind
    private.touch(mode=0o600)

    def replaced(self: socket.socket, address: str) -> None:
        bind(self, address)
        path.unlink()
        path.symlink_to(private)

    with Broker.serving(tokens, path) as serving:
        os.unlink(path)
        with monkeypatch.context() as replacing:
            replacing.setattr(socket.socket, "bind", replaced)
            assert "cannot be made again (something else has taken its name)" in serving.fault()
        assert stat.S_IMODE(private.stat().st_mode) == 0o600
        assert stat.S_ISLNK(os.lstat(path).st_mode)
        os.unlink(private)
