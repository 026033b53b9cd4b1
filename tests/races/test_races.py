"""A few rounds of `make races`."""

import random

from tests.races.campaign import Counts, campaign


async def test_of_racing_answers_across_two_kills_exactly_one_counts_and_what_was_shown_is_done_once_or_not() -> None:
    seed = random.randrange(10**6)
    counts = Counts()
    await campaign(3, seed, counts)
    assert not counts.faults, (seed, counts.faults)
    assert counts.came_to.total() == 3
