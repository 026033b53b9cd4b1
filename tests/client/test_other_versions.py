"""Client and daemon of different versions: what both know works, and the rest has an error that says what to do."""

import asyncio
import os
import socket as sockets
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

import pytest
from google.protobuf.message import Message

from stockade.v1 import approvals_pb2, calls_pb2, daemon_pb2, events_pb2, sessions_pb2
from stockade_client import Daemon, Incompatible, NoDaemon, connect, wire
from stockade_client.approving import queue as queues
from tests.client.another_version import Change, another_version

M = TypeVar("M", bound=Message)
BOTH = "install the same version of stockade on both sides"


def changed(kind: Callable[[], M], change: Callable[[M], object]) -> Change:
    def apply(data: bytes) -> bytes:
        message = kind()
        message.ParseFromString(data)
        change(message)
        return message.SerializeToString()

    return apply


def without(kind: Callable[[], M], *fields: str) -> Change:
    def clear(message: M) -> None:
        for field in fields:
            message.ClearField(field)

    return changed(kind, clear)


def older(message: daemon_pb2.GetInfoResponse) -> None:
    message.version = "0.0.9"
    message.ClearField("features")


def newer(message: daemon_pb2.GetInfoResponse) -> None:
    message.version = "7.0"
    message.features.append("mind-reading")


OLDER: dict[str, Change] = {"Daemon/GetInfo": changed(daemon_pb2.GetInfoResponse, older)}
NEWER: dict[str, Change] = {"Daemon/GetInfo": changed(daemon_pb2.GetInfoResponse, newer)}


@pytest.fixture
def socket(scratch: Path, workspace: Path) -> Path:
    return scratch / f"{workspace.name[-8:]}.sock"


async def test_an_older_daemon_that_lacks_methods_says_so_and_does_the_rest(
    address: str, socket: Path, workspace: Path
) -> None:
    lacks = frozenset({"Calls/StartTurn", "Catalog", "Approvals", "Calls/ReadOutput", "Daemon/Doctor"})
    async with (
        another_version(address, socket, lacks=lacks, answers=OLDER) as there,
        connect(there) as daemon,
        daemon.session(workspace, "dev") as session,
    ):
        assert (await session.call("read", path="a.txt")).ok
        call = await session.start("shell", command="echo hello")
        assert (await call.result()).ok

        async def output() -> None:
            async for _ in call.output():
                pass

        async def approvals() -> None:
            async with daemon.approvals():
                pass

        attempts: list[tuple[str, Callable[[], Any]]] = [
            ("run a turn of 1 calls", lambda: session.call_many([("read", {"path": "a.txt"})])),
            ("list its tools", daemon.tools),
            ("watch for asks", approvals),
            ("read the stdout of shell", output),
            ("ask its host", daemon.doctor),
        ]
        for what, attempt in attempts:
            with pytest.raises(Incompatible) as raised:
                await attempt()
            text = str(raised.value)
            assert f"stockade 0.0.9, does not know how to {what}" in text
            assert text.endswith(f"this client is stockade {wire.own_version()}: {BOTH}")


async def test_an_older_daemon_without_features_is_not_asked_for_them(
    address: str, socket: Path, workspace: Path
) -> None:
    beats: list[float] = []
    asked = {"Events/Read": changed(events_pb2.ReadEventsRequest, lambda request: beats.append(request.heartbeat_s))}
    async with (
        another_version(address, socket, asked=asked, answers=OLDER) as there,
        connect(there) as daemon,
        daemon.session(workspace, "dev") as session,
        session.events(follow=True) as events,
    ):
        assert (await anext(events)).type == "session/opened"
    assert beats == [0.0]


async def test_what_a_daemon_has_not_named_is_not_sent_to_it_and_says_so(
    address: str, socket: Path, workspace: Path
) -> None:
    """Jobs and both outputs as one: an older daemon would say that there are no jobs, or that a part is malformed."""
    sent: list[bytes] = []

    def kept(data: bytes) -> bytes:
        sent.append(data)
        return data

    asked: dict[str, Change] = dict.fromkeys(("Calls/List", "Calls/Signal", "Calls/ReadOutput"), kept)
    async with (
        another_version(address, socket, asked=asked, answers=OLDER) as there,
        connect(there) as daemon,
        daemon.session(workspace, "dev") as session,
    ):
        call = await session.start("shell", command="echo hello")
        assert (await call.result()).ok
        attempts: list[tuple[str, Callable[[], Any]]] = [
            ("list its jobs", session.jobs),
            ("signal shell", call.signal),
            ("read both outputs of shell", lambda: anext(call.pieces())),
            ("read both outputs of shell", lambda: anext(call.text())),
            ("read both outputs of shell", lambda: anext(call.output(part="both"))),
        ]
        for what, attempt in attempts:
            with pytest.raises(Incompatible) as raised:
                await attempt()
            assert f"stockade 0.0.9, does not know how to {what}" in str(raised.value)
            assert str(raised.value).endswith(BOTH)
        assert sent == []
        assert [piece async for piece in call.output()] == [b"hello\n"]


