"""The SDK against a real daemon."""

import asyncio
import json
from pathlib import Path

import pytest

from stockade_client import (
    AlreadyExists,
    CallResult,
    Daemon,
    InvalidRequest,
    NoDaemon,
    NotFound,
    NotPossible,
    connect,
)
from stockade_client.connection import Daemon as Connected


async def test_a_call_returns_its_value_content_layers_and_usage(daemon: Daemon, workspace: Path) -> None:
    async with daemon.session(workspace, "dev") as session:
        result = await session.call("shell", command="printf out; printf err >&2; exit 3")
    assert result.ok
    assert result.error is None
    assert result.field("stdout") == "out"
    assert result.field("stderr") == "err"
    assert result.field("exit_code") == 3
    assert any(layer.held for layer in result.layers)
    assert result.usage.wall_s > 0
    assert len(result.profile_digest) == 64


async def test_a_refused_call_is_a_result_with_a_code(daemon: Daemon, workspace: Path) -> None:
    async with daemon.session(workspace, "dev") as session:
        results = [
            await session.call("no_such_tool"),
            await session.call("read", path=7),
            await session.call("read", path="a.txt", pth="b.txt"),
            await session.call_json("read", b'{"path": '),
            await session.call("read", path="a\ud800"),
        ]
    assert [result.error.code for result in results if result.error] == ["UNKNOWN_TOOL"] + ["INVALID_ARGS"] * 4


async def test_arguments_that_no_request_can_carry_have_a_recorded_refusal(daemon: Daemon, workspace: Path) -> None:
    long = json.dumps({"path": "x" * (5 << 20)}).encode()
    # Below what a message holds, and above what arguments may have.
    beyond = json.dumps({"path": "x" * (4128768)}).encode()
    async with daemon.session(workspace, "dev") as session:
        alone = await session.call_json("read", long, call_id="alone")
        turn = await session.call_many([("read", {"path": "a.txt"}), ("read", long), ("read", beyond)])
        for result, size in ((alone, len(long)), (turn[1], len(long)), (turn[2], len(beyond))):
            assert result.error is not None
            assert result.error.code == "INVALID_ARGS"
            assert f"{size} bytes" in result.error.message
        assert turn[0].ok
        assert (await session.call_json("read", long, call_id="alone")) == alone
        with pytest.raises(AlreadyExists):
            await session.call_json("read", b'{"path": "a.txt"}', call_id="alone")
        async with session.events(call_id="alone") as events:
            taken = await anext(events)
    assert (taken.type, taken.body["arguments"], taken.body["arguments_size"]) == ("tool/call", "", len(long))


async def test_the_calls_of_a_turn_have_their_results_in_order(daemon: Daemon, workspace: Path) -> None:
    async with daemon.session(workspace, "dev") as session:
        first, second = await session.call_many([("read", {"path": "a.txt"}), ("read", b'{"path": "b.txt"}')])
    assert "one" in first.text
    assert "bee" in second.text


async def test_the_same_id_is_the_same_call(daemon: Daemon, workspace: Path) -> None:
    async with daemon.session(workspace, "dev") as session:
        first = await session.call_json("shell", b'{"command": "date +%N"}', call_id="once")
        again = await session.call_json("shell", b'{"command": "date +%N"}', call_id="once")
        assert again.value == first.value
        with pytest.raises(AlreadyExists):
            await session.call_json("shell", b'{"command": "true"}', call_id="once")


async def test_output_is_read_while_a_command_runs(daemon: Daemon, workspace: Path) -> None:
    async with daemon.session(workspace, "dev") as session:
        call = await session.start("shell", command="echo begun; while :; do :; done")
        async with call.output() as output:
            assert await anext(output) == b"begun\n"
        await call.cancel()
        result = await call.result()
    assert result.error is not None
    assert result.error.code == "ABORTED"


async def test_output_goes_on_at_an_offset(daemon: Daemon, workspace: Path) -> None:
    async with daemon.session(workspace, "dev") as session:
        call = await session.start("shell", command="printf 0123456789; printf err >&2")
        await call.result()
        assert [data async for data in call.output(offset=7)] == [b"789"]
        assert [data async for data in call.output(part="stderr")] == [b"err"]
        value = b"".join([data async for data in call.output(part="value")])
        assert json.loads(value)["stdout"] == "0123456789"


async def test_an_output_larger_than_a_message_arrives_whole(daemon: Daemon, workspace: Path) -> None:
    size = 6_000_000
    async with daemon.session(workspace, "dev") as session:
        call = await session.start("shell", command=f"head -c {size} /dev/zero")
        async with call.output() as output:
            data = b"".join([piece async for piece in output])
        result = await call.result()
    assert data == bytes(size)
    assert result.field("truncated") is True


async def test_a_value_too_large_for_a_result_arrives_whole(daemon: Daemon, workspace: Path) -> None:
    # Names of 240 characters, each listed among the effects: more than the mebibyte that a result carries itself.
    program = "for number in range(6000): open(f'{number:0240}', 'w').close()"
    async with daemon.session(workspace, "dev") as session:
        result = await session.call("shell", argv=["python3", "-c", program])
    effects = result.field("effects")
    assert isinstance(effects, list)
    assert len(effects) == 6000


