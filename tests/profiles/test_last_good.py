"""What a name stands for: found again by looking at files, never older than what was written before."""

import mmap
import os
import random
from collections.abc import Callable
from pathlib import Path

import pytest

from stockade_daemon.errors import ConfigurationError, RequestError
from stockade_daemon.profiles import last_good
from stockade_daemon.profiles import read as profiles
from stockade_daemon.profiles.last_good import LastGood, Standing

BASE = 'extends = "dev"\nlimits.wall_s = {}\n'


@pytest.fixture
def place(tmp_path: Path) -> Path:
    place = tmp_path / "profiles"
    place.mkdir(mode=0o755)
    return place


@pytest.fixture
def known(place: Path) -> LastGood:
    return LastGood([profiles.shipped(), place])


def rested(known: LastGood, name: str) -> Standing:
    while (standing := known.look(name)) is None:
        pass
    return standing


def wall_s(standing: Standing) -> float:
    return standing.usable().limits.wall_s


def test_a_name_whose_files_are_the_same_stands_for_the_same_thing(known: LastGood, place: Path) -> None:
    (place / "mine.toml").write_text(BASE.format(5))
    first = rested(known, "mine")
    assert rested(known, "mine") is first
    os.utime(place / "mine.toml", (1, 1))
    (place / "other.toml").write_text("")
    assert rested(known, "mine") is first


def rounded(paths: tuple[str, ...]) -> tuple[tuple[tuple[int, ...], ...], int]:
    """What a file system would say whose clock ticks every two seconds."""
    tick = 2_000_000_000
    identities, changed_ns = IDENTITIES(paths)
    coarse = tuple((*each[:3], *(at - at % tick for at in each[3:])) for each in identities)
    return coarse, changed_ns - changed_ns % tick


IDENTITIES = last_good._identities


@pytest.mark.parametrize("clock", [IDENTITIES, rounded], ids=["as it is", "coarse"])
def test_what_was_written_before_a_look_is_found_by_it_within_one_tick_of_the_clock(
    known: LastGood, place: Path, monkeypatch: pytest.MonkeyPatch, clock: Callable[..., object]
) -> None:
    """In place, of the same length, as fast as can be: inode, size and often the times are the same."""
    monkeypatch.setattr(last_good, "_identities", clock)
    seed = random.randrange(1 << 32)
    print("seed", seed)
    choice = random.Random(seed)
    path = place / "mine.toml"
    for _ in range(300):
        wanted = choice.randrange(10, 99)
        path.write_text(f"limits.wall_s = {wanted}\n")
        assert wall_s(known.take("mine")) == wanted


def test_a_file_that_changed_a_moment_ago_is_left_alone(known: LastGood, place: Path) -> None:
    (place / "mine.toml").write_text(BASE.format(5))
    rested(known, "mine")
    (place / "mine.toml").write_text("")  # as an editor leaves it between two system calls
    assert known.look("mine") is None
    (place / "mine.toml").write_text(BASE.format(6))
    assert wall_s(rested(known, "mine")) == 6


