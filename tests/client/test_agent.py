"""The model loop and the recorded conversation, played for real."""

import asyncio
import json
import subprocess
from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path

from stockade_client import (
    Daemon,
    ScriptedModel,
    Session,
    Tool,
    ToolCall,
    Turn,
    run_agent,
)
from stockade_client.model import Message, Results, Task
from stockade_client.recording import parse
from stockade_client.results import Json

Stockade = Callable[..., "subprocess.CompletedProcess[bytes]"]


def talk(*calls: dict[str, Json]) -> bytes:
    turns: list[Json] = [{"text": "I work.", "calls": list(calls)}, {"text": "Done."}]
    return json.dumps({"task": "Do it.", "profile": "dev", "turns": turns}).encode()


READ: dict[str, Json] = {"tool": "read", "arguments": {"path": "a.txt"}, "expect": {"ok": True}}
EDIT: dict[str, Json] = {
    "tool": "edit",
    "arguments": {"path": "a.txt", "old_string": "two", "new_string": "2"},
    "answer": {"allow": True, "says": "please"},
    "expect": {"ok": True},
}


async def test_results_go_back_to_the_model_in_the_order_of_its_calls(daemon: Daemon, workspace: Path) -> None:
    class Curious:
        """Asks for two files, then for what it was told."""

        async def reply(self, conversation: Sequence[Message], tools: Sequence[Tool]) -> Turn:
            last = conversation[-1]
            if isinstance(last, Task):
                assert {tool.name for tool in tools} >= {"read"}
                names = ("b.txt", "a.txt")
                return Turn("", tuple(ToolCall("read", json.dumps({"path": n}).encode(), f"of-{n}") for n in names))
            assert isinstance(last, Results)
            return Turn(" then ".join(result.call_id for result in last.results))

    async with daemon.session(workspace, "dev") as session:
        conversation = await run_agent(session, Curious(), "look", tools=await daemon.tools())
    assert conversation[-1] == Turn("of-b.txt then of-a.txt")


async def test_a_conversation_played_again_in_its_session_gets_the_recorded_results(
    daemon: Daemon, workspace: Path
) -> None:
    model = ScriptedModel(parse(talk(READ), source="talk"))
    async with daemon.session(workspace, "dev") as session:
        first = await run_agent(session, model, "t")
        (workspace / "a.txt").write_text("changed\n")
        assert await run_agent(session, model, "t") == first


async def test_the_calls_of_one_message_are_one_turn(daemon: Daemon, workspace: Path) -> None:
    model = ScriptedModel(parse(talk(READ, {**READ, "arguments": {"path": "b.txt"}}), source="talk"))
    async with daemon.session(workspace, "dev") as session:
        await run_agent(session, model, "t")
        async with session.events() as events:
            turns = [event.body.get("turn") async for event in events if event.type == "tool/call"]
    assert len(turns) == 2
    assert turns[0] == turns[1] is not None


async def test_a_conversation_stopped_in_a_turn_leaves_no_call_without_a_result(
    daemon: Daemon, workspace: Path
) -> None:
    sleeping: dict[str, Json] = {"tool": "shell", "arguments": {"command": "sleep 600"}}
    model = ScriptedModel(parse(talk(READ, sleeping, READ), source="talk"))
    async with daemon.session(workspace, "dev") as session:
        playing = asyncio.create_task(run_agent(session, model, "t"))
        async with session.events(follow=True) as events:
            async for event in events:
                if (event.type, event.call_id) == ("call/dispatched", "turn-1.call-2"):
                    break
        playing.cancel()
        await asyncio.wait([playing])
        assert playing.cancelled()
        async with session.events() as events:
            seen = [(event.type, event.call_id) async for event in events]
    ids = [f"turn-1.call-{number}" for number in (1, 2, 3)]
    assert [call for type, call in seen if type == "tool/call"] == ids
    assert [call for type, call in seen if type == "tool/result"] == ids


class Says:
    """A model that asks for these calls, one message after the other, and then for no more."""

    def __init__(self, *messages: Sequence[ToolCall]) -> None:
        self._messages = messages

    async def reply(self, conversation: Sequence[Message], tools: Sequence[Tool]) -> Turn:
        said = sum(isinstance(each, Turn) for each in conversation)
        return Turn("", tuple(self._messages[said])) if said < len(self._messages) else Turn("done")


async def results_of(session: Session, *messages: Sequence[ToolCall]) -> list[Results]:
    return [each for each in await run_agent(session, Says(*messages), "t") if isinstance(each, Results)]


