"""What stages have to tell the agent comes after all results of a turn, also of one that was stopped."""

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import aclosing
from pathlib import Path

import pytest_asyncio

from stockade_daemon.policy.decisions import Accept, PostDecision
from stockade_daemon.policy.subjects import Finished
from stockade_daemon.policy.waterfall import Next
from tests.pipeline.engines import Tried, an_engine

READ = json.dumps({"path": "a.txt"}).encode()
TYPES = ("tool/result", "context/message")


async def tells(finished: Finished, following: Next[PostDecision]) -> PostDecision:
    await following()
    return Accept(context=(f"about {finished.judged.call.call_id}",))


@pytest_asyncio.fixture
async def tried(tmp_path: Path) -> AsyncIterator[Tried]:
    """A post-execute listener tells something of each call."""
    async with an_engine(tmp_path, lambda services: services.post_execute.add(tells)) as tried:
        yield tried


async def test_context_comes_after_all_results_in_the_order_of_the_calls(tried: Tried) -> None:
    calls = [("a", "read", READ), ("b", "shell", b'{"command": "true"}'), ("c", "read", READ)]
    turn = await tried.engine.begin_turn("s", "t", calls)
    await turn.over.wait()
    assert await tried.story(*TYPES) == [
        *(f"tool/result {call}" for call in "abc"),
        *(f"context/message {call}" for call in "abc"),
    ]


async def test_context_of_a_stopped_turn_comes_after_the_results_of_what_never_began(tried: Tried) -> None:
    sleeping = b'{"command": "sleep 600"}'
    calls = [("a", "read", READ), ("b", "shell", sleeping), ("c", "read", READ)]
    turn = await tried.engine.begin_turn("s", "t", calls)
    async with asyncio.timeout(60), aclosing(tried.ledger.follow("s")) as events:
        async for event in events:
            if (event.type, event.call_id) == ("call/dispatched", "b"):
                break
    await tried.engine.cancel_turn("s", "t")
    assert turn.over.is_set()
    # What never began met no stage that could tell something of it.
    assert await tried.story(*TYPES) == [
        *(f"tool/result {call}" for call in "abc"),
        *(f"context/message {call}" for call in "ab"),
    ]


async def test_context_of_a_call_alone_follows_its_result(tried: Tried) -> None:
    await tried.engine.begin("s", "a", "read", READ)
    assert await tried.code("a") == "ok"
    assert await tried.story(*TYPES) == ["tool/result a", "context/message a"]
