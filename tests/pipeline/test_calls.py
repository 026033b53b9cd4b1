"""One call, one result: repeating, cancelling, timing out, large outputs."""

import asyncio
import json
from typing import Any

import pytest

from stockade.v1 import calls_pb2
from stockade_client import Daemon
from stockade_client.errors import AlreadyExists, NotFound, NotPossible
from stockade_client.results import CallResult
from stockade_client.session import Session


def value(result: CallResult) -> dict[str, Any]:
    assert isinstance(result.value, dict), result
    return dict(result.value)


def code(result: CallResult) -> str:
    return result.error.code if result.error else "ok"


async def types(session: Session, call_id: str = "") -> list[str]:
    async with session.events(call_id=call_id) as events:
        return [event.type async for event in events]


async def test_the_stages_are_recorded_in_order(session: Session) -> None:
    call = await session.start("shell", command="echo hi")
    await call.result()
    assert await types(session, call.call_id) == [
        "tool/call",
        "policy/pre-execute",
        "policy/guards",
        "call/dispatched",
        "policy/post-execute",
        "tool/result",
    ]


async def test_events_are_numbered_without_gaps_and_readable_from_a_number(session: Session) -> None:
    await session.call("read", path="a.txt")
    async with session.events() as events:
        numbers = [event.seq async for event in events]
    assert numbers == list(range(1, len(numbers) + 1))
    async with session.events(after=3) as events:
        assert [event.seq async for event in events] == numbers[3:]


async def test_the_same_call_again_is_the_same_call(session: Session) -> None:
    first = await session.start("shell", call_id="c1", command="echo $RANDOM$RANDOM$RANDOM")
    again = await session.start("shell", call_id="c1", command="echo $RANDOM$RANDOM$RANDOM")
    results = await asyncio.gather(first.result(), again.result())
    assert value(results[0]) == value(results[1])
    later = await session.start("shell", call_id="c1", command="echo $RANDOM$RANDOM$RANDOM")
    assert value(await later.result()) == value(results[0])
    assert (await types(session, "c1")).count("tool/result") == 1


async def test_the_same_id_with_other_arguments_is_refused(session: Session) -> None:
    await (await session.start("shell", call_id="c1", command="true")).result()
    with pytest.raises(AlreadyExists):
        await session.start("shell", call_id="c1", command="false")
    with pytest.raises(AlreadyExists):
        await session.start("read", call_id="c1", path="a.txt")


async def test_fifty_racing_starts_of_one_call_run_it_once(session: Session) -> None:
    starts = [session.start("shell", call_id="race", command="echo $RANDOM$RANDOM$RANDOM") for _ in range(50)]
    calls = await asyncio.gather(*starts)
    outputs = {value(result)["stdout"] for result in await asyncio.gather(*(call.result() for call in calls))}
    assert len(outputs) == 1
    assert (await types(session, "race")).count("call/dispatched") == 1


async def test_a_failing_command_is_a_result_and_no_failure(session: Session) -> None:
    result = await session.call("shell", command="echo out; echo err >&2; exit 7")
    assert result.ok
    found = value(result)
    assert (found["stdout"], found["stderr"], found["exit_code"], found["signal"]) == ("out\n", "err\n", 7, None)
    assert "[exit status 7]" in "\n".join(result.content)


async def test_a_timeout_carries_the_partial_value(session: Session) -> None:
    result = await session.call("shell", command="echo partial; echo x > new; sleep 60", timeout_s=0.5)
    assert code(result) == "TOOL_TIMEOUT"
    assert value(result)["stdout"] == "partial\n"
    assert [each["path"] for each in value(result)["effects"]] == ["new"]


async def test_a_timeout_too_large_for_a_float_is_only_long(session: Session) -> None:
    result = await session.call_json("shell", b'{"command": "true", "timeout_s": 1' + b"0" * 400 + b"}")
    assert result.ok, result


async def test_cancelling_a_running_command_ends_it_with_its_output_so_far(session: Session) -> None:
    call = await session.start("shell", command="echo partial; sleep 60")
    async with call.output() as chunks:
        async for _ in chunks:
            break
    await call.cancel()
    result = await call.result()
    assert code(result) == "ABORTED"
    assert value(result)["stdout"] == "partial\n"


async def test_cancelling_while_somebody_is_asked_is_before_dispatch(asking: Session) -> None:
    call = await asking.start("shell", command="echo never")
    async with asking.events(follow=True) as events:
        async for event in events:
            if event.type == "approval/asked":
                break
    await call.cancel()
    assert code(await call.result()) == "ABORTED_BEFORE_DISPATCH"
    recorded = await types(asking, call.call_id)
    assert "call/dispatched" not in recorded
    assert recorded.count("approval/decided") == 1


async def test_cancelling_a_settled_call_changes_nothing(session: Session) -> None:
    call = await session.start("shell", command="echo done")
    before = await call.result()
    await call.cancel()
    again = await session.start("shell", call_id=call.call_id, command="echo done")
    assert value(await again.result()) == value(before)


async def test_closing_a_session_stops_its_calls(daemon: Daemon, workspace: str) -> None:
    async with daemon.session(workspace=workspace, profile="dev", id="closing") as session:
        call = await session.start("shell", command="echo begun; sleep 60")
        async with call.output() as chunks:
            async for _ in chunks:
                break
        await session.close()
        assert code(await call.result()) == "ABORTED"
        with pytest.raises(NotPossible):
            await session.call("shell", command="true")
    with pytest.raises(NotPossible):
        async with daemon.session(workspace=workspace, profile="dev", id="closing"):
            pass


