"""Tokens: which count, and what is said of those that do not."""

import asyncio
import hashlib
import os
import stat
import subprocess
import sys
from pathlib import Path

import grpc
import pytest

from stockade.v1 import daemon_pb2
from stockade.v1.daemon_pb2_grpc import DaemonStub
from stockade_client import Daemon, Event, NotPermitted, Stream, connect
from stockade_daemon.rpc.tokens import make
from tests.end_to_end.stockaded import Stockaded
from tests.identity.people import People

HANG_S = 30.0


async def test_a_token_says_who_is_calling(four: dict[str, Daemon], knowing: Stockaded) -> None:
    assert {name: daemon.info.caller.name for name, daemon in four.items()} == {name: name for name in four}
    assert four["cleo"].info.caller.roles == ("approver",)
    # Without one, on a socket that its own user alone can reach, it is that user, who may do everything.
    async with connect(knowing.address) as daemon:
        assert daemon.info.caller.name == f"uid:{os.geteuid()}"
        assert daemon.info.caller.roles == ("admin", "agent", "approver")


async def test_a_token_of_nobody_is_refused(knowing: Stockaded, people: People) -> None:
    for wrong in ("x" * 43, people.tokens["ann"][:-1], people.tokens["ann"] + "x"):
        with pytest.raises(NotPermitted, match="the token is not, or no longer, one of this daemon's; get a new one"):
            async with connect(knowing.address, wrong):
                pass
    async with grpc.aio.insecure_channel(knowing.address) as channel:
        for header, said in (
            ("Basic eDp5", "is not of the form"),
            ("Bearer ", "the token is empty"),
            (f"Bearer {'x' * 513}", "longer than 512"),
        ):
            with pytest.raises(grpc.aio.AioRpcError, match=said) as refused:
                await DaemonStub(channel).GetInfo(
                    daemon_pb2.GetInfoRequest(), metadata=grpc.aio.Metadata(("authorization", header))
                )
            assert refused.value.code() is grpc.StatusCode.UNAUTHENTICATED


async def test_a_stream_that_was_let_in_with_a_token_ends_with_it(knowing: Stockaded, people: People) -> None:
    async with (
        asyncio.timeout(HANG_S),
        connect(knowing.address, people.tokens["ann"]) as ann,
        ann.session(people.workspace("ann"), "dev", id="s") as session,
        session.events(follow=True, heartbeat_s=0.1) as events,
    ):
        assert (await anext(events)).type == "session/opened"
        people.files["ann"].unlink()
        with pytest.raises(NotPermitted, match="the token is not, or no longer, one of this daemon's"):
            await last(events)


async def last(events: Stream[Event]) -> Event:
    """The last one, once the stream is over."""
    async for event in events:
        found = event
    return found


async def test_a_token_that_is_replaced_counts_no_more_and_the_new_one_does(knowing: Stockaded, people: People) -> None:
    async with connect(knowing.address, people.tokens["ann"]) as ann:
        fresh = make(people.files["ann"])
        async with asyncio.timeout(HANG_S):
            while True:
                try:
                    await ann.sessions()
                except NotPermitted:
                    break
        async with connect(knowing.address, fresh) as again:
            assert again.info.caller.name == "ann"


def test_a_token_is_shown_once_and_its_digest_kept(tmp_path: Path) -> None:
    path = tmp_path / "token"
    command = [sys.executable, "-m", "stockade_daemon", "token", str(path)]
    first, second = (
        subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip() for _ in range(2)
    )
    assert first != second
    assert path.read_text() == hashlib.sha256(second.encode()).hexdigest() + "\n"
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert os.listdir(tmp_path) == ["token"]
    refused = subprocess.run([*command[:-1], "/nowhere/token"], capture_output=True, text=True, check=False)
    assert refused.returncode == 2
    assert "/nowhere/token: cannot be written: No such file or directory; choose another file" in refused.stderr


def test_no_token_is_in_the_daemons_log_or_its_ledger(knowing: Stockaded, people: People) -> None:
    async def work() -> None:
        async with (
            connect(knowing.address, people.tokens["ann"]) as ann,
            ann.session(people.workspace("ann"), "ci") as session,
        ):
            shown = await session.call("shell", command="env; cat /proc/self/cmdline")
            assert people.tokens["ann"] not in str(shown)

    asyncio.run(work())
    assert knowing.end() == 0
    kept = b"".join(path.read_bytes() for path in knowing.directory.rglob("*") if path.is_file())
    for token in people.tokens.values():
        assert token.encode() not in kept


def test_a_command_takes_its_token_from_a_file_of_its_users(knowing: Stockaded, people: People) -> None:
    file = people.work / "token"
    environment = {**knowing.environment, "STOCKADE_TOKEN_FILE": str(file)}

    def said() -> str:
        command = [sys.executable, "-m", "stockade_client", "exec", "--profile", "ci", "--", "true"]
        done = subprocess.run(
            command, cwd=people.workspace("ben"), env=environment, capture_output=True, text=True, check=False
        )
        return done.stderr

    assert "cannot be read from" in said()
    file.write_text(people.tokens["ann"] + "\n")
    file.chmod(0o644)
    assert f"chmod 0600 {file}" in said()
    file.chmod(0o600)
    assert "is no directory that ann may work on" in said()
    file.write_text(people.tokens["ben"])
    assert said() == ""
    file.write_text("two words")
    assert "holds no token: one word" in said()