async def test_of_an_older_daemon_no_lease_is_asked_and_a_run_does_without(
    address: str, socket: Path, workspace: Path, scratch: Path
) -> None:
    """It would leave the lease out, and open the session for good."""
    leases: list[float] = []

    def features(message: daemon_pb2.GetInfoResponse) -> None:
        older(message)
        message.features.append("workspace-copies")

    asked = {
        "Sessions/Open": changed(sessions_pb2.OpenSessionRequest, lambda request: leases.append(request.lease_s)),
    }
    answers = {"Daemon/GetInfo": changed(daemon_pb2.GetInfoResponse, features)}
    async with another_version(address, socket, asked=asked, answers=answers) as there:
        async with connect(there) as daemon:
            with pytest.raises(Incompatible, match=rf"0\.0\.9, does not know how to end sessions whose.*{BOTH}"):
                await anext(_sessions(daemon, workspace, {"lease_s": 60.0}))
        assert leases == []
        calls = scratch / f"{workspace.name}.jsonl"
        calls.write_text('{"tool": "read", "args": {"path": "a.txt"}}\n')
        arguments = ["run", str(calls), "--profile", "ci", "--workspace", str(workspace)]
        run = await asyncio.create_subprocess_exec(
            sys.executable, "-m", "stockade_client", *arguments, env={**os.environ, "STOCKADE_ADDRESS": there}
        )
        assert await run.wait() == 0
    assert leases == [0.0, 0.0]


async def test_a_lease_is_renewed_by_what_opens_nothing(address: str, socket: Path, workspace: Path) -> None:
    """Where a daemon does not have the session any more, another one in its place would be empty."""
    opened: list[sessions_pb2.OpenSessionRequest] = []
    renewed = asyncio.Event()

    def kept(request: sessions_pb2.OpenSessionRequest) -> None:
        opened.append(sessions_pb2.OpenSessionRequest())
        opened[-1].CopyFrom(request)
        if len(opened) == 3:
            renewed.set()

    asked = {"Sessions/Open": changed(sessions_pb2.OpenSessionRequest, kept)}
    async with (
        another_version(address, socket, asked=asked) as there,
        connect(there) as daemon,
        daemon.session(workspace, "dev", tools=["read"], lease_s=2) as session,
    ):
        await renewed.wait()
        assert (await session.call("read", path="a.txt")).ok
    assert [each.renewal for each in opened] == [False, True, True]
    opened[0].renewal = True
    assert opened[1] == opened[2] == opened[0]


async def test_of_an_older_daemon_that_tells_of_one_claim_that_one_is_shown_and_known_by_its_name(
    address: str, socket: Path, daemon: Daemon, workspace: Path
) -> None:
    answers: dict[str, Change] = {**OLDER, "Approvals/Watch": without(approvals_pb2.Ask, "claims")}
    async with (
        another_version(address, socket, answers=answers) as there,
        connect(there) as old,
        daemon.session(workspace, "dev") as session,
        daemon.approvals(session.session_id) as asks,
        queues.opened(old, session.session_id, name="zoe") as same,
        queues.opened(old, session.session_id, name="ben") as other,
    ):
        assert (await session.call("read", path="a.txt")).ok
        call = await session.start("edit", path="a.txt", old_string="two", new_string="2")
        async with (await anext(asks)).claim("zoe"):
            for queue in (same, other):
                while not queue.waiting or not queue.waiting[0].latest.claims:
                    await queue.change()
            ((claim,),) = {each.waiting[0].latest.claims for each in (same, other)}
            by = daemon.info.caller.name
            assert (claim.claim_id, claim.name, claim.by) == ("", "zoe", by)
            assert same.others_at(same.waiting[0]) == ""
            assert other.others_at(other.waiting[0]) == f"zoe ({by}) looks at it too"
        await call.cancel()


@pytest.mark.parametrize(
    ("field", "wanted"),
    [
        ("tightening", {"tightening": 'approval.reads = "deny"\n'}),
        ("tools", {"tools": ["read"]}),
        ("approval_policy", {"approval_policy": "never"}),
    ],
)
async def test_an_older_daemon_that_would_open_a_wider_session_opens_none(
    address: str, socket: Path, daemon: Daemon, workspace: Path, field: str, wanted: dict[str, Any]
) -> None:
    opened: list[str] = []

    def forget(request: sessions_pb2.OpenSessionRequest) -> None:
        request.ClearField(field)  # type: ignore[arg-type]  # one of the three above
        opened.append(request.session_id)

    asked = {"Sessions/Open": changed(sessions_pb2.OpenSessionRequest, forget)}
    async with another_version(address, socket, asked=asked, answers=OLDER) as there, connect(there) as old:
        with pytest.raises(Incompatible, match=rf"0\.0\.9\) opened the session without its {field}.*{BOTH}"):
            await anext(_sessions(old, workspace, wanted))
    assert (await daemon.get_session(opened[0])).state == "closed"


