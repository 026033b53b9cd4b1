"""A commit of a command's changes is all or nothing, whenever the daemon is killed; `make kills` asks everywhere."""

from pathlib import Path

from tests.kills.__main__ import campaign

SEED = 20261202


async def test_a_killed_commit_leaves_the_old_tree_or_the_new_one_and_the_ledger_says_which(scratch: Path) -> None:
    place = scratch / "kills"
    place.mkdir(mode=0o755)
    print(f"seed {SEED}")
    found = await campaign(16, 6, SEED, place)
    assert [each.fault for each in found if each.fault] == []
    assert {each.now for each in found} == {"old", "new"}
