"""Small floods in every run of the suite; `make floods` has large ones."""

import random

from tests.floods.campaign import Sizes, campaign
from tests.floods.survivors import WAYS

SMALL = Sizes(flood_mb=12, slow_mb=12, readers=3, limit_mb=1, endless_s=0.7, calls=3, survivors=len(WAYS))


async def test_a_flood_arrives_whole_over_cut_connections_and_beside_slow_readers_in_bounded_memory() -> None:
    await held("cut", "slow")


async def test_an_endless_command_comes_to_its_limit_and_disturbs_nobody() -> None:
    await held("endless")


async def test_nothing_outlives_its_call_and_no_call_hangs() -> None:
    await held("survivors")


async def held(*floods: str) -> None:
    seed = random.randrange(10**6)
    print(f"--seed {seed}")
    report = await campaign(SMALL, seed, only=floods)
    assert report.faults == []
    assert report.figures