async def test_a_long_output_is_kept_whole_and_shown_with_head_and_tail(session: Session) -> None:
    call = await session.start("shell", command="seq 300000; echo end >&2")
    result = await call.result()
    expected = "".join(f"{number}\n" for number in range(1, 300_001)).encode()
    found = value(result)
    assert found["truncated"]
    assert found["stdout_bytes"] == len(expected)
    assert found["stdout"].startswith("1\n2\n")
    assert found["stdout"].endswith("300000\n")
    async with call.output() as chunks:
        assert b"".join([chunk async for chunk in chunks]) == expected
    async with call.output(offset=len(expected) - 7) as chunks:
        assert b"".join([chunk async for chunk in chunks]) == b"300000\n"
    assert len("\n".join(result.content).encode()) <= 65536


async def test_output_past_the_cap_is_drained_and_counted(daemon: Daemon, workspace: Any) -> None:
    profile = workspace.parent / f"{workspace.name}-small.toml"
    profile.write_text("[limits]\noutput_mb = 1\n")
    async with daemon.session(workspace=workspace, profile=profile) as session:
        call = await session.start("shell", command="head -c 3000000 /dev/zero; echo end >&2")
        found = value(await call.result())
        assert (found["stdout_bytes"], found["stderr"], found["truncated"]) == (3_000_000, "end\n", True)
        async with call.output() as chunks:
            assert sum([len(chunk) async for chunk in chunks]) == 1024 * 1024


async def test_bytes_that_are_no_text_are_shown_as_such_and_readable_raw(session: Session) -> None:
    call = await session.start("shell", command=r"printf 'a\xff\xfeb\0c'")
    assert value(await call.result())["stdout"] == "a\ufffd\ufffdb\0c"
    async with call.output() as chunks:
        assert b"".join([chunk async for chunk in chunks]) == b"a\xff\xfeb\0c"


async def test_a_value_too_large_for_its_event_arrives_whole(session: Session, workspace: Any) -> None:
    for name in range(1000):
        (workspace / f"{name:0>120}").touch()
    result = await session.call(
        "shell", command="for f in 0*; do echo x > $f; done; mkdir n; cd n; seq 4000 | xargs touch"
    )
    found = value(result)
    assert found["effects_total"] == 5001
    assert len(found["effects"]) == 5001
    assert len(json.dumps(found)) > 256 * 1024


async def test_a_directory_to_start_in_may_be_named_and_has_to_be_there(session: Session, workspace: Any) -> None:
    (workspace / "d").mkdir()
    assert value(await session.call("shell", command="pwd", cwd="d"))["stdout"] == f"{workspace}/d\n"
    assert code(await session.call("shell", command="pwd", cwd="no")) == "FS_NOT_FOUND"
    for outside in ("..", "/", "/proc/self/fd/3/..", "d/../..", "/tmp"):
        assert code(await session.call("shell", command="pwd", cwd=outside)) in ("FS_OUTSIDE_WORKSPACE", "FS_NOT_FOUND")
    for home in ("~", "~/d"):
        assert code(await session.call("shell", command="pwd", cwd=home)) == "FS_OUTSIDE_WORKSPACE"
    (workspace / "~").mkdir()
    assert code(await session.call("shell", command="pwd", cwd="~")) == "FS_OUTSIDE_WORKSPACE"
    assert code(await session.call("shell", command="pwd", cwd="./~")) == "ok"
    assert code(await session.call("shell", command="pwd", cwd="a.txt")) == "FS_NOT_DIRECTORY"


async def test_unknown_ids_are_not_found(session: Session, daemon: Daemon) -> None:
    async with daemon.events("no-such-session") as events:
        with pytest.raises(NotFound):
            await anext(aiter(events))


async def test_results_name_profile_layers_and_usage(session: Session) -> None:
    result = await session.call("shell", command="true")
    assert result.profile_digest == session.info.profile_digest
    assert {layer.name for layer in result.layers if layer.held} >= {
        "user",
        "mount",
        "pid",
        "net",
        "seccomp",
        "overlay",
    }
    assert result.usage.wall_s > 0
    assert result.usage.max_rss_bytes > 0


async def test_a_cancel_at_any_moment_is_never_lost(session: Session) -> None:
    for turns in range(25):
        starting = asyncio.ensure_future(session.start("shell", call_id=f"c{turns}", command="sleep 60"))
        for _ in range(turns):
            await asyncio.sleep(0)
        call = await starting
        await call.cancel()
        assert code(await call.result()) in ("ABORTED", "ABORTED_BEFORE_DISPATCH")


async def test_a_start_whose_request_is_dropped_still_comes_to_a_result(session: Session, daemon: Daemon) -> None:
    link: Any = daemon._link
    for turns in range(25):
        request = calls_pb2.StartCallRequest(
            session_id=session.session_id,
            call_id=f"d{turns}",
            tool="shell",
            arguments=b'{"command": "true"}',
            wait_s=20,
        )
        starting = link.calls.Start(request)
        for _ in range(turns):
            await asyncio.sleep(0)
        starting.cancel()
    await session.call("shell", command="true")
    async with session.events() as events:
        recorded = [(event.type, event.call_id) async for event in events]
    begun = {call for kind, call in recorded if kind == "tool/call"}
    for call in begun:
        if call.startswith("d"):
            handle = await session.start_json("shell", b'{"command": "true"}', call_id=call)
            assert (await handle.result()).ok


async def test_a_call_that_is_refused_at_once_always_shows_its_result(session: Session) -> None:
    """It settles while its start is still being answered, at any moment between two looks."""
    for _ in range(25):
        results = await asyncio.gather(*(session.call("no_such_tool") for _ in range(8)))
        assert {code(result) for result in results} == {"UNKNOWN_TOOL"}
