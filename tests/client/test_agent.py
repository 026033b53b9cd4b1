"""The model loop and the recorded conversation, played for real."""

import asyncio
import json
import subprocess
from collections.abc import Callable, Sequence
from pathlib import Path

from stockade_client import Daemon, ScriptedModel, Tool, ToolCall, Turn, run_agent
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
