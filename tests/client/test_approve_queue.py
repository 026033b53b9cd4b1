"""The queue of `stockade approve`, where the daemon's word comes late."""

import asyncio
from pathlib import Path

from stockade.v1 import approvals_pb2
from stockade_client import Daemon, connect
from stockade_client.approving import queue as queues
from stockade_client.approving.queue import Queue
from tests.client.another_version import another_version

HANG_S = 60.0  # a hang detector


def waiting(queue: Queue) -> list[str]:
    return [entry.ask.call for entry in queue.waiting]


async def test_an_ask_that_was_answered_does_not_come_back_by_a_word_that_was_on_its_way(
    daemon: Daemon, address: str, scratch: Path, workspace: Path
) -> None:
    """Who looks at an ask may be told after the answer has come back, before the word that it ended."""
    profile = workspace / "asks.toml"
    profile.write_text('extends = "dev"\n[approval]\ncommands = "ask"\n')
    first: list[bytes] = []

    def late(data: bytes) -> bytes:
        message = approvals_pb2.Ask.FromString(data)
        if message.ask_id and not first:
            first.append(data)
        if message.ended:
            return approvals_pb2.Ask(heartbeat=True).SerializeToString()  # is on its way
        return first[0] if "late" in [each.name for each in message.claims] else data

    async with (
        asyncio.timeout(HANG_S),
        another_version(address, scratch / "late.sock", answers={"Approvals/Watch": late}) as there,
        connect(there) as far,
        daemon.session(workspace, profile) as session,
        queues.opened(far, session.session_id) as queue,
        daemon.approvals(session.session_id) as asks,
    ):

        async def appeared(number: int) -> str:
            call = await session.start("shell", command=f"echo {number}")
            while call.call_id not in waiting(queue):
                await queue.change()
            return call.call_id

        await appeared(1)
        await anext(asks)
        queue.answer(queue.waiting[0], True)
        await queue.answered()
        assert queue.waiting == ()
        second = await appeared(2)
        async with (await anext(asks)).claim("late"):
            third = await appeared(3)
        assert waiting(queue) == [second, third]
