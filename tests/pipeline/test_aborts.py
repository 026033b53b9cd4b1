"""What a cancellation comes to, wherever it meets a call: never more than is true, and never instead of what says more.

The numbers are those of the edge cases that docs/semantics.md has as rules.
"""

import asyncio
from pathlib import Path

import pytest

from stockade_daemon.pipeline.context import Services
from stockade_daemon.pipeline.stop import Cause, Stop, Stopped
from stockade_daemon.pipeline.stopped import while_running
from stockade_daemon.policy.decisions import Allow, Deny, PostDecision, PreDecision
from stockade_daemon.policy.subjects import Finished, Judged
from stockade_daemon.policy.waterfall import Next
from stockade_daemon.values import Outcome
from tests.pipeline.engines import Tried, an_engine

READ = b'{"path": "a.txt"}'
HANG_S = 60.0  # a hang detector


class Gate:
    """A stage that a test holds: `entered` is set by the stage, `go` lets it go on."""

    def __init__(self) -> None:
        self.entered, self.go = asyncio.Event(), asyncio.Event()

    async def hold(self) -> None:
        self.entered.set()
        await self.go.wait()


async def cancelled_at(tried: Tried, gate: Gate, tool: str = "read", text: bytes = READ) -> str:
    """The code of a call that is cancelled while the stage holds it."""
    async with asyncio.timeout(HANG_S):
        await tried.engine.begin("s", "c", tool, text)
        await gate.entered.wait()
        under_way = tried.engine._under_way["s", "c"]
        cancelling = asyncio.create_task(tried.engine.cancel("s", "c"))
        await under_way.stop.requested.wait()
        gate.go.set()
        await cancelling
        return await tried.code("c")


def deciding(gate: Gate, decision: PreDecision, services: Services) -> None:
    async def listener(judged: Judged, following: Next[PreDecision]) -> PreDecision:
        await gate.hold()
        return decision

    services.pre_execute._listeners.insert(0, (listener, ""))


async def test_18_27_a_cancellation_during_pre_execute_replaces_an_allow_and_nothing_is_dispatched(
    tmp_path: Path,
) -> None:
    gate = Gate()
    async with an_engine(tmp_path, lambda services: deciding(gate, Allow(), services)) as tried:
        assert await cancelled_at(tried, gate) == "ABORTED_BEFORE_DISPATCH"
        assert await tried.story("tool/call", "call/dispatched", "policy/post-execute", "tool/result") == [
            *("tool/call c", "policy/post-execute c", "tool/result c")
        ]


async def test_28_a_denial_that_comes_after_the_cancellation_is_kept(tmp_path: Path) -> None:
    gate = Gate()
    async with an_engine(tmp_path, lambda services: deciding(gate, Deny("no"), services)) as tried:
        assert await cancelled_at(tried, gate) == "DENIED"


async def test_28_a_fault_of_policy_that_comes_after_the_cancellation_is_kept(tmp_path: Path) -> None:
    gate = Gate()

    def listen(services: Services) -> None:
        async def listener(judged: Judged, following: Next[PreDecision]) -> PreDecision:
            await gate.hold()
            raise RuntimeError("a fault of a listener's")

        services.pre_execute._listeners.insert(0, (listener, ""))

    async with an_engine(tmp_path, listen) as tried:
        assert await cancelled_at(tried, gate) == "TOOL_NOT_STARTED"


async def test_43_44_a_cancellation_before_the_body_is_before_dispatch(tmp_path: Path) -> None:
    gate = Gate()

    def listen(services: Services) -> None:
        async def listener(subject: Judged, following: Next[Outcome]) -> Outcome:
            await gate.hold()
            return await following()

        services.execute.add(listener)

    async with an_engine(tmp_path, listen) as tried:
        assert await cancelled_at(tried, gate) == "ABORTED_BEFORE_DISPATCH"
        assert await tried.story("call/dispatched") == []


async def test_44_a_success_that_a_cancellation_overtakes_is_aborted(tmp_path: Path) -> None:
    gate = Gate()

    def listen(services: Services) -> None:
        async def listener(subject: Judged, following: Next[Outcome]) -> Outcome:
            outcome = await following()
            await gate.hold()
            return outcome

        services.execute.add(listener)

    async with an_engine(tmp_path, listen) as tried:
        assert await cancelled_at(tried, gate) == "ABORTED"


async def test_45_an_error_of_the_body_before_the_cancellation_is_kept(tmp_path: Path) -> None:
    gate = Gate()

    def listen(services: Services) -> None:
        async def listener(finished: Finished, following: Next[PostDecision]) -> PostDecision:
            await gate.hold()
            return await following()

        services.post_execute.add(listener)

    async with an_engine(tmp_path, listen) as tried:
        assert await cancelled_at(tried, gate, text=b'{"path": "absent.txt"}') == "FS_NOT_FOUND"


def test_47_whichever_of_deadline_and_cancellation_comes_first_is_the_outcome() -> None:
    orders: tuple[tuple[Cause, Cause, str], ...] = (
        ("deadline", "cancelled", "TOOL_TIMEOUT"),
        ("cancelled", "deadline", "ABORTED"),
    )
    for first, second, code in orders:
        stop = Stop()
        stop.request(first)
        stop.request(second)
        with pytest.raises(Stopped) as stopped:
            stop.check()
        assert while_running(stopped.value, limit="1 s", after="nothing was changed").code == code


async def test_3_arguments_that_do_not_fit_are_said_although_the_call_was_cancelled(tmp_path: Path) -> None:
    async with an_engine(tmp_path, lambda services: None) as tried:
        await tried.engine.begin("s", "c", "read", b'{"path": 1}')
        await tried.engine.cancel("s", "c")
        assert await tried.code("c") == "INVALID_ARGS"
