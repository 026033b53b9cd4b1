"""Profiles that extend others: what they come to, and that a kept text gives the same profile again."""

import dataclasses
import hashlib
from pathlib import Path

import pytest

from stockade_daemon import profiles
from stockade_daemon.errors import ConfigurationError, RequestError
from stockade_daemon.values import Profile

SHIPPED = profiles.shipped()


def write(directory: Path, **texts: str) -> None:
    for name, text in texts.items():
        (directory / f"{name}.toml").write_text(text)


def load(directory: Path, name: str) -> Profile:
    return profiles.load(name, directories=[SHIPPED, directory])


def test_a_profile_that_only_extends_is_its_base(tmp_path: Path) -> None:
    write(tmp_path, mine='extends = "dev"')
    mine, dev = load(tmp_path, "mine"), load(tmp_path, "dev")
    assert mine == dataclasses.replace(dev, name="mine", source=mine.source, digest=mine.digest, text=mine.text)
    assert mine.digest != dev.digest


def test_keys_replace_those_of_the_base_and_the_rest_of_a_table_stays(tmp_path: Path) -> None:
    write(tmp_path, mine='extends = "dev"\n[limits]\nwall_s = 4\ncpu_s = 2\n[approval]\nwrites = "deny"')
    mine, dev = load(tmp_path, "mine"), load(tmp_path, "dev")
    assert mine.limits == dataclasses.replace(dev.limits, wall_s=4.0, cpu_s=2)
    assert mine.approval == dataclasses.replace(dev.approval, writes="deny")
    assert (mine.network, mine.syscalls, mine.system) == (dev.network, dev.syscalls, dev.system)


def test_lists_replace_the_bases_lists(tmp_path: Path) -> None:
    write(
        tmp_path,
        base="[environment]\npass = ['A', 'B']\n[[filesystem.mounts]]\npath = '/opt/a'",
        mine="extends = 'base'\nwiden = ['environment.pass', 'filesystem.mounts']\n"
        "[environment]\npass = ['C']\n[[filesystem.mounts]]\npath = '/opt/b'",
    )
    mine = load(tmp_path, "mine")
    assert mine.environment_pass == ("C",)
    assert mine.mounts == ("/opt/b",)


def test_variables_are_added_to_the_bases_one_by_one(tmp_path: Path) -> None:
    write(
        tmp_path,
        base="[environment.set]\nA = '1'\nB = '2'",
        none="extends = 'base'\n[environment]\nset = {}",
        mine="extends = 'none'\nwiden = ['environment.set']\n[environment.set]\nB = '3'\nC = '4'",
    )
    assert load(tmp_path, "mine").environment == {"A": "1", "B": "3", "C": "4"}


def test_variables_are_added_to_the_defaults_of_a_base_that_sets_none(tmp_path: Path) -> None:
    write(tmp_path, base="", mine="extends = 'base'\nwiden = ['environment.set']\n[environment.set]\nA = '1'")
    assert load(tmp_path, "mine").environment == {**load(tmp_path, "strict").environment, "A": "1"}


def test_a_base_that_sets_no_variables_gives_none(tmp_path: Path) -> None:
    write(
        tmp_path,
        base="[environment]\nset = {}",
        mine="extends = 'base'\nwiden = ['environment.set']\n[environment.set]\nA = '1'",
    )
    assert load(tmp_path, "base").environment == {}
    assert load(tmp_path, "mine").environment == {"A": "1"}


def test_a_text_that_stands_nowhere_extends_an_installed_profile_even_of_its_own_name() -> None:
    given = profiles.parse(b"extends = 'dev'", name="dev", source="dev", directories=[SHIPPED])
    assert given.network == "loopback"


def test_the_digest_is_that_of_the_files_bytes_and_the_bases_digest(tmp_path: Path) -> None:
    write(tmp_path, base="[limits]\ncpu_s = 1", mine="extends = 'base'")
    base, before = load(tmp_path, "base"), load(tmp_path, "mine")
    assert base.digest == hashlib.sha256(b"[limits]\ncpu_s = 1").hexdigest()
    assert before.digest == hashlib.sha256(b"extends = 'base'\0" + base.digest.encode()).hexdigest()
    write(tmp_path, base="[limits]\ncpu_s = 2")
    assert load(tmp_path, "mine").digest != before.digest