async def _sessions(daemon: Daemon, workspace: Path, wanted: dict[str, Any]) -> Any:
    async with daemon.session(workspace, "dev", **wanted) as session:
        yield session


async def test_a_newer_daemon_may_say_more_than_a_client_knows(address: str, socket: Path, workspace: Path) -> None:
    """Fields, types of events and codes of errors that there were not, and a part of a result of another kind."""
    more = b"\xc2\x3e\x05hello"  # field 1000, which nobody has

    def result(data: bytes) -> bytes:
        call = calls_pb2.Call.FromString(data)
        if call.HasField("result"):
            call.result.content.add()  # of a kind that this client sees nothing of
            if not call.result.ok:
                call.result.error.code, call.result.error.domain = "MIND_UNREADABLE", "telepathy"
        return call.SerializeToString() + more

    def event(message: events_pb2.Event) -> None:
        if message.type == "tool/call":
            message.type, message.version = "mind/read", 9

    answers = {
        **NEWER,
        "Calls/Start": result,
        "Calls/Wait": result,
        "Sessions/Open": lambda data: data + more,
        "Events/Read": changed(events_pb2.Event, event),
    }
    async with (
        another_version(address, socket, answers=answers) as there,
        connect(there) as daemon,
        daemon.session(workspace, "dev") as session,
    ):
        assert daemon.info.version == "7.0"
        read = await session.call("read", path="a.txt")
        assert read.content[-1] == wire.UNKNOWN_CONTENT
        failed = await session.call("read", path="none.txt")
        assert failed.error is not None
        assert (failed.error.code, failed.error.domain) == ("MIND_UNREADABLE", "telepathy")
        events = [each async for each in session.events()]
    assert ("mind/read", 9) in {(each.type, each.version) for each in events}


async def test_a_state_that_only_a_newer_daemon_has_is_waited_on(address: str, socket: Path, workspace: Path) -> None:
    seen: list[int] = []

    def strange(call: calls_pb2.Call) -> None:
        if call.state != calls_pb2.CALL_STATE_SETTLED:
            call.state = 17  # type: ignore[assignment]
            seen.append(call.state)

    def listed(response: calls_pb2.ListCallsResponse) -> None:
        for each in response.calls:
            each.state = 17  # type: ignore[assignment]

    answers = {
        **NEWER,
        "Calls/Start": changed(calls_pb2.Call, strange),
        "Calls/Wait": changed(calls_pb2.Call, strange),
        "Calls/List": changed(calls_pb2.ListCallsResponse, listed),
    }
    async with (
        another_version(address, socket, answers=answers) as there,
        connect(there) as daemon,
        daemon.session(workspace, "dev") as session,
    ):
        call = await session.start("shell", command="echo begun; while :; do :; done")
        async with call.output() as output:
            await anext(output)
        assert [each.state for each in await daemon.calls(session.session_id)] == ["state 17"]
        await call.cancel()
        result = await call.result()
    assert seen
    assert result.error is not None
    assert result.error.code == "ABORTED"


async def test_a_daemon_of_another_protocol_is_refused_with_both_versions(address: str, socket: Path) -> None:
    def another(message: daemon_pb2.GetInfoResponse) -> None:
        message.version, message.protocol = "9.0", "stockade.v2"

    answers = {"Daemon/GetInfo": changed(daemon_pb2.GetInfoResponse, another)}
    async with another_version(address, socket, answers=answers) as there:
        with pytest.raises(Incompatible, match=rf"stockade 9\.0\) speaks stockade\.v2 and this client .*{BOTH}"):
            await anext(_connected(there))


async def test_a_server_that_does_not_know_the_protocol_at_all_is_refused(address: str, socket: Path) -> None:
    async with another_version(address, socket, lacks=frozenset({"Daemon"})) as there:
        with pytest.raises(Incompatible, match=rf"does not know how to introduce itself.*{BOTH}"):
            await anext(_connected(there))


async def test_what_listens_and_is_no_daemon_is_told_from_nobody(socket: Path) -> None:
    taken: list[asyncio.StreamWriter] = []

    async def hang_up(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        taken.append(writer)
        writer.close()

    async with await asyncio.start_unix_server(hang_up, str(socket)):
        with pytest.raises(NoDaemon, match="something listens at"):
            await anext(_connected(f"unix:{socket}"))
        await asyncio.gather(*(each.wait_closed() for each in taken), return_exceptions=True)


async def test_a_socket_that_nobody_serves_any_more_is_nobody(socket: Path) -> None:
    with sockets.socket(sockets.AF_UNIX) as stale:
        stale.bind(str(socket))
    with pytest.raises(NoDaemon, match="nothing answers at"):
        await anext(_connected(f"unix:{socket}"))


async def _connected(address: str) -> Any:
    async with connect(address) as daemon:
        yield daemon
