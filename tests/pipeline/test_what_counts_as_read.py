"""Lines count as read when the agent gets them, and not before: whatever comes between a body and its answer."""

import asyncio

import pytest

from stockade_daemon.policy.decisions import Accept, Block, PostDecision, Replace
from stockade_daemon.policy.subjects import Finished, Judged
from stockade_daemon.policy.waterfall import Next
from stockade_daemon.values import Json, Outcome
from tests.pipeline.conftest import Staged

ANOTHER: dict[str, Json] = {"path": "a.txt", "size": 4, "digest": "0" * 64}


async def overwritten(staged: Staged) -> str:
    """What becomes of a write over a.txt."""
    result = await staged.call("w", "write", path="a.txt", content="lost\n")
    return "ok" if result["ok"] else str(result["error"]["code"])


async def test_a_read_that_is_accepted_counts(staged: Staged) -> None:
    await staged.call("r", "read", path="a.txt")
    assert (await staged.types("r"))[-2:] == ["fs/observed", "tool/result"]
    assert await overwritten(staged) == "ok"


@pytest.mark.parametrize(
    "decision",
    [Block("this file is not for you"), Replace(ANOTHER, ("[hidden]",)), Accept(content=("[hidden]",))],
    ids=["blocked", "another value", "another text"],
)
async def test_a_read_whose_lines_post_execute_withholds_does_not_count(staged: Staged, decision: PostDecision) -> None:
    async def decide(finished: Finished, following: Next[PostDecision]) -> PostDecision:
        return decision if finished.judged.call.tool == "read" else await following()

    staged.services.post_execute.add(decide)
    await staged.call("r", "read", path="a.txt")
    assert "fs/observed" not in await staged.types("r")
    assert await overwritten(staged) == "FS_NOT_OBSERVED"


async def test_a_read_to_whose_text_a_wrapper_gives_another_one_does_not_count(staged: Staged) -> None:
    async def hide(judged: Judged, following: Next[Outcome]) -> Outcome:
        outcome = await following()
        return Outcome(value=outcome.value, content=("[hidden]",)) if judged.call.tool == "read" else outcome

    staged.services.execute.add(hide)
    assert (await staged.call("r", "read", path="a.txt"))["content"] == ["[hidden]"]
    assert await overwritten(staged) == "FS_NOT_OBSERVED"


async def test_a_read_that_is_taken_back_before_its_result_does_not_count(staged: Staged) -> None:
    async with asyncio.TaskGroup() as tasks:

        async def taken_back(finished: Finished, following: Next[PostDecision]) -> PostDecision:
            if finished.judged.call.tool == "read":
                under_way = staged.engine._under_way["s", "r"]
                tasks.create_task(staged.engine.cancel("s", "r"))
                await under_way.stop.requested.wait()
            return await following()

        staged.services.post_execute.add(taken_back)
        result = await staged.call("r", "read", path="a.txt")
    assert result["error"]["code"] == "ABORTED"
    assert await overwritten(staged) == "FS_NOT_OBSERVED"


async def test_a_list_whose_answer_is_blocked_is_not_written(staged: Staged) -> None:
    async def block(finished: Finished, following: Next[PostDecision]) -> PostDecision:
        return Block("no")

    staged.services.post_execute.add(block)
    await staged.call("t", "todo_write", todos=[{"content": "a", "status": "pending"}])
    assert "todo/write" not in await staged.types("t")
