"""One daemon of root, two users of the host, four principals."""

import asyncio
import os
import tempfile
from collections.abc import Iterator
from pathlib import Path

import grpc
import pytest

from stockade.v1 import daemon_pb2
from stockade.v1.daemon_pb2_grpc import DaemonStub
from stockade_client import NotPermitted, connect
from stockade_client.local_token import LocalToken
from stockade_daemon.rpc.tokens import make
from tests.end_to_end.stockaded import Stockaded
from tests.identity.users import FIRST, HANG_S, SECOND, answer_of, run_as, tell_needs

_CONFIGURATION = """
[identity]
shared = true
token_s = {token_s}
[profiles]
paths = ["{profiles}"]
[[principals]]
name = "bea"
uid = {second}
roles = ["agent", "approver"]
[[principals]]
name = "cid"
token = "{token}"
workspaces = ["{cids}"]
"""


class Shared:
    """Its parts: the daemon, Cid's token, a workspace of the first user, one of Cid's."""

    def __init__(self, stockaded: Stockaded, *, token_s: int = 300) -> None:
        place = stockaded.directory
        self.daemon = stockaded
        self.address = stockaded.address
        self.token = make(place / "token")
        self.firsts, self.cids, profiles = (place / name for name in ("firsts", "cids", "profiles"))
        for each in (self.firsts, self.cids, profiles):
            each.mkdir(mode=0o755)
            (each / "a.txt").write_text("one\n")
        os.chown(self.firsts, FIRST, FIRST)
        (profiles / "asking.toml").write_text(
            'extends = "dev"\nwiden = ["approval.wait_s"]\n[approval]\nwait_s = 600\n'
        )
        text = _CONFIGURATION.format(
            token_s=token_s, profiles=profiles, second=SECOND, token=place / "token", cids=self.cids
        )
        stockaded.configuration.write_text(f"{stockaded.configuration.read_text()}{text}")
        stockaded.start()

    @property
    def broker(self) -> Path:
        return Path(f"{self.daemon.socket}.token")


@pytest.fixture
def shared(stockaded: Stockaded, scratch: Path) -> Iterator[Shared]:
    for each in (scratch, stockaded.directory):
        each.chmod(0o711)
    tell_needs([stockaded.directory])
    yield Shared(stockaded)
    assert stockaded.process is None or stockaded.end() == 0


async def test_each_sees_its_own_and_a_stolen_session_id_gives_nothing(shared: Shared) -> None:
    first = run_as(
        FIRST,
        shared.address,
        f"""
async with connect(ADDRESS) as daemon, daemon.session("{shared.firsts}", "asking", id="firsts") as session:
    read = await session.call("read", path="a.txt")
    call = await session.start("write", path="b.txt", content="new", call_id="asked")
    async with session.events(follow=True) as events:
        async for event in events:
            if event.type == "approval/asked":
                break
    return [
        daemon.info.caller.name,
        list(daemon.info.caller.roles),
        read.ok,
        [each.session_id for each in await daemon.sessions()],
        await outcome(daemon.session("{shared.cids}", "dev").__aenter__()),
        await outcome(daemon.session("/root", "dev").__aenter__()),
        await outcome(daemon.approvals().__aenter__()),
        await outcome(daemon.doctor()),
    ]
""",
    )
    assert first[:4] == [f"uid:{FIRST}", ["agent"], True, ["firsts"]]
    for each, place in zip(first[4:6], (shared.cids, "/root"), strict=True):
        assert each.startswith(f"NotPermitted: {place} is no directory that uid:{FIRST} may work on: directories that")
    assert first[6].startswith(f"NotPermitted: uid:{FIRST} may answer nobody's asks")
    assert "takes the role admin" in first[7]

    stolen = """
    [
        await outcome(daemon.get_session("firsts")),
        await outcome(daemon.close_session("firsts")),
        await outcome(daemon.call("firsts", "asked").result()),
        await outcome(daemon.call("firsts", "asked").cancel()),
        await outcome(daemon.calls("firsts")),
        await outcome(daemon.approvals("firsts").__aenter__()),
        await outcome(anext(daemon.events("firsts"))),
        [each.session_id for each in await daemon.sessions()],
        [each.session_id for each in await daemon.calls()],
    ]
"""
    nothing = run_as(SECOND + 1, shared.address, f"async with connect(ADDRESS) as daemon:\n    return (\n{stolen}    )")
    cid = run_as(
        SECOND + 1,
        shared.address,
        f"async with connect(ADDRESS, {shared.token!r}) as daemon:\n    return (\n{stolen}    )",
    )
    absent = "NotFound: there is no session 'firsts'; open it first"
    assert nothing == cid == [absent] * 7 + [[], []]

    bea = run_as(
        SECOND,
        shared.address,
        f"""
async with connect(ADDRESS) as daemon:
    async with daemon.approvals() as asks:
        ask = await anext(asks)
        await ask.decide(True)
    done = await daemon.call("firsts", "asked").result()
    return [
        daemon.info.caller.name,
        ask.asked_by,
        done.ok,
        await outcome(daemon.close_session("firsts")),
        await outcome(daemon.session("{shared.firsts}", "dev").__aenter__()),
    ]
""",
    )
    assert bea[:3] == ["bea", f"uid:{FIRST}", True]
    assert bea[3] == f"NotPermitted: session firsts belongs to uid:{FIRST}; bea may look at it, and answer what it asks"
    assert bea[4].startswith(f"NotPermitted: {shared.firsts} is no directory that bea may work on")
    # Root is the daemon's own user: its admin, who sees all, and sees who did what.
    async with connect(shared.address) as daemon:
        assert set(daemon.info.caller.roles) == {"admin", "agent", "approver"}
        async with daemon.events("firsts") as events:
            by_type = {event.type: event.principal async for event in events}
        assert (await daemon.close_session("firsts")).principal == f"uid:{FIRST}"
    assert by_type["session/opened"] == by_type["approval/asked"] == by_type["fs/committed"] == f"uid:{FIRST}"
    assert by_type["approval/decided"] == "bea"
    assert (shared.firsts / "b.txt").stat().st_uid == FIRST