def test_a_kept_text_gives_the_same_profile_though_the_files_changed_or_are_gone(tmp_path: Path) -> None:
    write(tmp_path, a="extends = 'b'\n# ä\u2028\r\n", b="extends = 'dev'\n[limits]\ncpu_s = 7", plain="# nothing")
    kept = [load(tmp_path, name) for name in ("a", "b", "plain", "dev")]
    write(tmp_path, b="[limits]\ncpu_s = 9", plain="x")
    (tmp_path / "a.toml").unlink()
    assert [profiles.restore(each.text, name=each.name, source=each.source) for each in kept] == kept
    assert kept[0].limits.cpu_s == 7


def test_the_own_text_of_a_chain_is_the_files_bytes(tmp_path: Path) -> None:
    text = "extends = 'dev'\r\n# ä\n"
    (tmp_path / "mine.toml").write_bytes(text.encode())
    assert profiles.own_text(load(tmp_path, "mine").text) == text.encode()
    assert profiles.own_text(load(tmp_path, "dev").text) == (SHIPPED / "dev.toml").read_bytes()


def test_a_profile_without_a_base_is_kept_as_its_plain_bytes(tmp_path: Path) -> None:
    write(tmp_path, mine="# mine")
    assert load(tmp_path, "mine").text == b"# mine"


@pytest.mark.parametrize("name", ["a", "b", "c", "lone"])
def test_a_circle_is_refused_with_file_line_and_the_way_around(tmp_path: Path, name: str) -> None:
    write(tmp_path, a="\nextends = 'b'", b="extends = 'c'", c="extends = 'b'", lone="extends = 'lone'")
    with pytest.raises(ConfigurationError) as refused:
        load(tmp_path, name)
    circle = {"a": "b → c → b", "b": "b → c → b", "c": "c → b → c", "lone": "lone → lone"}[name]
    assert f"`extends` leads in a circle, {circle}; remove one" in str(refused.value)
    assert str(refused.value).startswith(str(tmp_path))
    assert ".toml:1:1: " in str(refused.value)


def test_a_chain_of_eight_is_taken_and_one_of_nine_is_not(tmp_path: Path) -> None:
    write(tmp_path, p1="limits.cpu_s = 3", **{f"p{n}": f"extends = 'p{n - 1}'" for n in range(2, 10)})
    assert load(tmp_path, "p8").limits.cpu_s == 3
    with pytest.raises(ConfigurationError, match=r"p2\.toml:1:1: `extends` makes a chain of more than 8 profiles"):
        load(tmp_path, "p9")


def test_a_mistake_in_a_base_is_answered_with_the_bases_line(tmp_path: Path) -> None:
    write(tmp_path, base="\n\nwall = 1", mine="extends = 'base'")
    with pytest.raises(ConfigurationError, match=r"base\.toml:3:1: unknown key 'wall'"):
        load(tmp_path, "mine")


def test_a_base_that_stands_twice_is_told_where_it_is_named_beside_the_files_own_mistakes(tmp_path: Path) -> None:
    write(tmp_path, dev="", mine="# mine\nextends = 'dev'\nwall = 1")
    with pytest.raises(ConfigurationError) as refused:
        load(tmp_path, "mine")
    twice, unknown = map(str, refused.value.mistakes)
    assert twice.startswith(
        f"{tmp_path}/mine.toml:2:1: `extends` names 'dev', which cannot be used: {tmp_path}/dev.toml:1:1: "
    )
    assert "two profiles are named 'dev'" in twice
    assert unknown.startswith(f"{tmp_path}/mine.toml:3:1: unknown key 'wall'")


