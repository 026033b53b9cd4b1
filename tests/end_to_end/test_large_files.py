"""Files and trees that are too large: each call ends as it should, and the memory of the daemon stays bounded."""

from pathlib import Path

import pytest

from stockade_client import connect
from tests.bench import large
from tests.bench.daemon import running
from tests.bench.files import PROFILE

# A file that the gate takes is held once, and its difference or its pieces beside it for a moment.
MOST_TAKEN = (large.FULL_MB + 16) << 20
MOST_REFUSED = 8 << 20


@pytest.fixture
def place(scratch: Path) -> Path:
    own = scratch / "large"
    own.mkdir()
    return own


async def test_what_is_too_large_is_refused_and_what_is_large_is_held_once(place: Path) -> None:
    async with running(place, profiles={"writes": PROFILE}) as daemon, connect(daemon.address) as client:
        # `make bench` has a hundred thousand files.
        large.plant(daemon.workspace, files=5000)
        async with client.session(workspace=daemon.workspace, profile="writes") as session:
            found = [each async for each in large.grown(daemon, session)]
    assert [(each.what, each.code) for each in found] == [(each.what, each.expected) for each in found]
    for each in found:
        taken = f"{large.LINE_MB} MiB" in each.what or f"{large.FULL_MB} MiB" in each.what
        assert each.peak <= (MOST_TAKEN if taken else MOST_REFUSED), each
