"""Some writes at a path that is exchanged all the time; `make swap` makes ten thousand."""

import random
from pathlib import Path

import pytest

from tests.swap.campaign import campaign, through_a_daemon
from tests.swap.watch import watched


@pytest.mark.parametrize("walk", [False, True], ids=["openat2", "walk"])
async def test_a_directory_that_becomes_a_link_leads_nothing_out(tmp_path: Path, walk: bool) -> None:
    seed = random.randrange(10**6)
    print(f"--seed {seed}")
    counts = await campaign(tmp_path, 100, seed, walk=walk)
    assert counts.faults == []
    assert counts.writes == 100
    assert counts.outcomes.total() > 100
    assert counts.committed
    assert counts.swaps


async def test_tools_of_a_session_change_nothing_outside_either(scratch: Path) -> None:
    seed = random.randrange(10**6)
    print(f"--seed {seed}")
    counts = await through_a_daemon(scratch, 40, seed)
    assert counts.faults == []
    assert counts.writes == counts.outcomes.total() == 40
    assert counts.committed
    assert counts.swaps


def test_the_watch_sees_whoever_looks_into_a_file_or_makes_one(tmp_path: Path) -> None:
    (tmp_path / "a").write_bytes(b"1")
    with watched(tmp_path) as watch:
        assert watch.seen() == []
        (tmp_path / "a").read_bytes()
        (tmp_path / "b").touch()
        seen = watch.seen()
    assert {"a was opened", "a was read", "b was made"} <= set(seen)