async def test_cancelling_the_wait_for_a_call_settles_the_call(daemon: Daemon, workspace: Path) -> None:
    async with daemon.session(workspace, "dev") as session:
        waiting = asyncio.create_task(session.call("shell", command="while :; do :; done"))
        async with session.events(follow=True) as events:
            async for event in events:
                if event.type == "call/dispatched":
                    break
        waiting.cancel()
        with pytest.raises(asyncio.CancelledError):
            await waiting
        recorded = [event async for event in session.events(call_id=event.call_id)]
    assert recorded[-1].type == "tool/result"
    assert recorded[-1].body["ok"] is False


async def test_a_call_cancelled_at_any_moment_is_settled_or_was_never_there(daemon: Daemon, workspace: Path) -> None:
    async with daemon.session(workspace, "dev") as session:
        for turns in range(12):
            waiting = asyncio.create_task(session.call("shell", command="while :; do :; done"))
            for _ in range(turns):
                # One turn of the event loop each: the cancellation finds the request at another place every time.
                await asyncio.to_thread(bool)
            waiting.cancel()
            with pytest.raises(asyncio.CancelledError):
                await waiting
        events = [event async for event in session.events()]
    begun = [event.call_id for event in events if event.type == "tool/call"]
    settled = [event.call_id for event in events if event.type == "tool/result"]
    assert sorted(begun) == sorted(settled)


async def test_events_are_numbered_and_resume_after_a_number(daemon: Daemon, workspace: Path) -> None:
    async with daemon.session(workspace, "dev") as session:
        await session.call("read", path="a.txt")
        events = [event async for event in session.events()]
        assert [event.seq for event in events] == list(range(1, len(events) + 1))
        rest = [event async for event in session.events(after=events[1].seq)]
        assert rest == events[2:]
        (call_id,) = {event.call_id for event in events if event.call_id}
        assert next(event.type for event in events if event.call_id) == "tool/call"
        assert [event async for event in session.events(call_id=call_id)] == [e for e in events if e.call_id]


async def test_followed_events_end_with_the_session(daemon: Daemon, workspace: Path) -> None:
    async with daemon.session(workspace, "dev") as session, session.events(follow=True) as events:
        assert (await anext(events)).type == "session/opened"
        await session.close()
        types = [event.type async for event in events]
    assert types == ["session/closed"]


async def test_a_session_with_an_id_stays_open_and_is_resumed(daemon: Daemon, address: str, workspace: Path) -> None:
    async with daemon.session(workspace, "dev", id="resumed") as session:
        await session.call("read", path="a.txt")
    async with connect(address) as later, later.session(id="resumed") as session:
        assert session.info.workspace == str(workspace)
        assert session.info.profile == "dev"
        assert session.info.last_seq > 1
        await session.close()
    with pytest.raises(NotPossible):
        async with daemon.session(workspace, "dev", id="resumed"):
            pass


async def test_a_session_without_an_id_is_closed_at_the_end(daemon: Daemon, workspace: Path) -> None:
    async with daemon.session(workspace, "dev") as session:
        pass
    assert (await daemon.get_session(session.session_id)).state == "closed"


async def test_a_session_that_cannot_be_opened_says_why(daemon: Daemon, workspace: Path) -> None:
    async def opening(place: str, profile: str) -> None:
        async with daemon.session(place, profile):
            pass

    with pytest.raises(NotFound, match="absent"):
        await opening(str(workspace / "absent"), "dev")
    with pytest.raises(NotFound, match="dve"):
        await opening(str(workspace), "dve")
    with pytest.raises(InvalidRequest, match="cannot read the profile file"):
        await opening(str(workspace), "./absent.toml")
    faulty = workspace / "faulty.toml"
    faulty.write_text('[aproval]\nreads = "allow"\n')
    with pytest.raises(InvalidRequest, match=r"faulty\.toml:1:\d+: .*approval"):
        await opening(str(workspace), str(faulty))
    with pytest.raises(InvalidRequest, match="workspace and a profile"):
        async with daemon.session(workspace):
            pass
    with pytest.raises(NotFound):
        async with daemon.session(id="never-opened"):
            pass


async def test_a_profile_file_is_taken_by_a_private_daemon(daemon: Daemon, workspace: Path) -> None:
    profile = workspace / "mine.toml"
    profile.write_text('[approval]\ncommands = "deny"\n')
    async with daemon.session(workspace, profile) as session:
        result: CallResult = await session.call("shell", command="true")
    assert result.error is not None
    assert result.error.code == "DENIED"


async def test_connecting_where_nobody_answers_says_what_to_do(scratch: Path) -> None:
    with pytest.raises(NoDaemon, match="serve --socket /"):
        async with connect(f"unix:{scratch}/nobody.sock"):
            pass


async def test_the_daemon_tells_what_it_is_and_what_it_has(daemon: Connected) -> None:
    assert daemon.info.private
    assert {"dev", "strict"} <= set(daemon.info.profiles)
    assert {"read", "edit", "shell"} <= {tool.name for tool in await daemon.tools()}


async def test_a_turn_of_too_many_calls_is_refused_with_the_limit_before_anything_runs(
    daemon: Daemon, workspace: Path
) -> None:
    async with daemon.session(workspace, "ci") as session:
        with pytest.raises(InvalidRequest, match="at most 128 calls, and this one 129: make several turns"):
            await session.call_many([("read", {"path": "a.txt"})] * 129)
        async with session.events() as events:
            assert "tool/call" not in [event.type async for event in events]