def test_a_file_on_a_clock_of_whole_seconds_is_left_alone_for_two(
    known: LastGood, place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(last_good, "_identities", rounded)
    (place / "mine.toml").write_text(BASE.format(5))
    known.take("mine")
    (place / "mine.toml").write_text("")
    assert known.look("mine") is None


def test_a_changed_base_is_a_change_of_what_extends_it(known: LastGood, place: Path) -> None:
    (place / "base.toml").write_text(BASE.format(5))
    (place / "mine.toml").write_text('extends = "base"\n')
    first = rested(known, "mine")
    (place / "base.toml").write_text(BASE.format(6))
    second = rested(known, "mine")
    assert (wall_s(first), wall_s(second)) == (5, 6)
    assert second.number > first.number
    (place / "base.toml").unlink()
    broken = rested(known, "mine")
    assert broken.profile == second.profile
    assert "mine.toml:1:1: `extends` names 'base'" in str(broken.fault)
    (place / "base.toml").write_text(BASE.format(7))
    mended = rested(known, "mine")
    assert (wall_s(mended), mended.fault) == (7, None)


def test_a_broken_file_leaves_the_last_good_version_and_each_breaking_counts(known: LastGood, place: Path) -> None:
    path = place / "mine.toml"
    path.write_text(BASE.format(5))
    good = rested(known, "mine")
    path.write_text("limits = ")
    first = rested(known, "mine")
    assert first.profile == good.profile
    assert str(first.fault).startswith(f"{path}:1:9: not valid TOML")
    assert rested(known, "mine") is first
    path.write_text("limits = 1\n")
    second = rested(known, "mine")
    assert second.profile == good.profile
    assert second.number > first.number > good.number
    with pytest.raises(ConfigurationError, match=r"mine\.toml:1:1"):
        second.check()


def test_a_removed_file_takes_its_last_good_version_with_it(known: LastGood, place: Path) -> None:
    path = place / "mine.toml"
    path.write_text(BASE.format(5))
    rested(known, "mine")
    path.unlink()
    gone = rested(known, "mine")
    with pytest.raises(RequestError, match="no profile is named 'mine'"):
        gone.usable()
    path.write_text("limits = ")
    with pytest.raises(ConfigurationError):
        rested(known, "mine").usable()
    assert "mine" in known.names()


def test_a_name_that_nobody_ever_had_is_not_remembered(known: LastGood) -> None:
    for name in ("stirct", "../strict", "", "a\0b"):
        standing = rested(known, name)
        assert (standing.number, standing.profile) == (0, None)
        assert name not in known.names()


def test_a_link_that_leads_elsewhere_is_a_change(known: LastGood, place: Path) -> None:
    """The way in which directories that are mounted from outside are renewed whole."""
    for number in (5, 6):
        (place / f"v{number}").mkdir(mode=0o755)
        (place / f"v{number}" / "mine.toml").write_text(BASE.format(number))
    (place / "now").symlink_to("v5")
    (place / "mine.toml").symlink_to("now/mine.toml")
    assert wall_s(rested(known, "mine")) == 5
    (place / "next").symlink_to("v6")
    (place / "next").replace(place / "now")
    assert wall_s(rested(known, "mine")) == 6


def test_a_link_that_leads_out_and_a_file_with_two_names_are_refused(
    known: LastGood, place: Path, tmp_path: Path
) -> None:
    """Either could lie in a workspace, where whoever is bound by the profile writes it."""
    elsewhere = tmp_path / "elsewhere.toml"
    elsewhere.write_text(BASE.format(5))
    (place / "mine.toml").symlink_to(elsewhere)
    assert f"a link that leads out of {place}" in str(rested(known, "mine").fault)
    (place / "mine.toml").unlink()
    (place / "mine.toml").hardlink_to(elsewhere)
    assert "has 2 names" in str(rested(known, "mine").fault)
    elsewhere.unlink()
    assert wall_s(rested(known, "mine")) == 5


def test_what_is_written_through_a_mapping_is_found_a_little_later(
    known: LastGood, place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (place / "mine.toml").write_text(BASE.format(5))
    assert wall_s(rested(known, "mine")) == 5
    with (place / "mine.toml").open("r+b") as file, mmap.mmap(file.fileno(), 0) as mapping:
        mapping[:1] = mapping[:1]  # the page is written to; from now on no time changes
        os.utime(place / "mine.toml", (1, 1))
        rested(known, "mine")
        mapping[-2:-1] = b"6"
        monkeypatch.setattr(last_good, "_TRUSTED_S", -1.0)
        assert wall_s(rested(known, "mine")) == 6


def test_a_directory_that_others_may_write_is_a_fault_as_soon_as_it_is_one(known: LastGood, place: Path) -> None:
    (place / "mine.toml").write_text(BASE.format(5))
    good = rested(known, "mine")
    place.chmod(0o777)
    assert "chmod go-w it" in str(rested(known, "mine").fault)
    assert rested(known, "mine").profile == good.profile
    place.chmod(0o755)
    assert rested(known, "mine").fault is None


def test_a_second_file_of_the_name_is_a_fault(place: Path, tmp_path: Path) -> None:
    other = tmp_path / "other"
    other.mkdir(mode=0o755)
    known = LastGood([profiles.shipped(), place, other])
    (place / "mine.toml").write_text(BASE.format(5))
    rested(known, "mine")
    (other / "mine.toml").write_text(BASE.format(5))
    assert "two profiles are named 'mine'" in str(rested(known, "mine").fault)