async def test_a_message_of_more_calls_than_a_turn_may_have_has_all_their_results(
    daemon: Daemon, workspace: Path
) -> None:
    calls = [ToolCall("no_such_tool", b"{}", f"c{number}") for number in range(300)]
    async with daemon.session(workspace, "dev") as session:
        (told,) = await results_of(session, calls)
        async with session.events() as events:
            turns = [event.body.get("turn") async for event in events if event.type == "tool/call"]
    assert [result.call_id for result in told.results] == [call.id for call in calls]
    assert sorted(Counter(turns).values()) == [44, 128, 128]


async def test_a_message_of_more_bytes_than_a_request_may_have_has_all_its_results(
    daemon: Daemon, workspace: Path
) -> None:
    long = json.dumps({"path": "x" * (2 << 20)}).encode()
    beyond = json.dumps({"path": "x" * (5 << 20)}).encode()
    texts = [long, b'{"path": "a.txt"}', long, long, beyond, b'{"path": "b.txt"}']
    async with daemon.session(workspace, "dev") as session:
        (told,) = await results_of(session, [ToolCall("read", text, f"c{n}") for n, text in enumerate(texts)])
    assert [result.ok for result in told.results] == [False, True, False, False, False, True]
    assert told.results[4].error is not None
    assert f"{len(beyond)} bytes" in told.results[4].error.message


async def test_ids_that_a_model_uses_again_or_that_cannot_be_stand_for_calls_of_their_own(
    daemon: Daemon, workspace: Path
) -> None:
    date = b'{"command": "date +%N"}'
    odd = ("call_0", "call_0", "", "fc|1 2", "x" * 200, "call_0:2")
    messages = [[ToolCall("shell", date, id) for id in odd], [ToolCall("shell", date, "call_0")]]
    async with daemon.session(workspace, "dev") as session:
        told = await results_of(session, *messages)
        values = [result.value for each in told for result in each.results]
        assert await results_of(session, *messages) == told
    assert len({json.dumps(value) for value in values}) == len(values) == 7
    ids = [result.call_id for each in told for result in each.results]
    assert len(set(ids)) == 7
    assert ids[0] == "call_0"


async def test_a_tool_that_a_model_did_not_name_is_told_to_the_model(daemon: Daemon, workspace: Path) -> None:
    async with daemon.session(workspace, "dev") as session:
        (told,) = await results_of(session, [ToolCall(name, b"{}", name) for name in ("", "a\ud800")])
    assert [result.error and result.error.code for result in told.results] == ["UNKNOWN_TOOL"] * 2


def test_agent_plays_a_script_with_its_answers(stockade: Stockade, workspace: Path) -> None:
    (workspace / "talk.json").write_bytes(talk(READ, EDIT))
    done = stockade("agent", "--script", "talk.json")
    assert done.returncode == 0, done.stdout + done.stderr
    text = done.stdout.decode()
    for part in ("person: Do it.", "model: I work.", "→ edit a.txt", "-two", "+2", "you (recorded): yes, please"):
        assert part in text
    assert (workspace / "a.txt").read_text() == "one\n2\nthree\n"


def test_agent_stops_where_it_goes_otherwise(stockade: Stockade, workspace: Path) -> None:
    (workspace / "talk.json").write_bytes(talk(EDIT, READ))
    done = stockade("agent", "--script", "talk.json")
    assert done.returncode == 1
    assert b"turn-1.call-1 (edit) did not go as recorded" in done.stderr
    assert b"FS_NOT_OBSERVED" in done.stdout


def test_an_ask_without_a_recorded_answer_is_refused_where_nobody_is(stockade: Stockade, workspace: Path) -> None:
    unanswered: dict[str, Json] = {
        **EDIT,
        "expect": {"ok": False, "code": "APPROVAL_REJECTED", "contains": ["nobody to ask"]},
    }
    del unanswered["answer"]
    (workspace / "talk.json").write_bytes(talk(READ, unanswered))
    done = stockade("agent", "--script", "talk.json")
    assert done.returncode == 0, done.stdout + done.stderr


def test_a_faulty_script_is_a_usage_error(stockade: Stockade, workspace: Path) -> None:
    (workspace / "talk.json").write_text('{"task": "t", "turn": []}')
    done = stockade("agent", "--script", "talk.json")
    assert done.returncode == 2
    assert b"unknown key 'turn'" in done.stderr