def test_an_unknown_base_is_answered_with_the_line_that_names_it(tmp_path: Path) -> None:
    write(tmp_path, base="# first\nextends = 'absent'", mine="extends = 'base'")
    with pytest.raises(ConfigurationError, match=r"base\.toml:2:1: `extends` names 'absent', but no profile is named"):
        load(tmp_path, "mine")


def test_a_profile_with_wrong_keys_is_told_of_its_wrong_base_as_well(tmp_path: Path) -> None:
    write(tmp_path, mine="wrong = 1\nextends = 'absent'\n[limits]\nwal_s = 3", base="this is no TOML")
    write(tmp_path, more="extends = 'mine'\nalso = 2", last="wrong = 1\nextends = 'base'")
    for name, places in (
        ("mine", ["mine.toml:1:1", "mine.toml:2:1", "mine.toml:4:1"]),
        ("more", ["more.toml:2:1", "mine.toml:1:1", "mine.toml:2:1", "mine.toml:4:1"]),
        ("last", ["last.toml:1:1", "base.toml:1:6"]),
    ):
        with pytest.raises(ConfigurationError) as refused:
            load(tmp_path, name)
        assert [str(each).removeprefix(f"{tmp_path}/").partition(": ")[0] for each in refused.value.mistakes] == places


def test_an_unknown_profile_is_no_configuration_error(tmp_path: Path) -> None:
    with pytest.raises(RequestError, match="no profile is named 'absent'"):
        load(tmp_path, "absent")


def test_a_text_that_poses_as_a_kept_chain_is_refused() -> None:
    posing = b'{"chain": [{"name": "x", "source": "x", "text": ""}]}'
    with pytest.raises(ConfigurationError, match=r"^x:1:1: not valid TOML"):
        profiles.parse(posing, name="x", source="x", directories=[SHIPPED])


def test_a_profile_that_allows_more_than_its_base_is_refused_at_the_key_that_does(tmp_path: Path) -> None:
    write(tmp_path, mine="extends = 'dev'\n[limits]\nwall_s = 5\n  cpu_s = 601\n[approval]\nwrites = 'allow'\n")
    with pytest.raises(ConfigurationError) as refused:
        load(tmp_path, "mine")
    assert [(each.line, each.column) for each in refused.value.mistakes] == [(4, 3), (6, 1)]
    assert "`limits.cpu_s` is 601, more than 600; this allows more than `dev`, which it extends" in str(refused.value)
    assert 'widen = ["limits.cpu_s", "approval.writes"]' in str(refused.value)


def test_a_profile_may_allow_more_by_the_keys_that_it_names(tmp_path: Path) -> None:
    text = "extends = 'dev'\nwiden = ['limits.cpu_s']\n[limits]\ncpu_s = 601\n"
    write(tmp_path, mine=text, more=text + "open_files = 4096\n", below="extends = 'mine'\nlimits.cpu_s = 602")
    assert load(tmp_path, "mine").limits.cpu_s == 601
    with pytest.raises(
        ConfigurationError, match=r'more\.toml:5:1: .*widen = \["limits\.cpu_s", "limits\.open_files"\]'
    ):
        load(tmp_path, "more")
    with pytest.raises(ConfigurationError, match=r"below\.toml:2:1: `limits\.cpu_s` is 602, more than 601"):
        load(tmp_path, "below")


def test_the_word_to_widen_without_a_base_is_refused(tmp_path: Path) -> None:
    write(tmp_path, mine="# mine\nwiden = ['limits.cpu_s']")
    with pytest.raises(ConfigurationError, match=r"mine\.toml:2:1: `widen` is of use only beside `extends`"):
        load(tmp_path, "mine")


def test_only_keys_that_allow_something_can_be_named(tmp_path: Path) -> None:
    write(tmp_path, mine="extends = 'dev'\nwiden = ['limits.cpus_s', 'description']")
    with pytest.raises(ConfigurationError, match=r'`widen` element 1 is "limits\.cpus_s"; the nearest') as refused:
        load(tmp_path, "mine")
    assert len(refused.value.mistakes) == 2