async def test_a_token_that_the_broker_did_not_give_is_refused(shared: Shared) -> None:
    """Each is near to one that counts: a replay of it, where it is whole, counts for the user it was given to alone."""
    given = str((await asyncio.to_thread(answer_of, shared.broker))["token"])
    name, _, secret = given.rpartition(".")
    wrong = [given[:-1], given + "x", name, f"{name}.", f"{name}.{'A' * len(secret)}", f"local.{secret}", "local."]
    for each in wrong:
        with pytest.raises(NotPermitted, match="the token has ended; connect to"):
            async with connect(shared.address, each):
                pass
    # Whoever has somebody's token is that user: it never becomes the right of the one who shows it.
    stolen = run_as(
        FIRST,
        shared.address,
        f"""
own = await outcome(connect(ADDRESS).__aenter__())
async with connect(ADDRESS, {run_as(SECOND, shared.address, _TOKEN)!r}) as daemon:
    return [own.info.caller.name, daemon.info.caller.name]
""",
    )
    assert stolen == [f"uid:{FIRST}", "bea"]
    shared.daemon.end()
    shared.daemon.start()
    with pytest.raises(NotPermitted, match="the token has ended; connect to"):
        async with connect(shared.address, given):
            pass


_TOKEN = """
async with connect(ADDRESS) as daemon:
    return daemon._link.metadata["authorization"].removeprefix("Bearer ")
"""


async def test_without_a_token_the_answer_says_where_to_get_one(shared: Shared) -> None:
    async with grpc.aio.insecure_channel(shared.address) as channel:
        with pytest.raises(grpc.aio.AioRpcError) as refused:
            await DaemonStub(channel).GetInfo(daemon_pb2.GetInfoRequest())
    assert refused.value.code() is grpc.StatusCode.UNAUTHENTICATED
    assert refused.value.details() == (
        f"this daemon serves several users and wants a token; connect to {shared.broker}, which sends one, or send the "
        "one that its admin gave you"
    )


async def test_a_client_goes_on_where_the_daemon_was_started_again(shared: Shared) -> None:
    """Its token is gone with the daemon that gave it."""
    async with connect(shared.address) as daemon, daemon.session(shared.cids, "dev", id="s") as session:
        before = daemon._link.metadata
        shared.daemon.end()
        shared.daemon.start()
        assert (await session.call("read", path="a.txt")).ok
        assert daemon._link.metadata != before
        async with session.events() as events:
            assert (await anext(events)).type == "session/opened"


async def test_a_token_ends_and_a_client_gets_the_next_one_by_itself(stockaded: Stockaded, scratch: Path) -> None:
    for each in (scratch, stockaded.directory):
        each.chmod(0o711)
    tell_needs([])
    shared = Shared(stockaded, token_s=2)
    first = str((await asyncio.to_thread(answer_of, shared.broker))["token"])
    sent: set[str | bytes] = set()
    ended = ""
    async with asyncio.timeout(HANG_S), connect(shared.address) as daemon:
        while not ended or len(sent) < 2:
            await daemon.sessions()  # never refused, whatever the time
            sent.add(daemon._link.metadata["authorization"])
            try:
                async with connect(shared.address, first) as plain:
                    await plain.sessions()
            except NotPermitted as error:
                ended = str(error)
    assert "the token has ended; connect to" in ended


async def test_a_client_takes_no_for_an_answer_from_the_broker() -> None:
    """Whatever answers there, an answer that is none is not a token."""
    with tempfile.TemporaryDirectory() as place:  # pytest's names may be too long for a socket
        path = Path(place, "d.sock")
        for answer, token in ((b"{}", ""), (b"", ""), (b"[1]", ""), (b'{"token": "t", "seconds": 60}', "t")):

            async def say(reader: asyncio.StreamReader, writer: asyncio.StreamWriter, answer: bytes = answer) -> None:
                writer.write(answer)
                writer.close()

            async with await asyncio.start_unix_server(say, f"{path}.token"):
                assert await LocalToken(str(path)).current() == token
