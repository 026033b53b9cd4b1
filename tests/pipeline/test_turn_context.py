"""What stages have to tell the agent comes after all results of a turn, also of one that was stopped."""

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import aclosing
from pathlib import Path

import pytest_asyncio

from stockade_daemon.app import services_of
from stockade_daemon.ledger.ledger import Ledger
from stockade_daemon.pipeline.engine import Engine
from stockade_daemon.pipeline.rules import Rules
from stockade_daemon.pipeline.sessions import Opening, Sessions
from stockade_daemon.policy.decisions import Accept, PostDecision
from stockade_daemon.policy.subjects import Finished
from stockade_daemon.policy.waterfall import Next
from stockade_daemon.profiles import read as profiles
from stockade_daemon.sandbox.pool import Pool

READ = json.dumps({"path": "a.txt"}).encode()


async def tells(finished: Finished, following: Next[PostDecision]) -> PostDecision:
    await following()
    return Accept(context=(f"about {finished.judged.call.call_id}",))


@pytest_asyncio.fixture
async def both(tmp_path: Path) -> AsyncIterator[tuple[Engine, Ledger]]:
    """An engine with a post-execute listener that tells something of each call, and session s."""
    state, workspace = tmp_path / "state", tmp_path / "workspace"
    for place in (state, state / "outputs", workspace):
        place.mkdir(mode=0o700)
    (workspace / "a.txt").write_text("one\n")
    rules = Rules(private=True, workspaces=(), profile_directories=(profiles.shipped(),), own=(state,))
    async with Ledger.open(str(state / "ledger")) as ledger, Pool.start(state) as pool:
        sessions = Sessions(ledger, pool, rules)
        services = services_of(ledger, pool, state / "outputs")
        services.post_execute.add(tells)
        async with Engine.start(services, sessions, [], grace_s=0) as engine:
            await sessions.open(Opening("s", str(workspace), "dev", None, "ask"))
            yield engine, ledger
        sessions.close()


async def story(ledger: Ledger) -> list[str]:
    events = await ledger.read("s")
    return [f"{each.type} {each.call_id}" for each in events if each.type in ("tool/result", "context/message")]


async def test_context_comes_after_all_results_in_the_order_of_the_calls(both: tuple[Engine, Ledger]) -> None:
    engine, ledger = both
    turn = await engine.begin_turn(
        "s", "t", [("a", "read", READ), ("b", "shell", b'{"command": "true"}'), ("c", "read", READ)]
    )
    await turn.over.wait()
    await ledger.append("s", "policy/guards")  # durable behind all that was noted
    assert await story(ledger) == [
        *(f"tool/result {call}" for call in "abc"),
        *(f"context/message {call}" for call in "abc"),
    ]


async def test_context_of_a_stopped_turn_comes_after_the_results_of_what_never_began(
    both: tuple[Engine, Ledger],
) -> None:
    engine, ledger = both
    sleeping = b'{"command": "sleep 600"}'
    turn = await engine.begin_turn("s", "t", [("a", "read", READ), ("b", "shell", sleeping), ("c", "read", READ)])
    async with asyncio.timeout(60), aclosing(ledger.follow("s")) as events:
        async for event in events:
            if (event.type, event.call_id) == ("call/dispatched", "b"):
                break
    await engine.cancel_turn("s", "t")
    assert turn.over.is_set()
    await ledger.append("s", "policy/guards")
    # What never began met no stage that could tell something of it.
    assert await story(ledger) == [
        *(f"tool/result {call}" for call in "abc"),
        *(f"context/message {call}" for call in "ab"),
    ]


async def test_context_of_a_call_alone_follows_its_result(both: tuple[Engine, Ledger]) -> None:
    engine, ledger = both
    await engine.begin("s", "a", "read", READ)
    await engine.wait("s", "a", 60)
    await ledger.append("s", "policy/guards")
    assert await story(ledger) == ["tool/result a", "context/message a"]
