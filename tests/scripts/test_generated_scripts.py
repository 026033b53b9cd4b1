"""A few scripts in every run of the suite; `make scripts` has 300. And the comparison sees what it is for."""

import os
import random
from pathlib import Path

import pytest

from tests.scripts.campaign import campaign, copied, unnamed
from tests.scripts.generator import NAMES, Steps, grow, run, word
from tests.scripts.snapshot import differences, snapshot


def test_a_script_run_twice_leaves_the_same_tree(tmp_path: Path) -> None:
    seed = random.randrange(10**6)
    print(f"seed {seed}")
    chance = random.Random(seed)
    (tmp_path / "one").mkdir()
    grow(tmp_path / "one", chance)
    for name in ("other", "planned"):
        copied(tmp_path / "one", tmp_path / name)
    script = Steps(tmp_path / "planned", chance, links=True).script(10)
    ends = {name: run(script, tmp_path / name).returncode for name in ("one", "other")}
    assert ends["one"] == ends["other"]
    assert differences(snapshot(tmp_path / "one"), snapshot(tmp_path / "other")) == []


def test_one_seed_gives_one_script(tmp_path: Path) -> None:
    scripts = []
    for name in ("one", "other"):
        (tmp_path / name).mkdir()
        chance = random.Random("seed")
        grow(tmp_path / name, chance)
        scripts.append(Steps(tmp_path / name, chance, links=True).script(10))
    assert scripts[0] == scripts[1]


def test_every_name_comes_through_bash_as_it_is(tmp_path: Path) -> None:
    for name in NAMES:
        run(f"> ./{word(name)}", tmp_path)
    assert set(os.listdir(os.fsencode(tmp_path))) == set(NAMES)


@pytest.mark.parametrize(
    ("change", "field"),
    [
        ("echo other > a", "content"),
        ("chmod 600 a", "mode"),
        ("rm link; ln -s b link", "content"),
        ("rm same; cp -p a same", "names"),
        ("touch -d 2001-02-03 a", "mtime"),
        ("rm a; mkdir a", "kind"),
        ("touch new", "only right"),
        ("chmod 700 d/deep; rm -r d", "only left"),
        ("chmod 500 d", "mode"),
        ("touch d/deep/new", "only right"),
    ],
)
def test_a_planted_difference_is_found(tmp_path: Path, change: str, field: str) -> None:
    (tmp_path / "one").mkdir()
    run("echo a > a; ln a same; ln -s a link; mkdir -p d/deep; echo x > d/deep/x; chmod 000 d/deep", tmp_path / "one")
    copied(tmp_path / "one", tmp_path / "other")
    assert differences(snapshot(tmp_path / "one"), snapshot(tmp_path / "other")) == []
    if "new" in change and "deep" in change:
        change = f"chmod 700 d/deep; {change}; chmod 000 d/deep"
    assert run(change, tmp_path / "other").returncode == 0
    assert any(field in each for each in differences(snapshot(tmp_path / "one"), snapshot(tmp_path / "other")))


def test_a_change_that_no_effect_names_is_found(tmp_path: Path) -> None:
    run("echo a > a; mkdir d; echo x > d/x", tmp_path)
    before = snapshot(tmp_path)
    run("echo b > a; rm -r d", tmp_path)
    after = snapshot(tmp_path)
    deleted = {"path": "d", "change": "deleted"}
    assert unnamed(before, after, [deleted]) == [b"a"]
    assert unnamed(before, after, [deleted, {"path": "a", "change": "changed"}]) == []


async def test_scripts_leave_the_same_tree_through_a_daemon_and_nothing_where_an_outsider_came_between() -> None:
    seed = random.randrange(10**6)
    print(f"--seed {seed}")
    report = await campaign(10, seed, links=os.geteuid() == 0)
    assert report.faults == []
    assert report.conflicts == 2
    assert report.changes
