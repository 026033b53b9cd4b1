"""A view of the workspace that is followed: what others change is seen, and nothing is left of it afterwards."""

import asyncio
import os
from pathlib import Path

import pytest

from stockade_daemon.sandbox.pool import Pool
from stockade_daemon.values import Access
from tests.sandbox.conftest import mounters, run

# Says that `name` is not there, and then that it is.
_LOOK = "[ -e name ] || echo looked; until [ -e name ]; do sleep 0.01; done; echo seen"


@pytest.mark.parametrize("prepared", [False, True])
async def test_a_name_that_is_made_later_is_seen(pool: Pool, room: str, workspace: Path, prepared: bool) -> None:
    if prepared:
        async with pool.worker(room, Access.READ) as worker:
            await run(worker, "true")
    async with pool.worker(room, Access.READ, follow=True) as worker, asyncio.TaskGroup() as group:
        group.create_task(run(worker, _LOOK))
        assert await asyncio.to_thread(os.read, worker.stdout, 100) == b"looked\n"
        (workspace / "name").touch()
        assert await asyncio.to_thread(os.read, worker.stdout, 100) == b"seen\n"


async def test_nothing_is_kept_of_views_whose_workers_are_gone(pool: Pool, room: str) -> None:
    for _ in range(3):
        async with pool.worker(room, Access.READ, follow=True) as worker:
            assert _followed() == 1
            await worker.close()
        for _ in range(2):  # it looks at what has ended beside each request, and the second comes after that
            async with pool.worker(room, Access.OVERLAY) as worker:
                await worker.close()
        assert _followed() == 0


def _followed() -> int:
    """How many views the mounter follows: each has an end of a pipe, for a moment by two descriptors, and nothing else
    has."""
    [mounter] = mounters()
    ends = (os.readlink(each) for each in Path(f"/proc/{mounter}/fd").iterdir())
    return len({each for each in ends if each.startswith("pipe:")})
