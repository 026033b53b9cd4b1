"""Whatever narrows a profile allows nothing that the profile refuses."""

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from stockade_daemon import profiles
from stockade_daemon.errors import ConfigurationError
from stockade_daemon.profiles import keys, read
from stockade_daemon.profiles.chain import File
from stockade_daemon.profiles.tighten import tighten
from stockade_daemon.profiles.widening import FREE, RULES, widenings
from stockade_daemon.values import Profile
from tests.examples import examples

SHIPPED = [profiles.shipped()]
PATHS = ["/usr", "/opt/a", "/opt/a/b", "/opt/x"]
PATTERNS = [".env", "**/x", "a/*"]
NAMES = ["TZ", "LANG", "A", "B"]
SCRATCH = ["node_modules", "web/node_modules"]  # which none of the patterns bind
DECISIONS = st.sampled_from(["allow", "ask", "deny"])


def some(of: list[str]) -> st.SearchStrategy[list[str]]:
    return st.lists(st.sampled_from(of), unique=True)


VALUES: dict[str, st.SearchStrategy[Any]] = {
    "filesystem.system": some(PATHS),
    "filesystem.mounts": some(PATHS).map(lambda paths: [{"path": path} for path in paths]),
    "filesystem.hidden": some(PATTERNS),
    "filesystem.protected": some(PATTERNS),
    "filesystem.scratch": some(SCRATCH),
    "filesystem.workspace": st.sampled_from(["read", "overlay"]),
    "filesystem.tmp_mb": st.integers(1, 3),
    "filesystem.tmp_inodes": st.integers(64, 66),
    "secrets": st.dictionaries(st.sampled_from(["A", "B"]), st.sampled_from(PATHS).map(lambda path: {"file": path})),
    "network.mode": st.sampled_from(["none", "loopback", "host"]),
    "environment.set": st.dictionaries(st.sampled_from(NAMES), st.sampled_from(["x", "y"])),
    "environment.pass": some(NAMES),
    "limits.wall_s": st.integers(1, 3),
    "limits.cpu_s": st.integers(1, 3),
    "limits.memory_mb": st.integers(16, 18),
    "limits.processes": st.integers(8, 10),
    "limits.open_files": st.integers(32, 34),
    "limits.file_mb": st.integers(1, 3),
    "limits.output_mb": st.integers(1, 3),
    "limits.output_past": st.sampled_from(["stop", "truncate"]),
    "limits.cpus": st.sampled_from([0.5, 1.0, 2.0]),
    "limits.jobs": st.integers(0, 3),
    "limits.job_s": st.sampled_from([1.0, 60.0, 3600.0]),
    "budget.calls": st.integers(1, 3),
    "budget.seconds": st.integers(1, 3),
    "budget.output_mb": st.integers(1, 3),
    "approval.reads": DECISIONS,
    "approval.writes": DECISIONS,
    "approval.commands": DECISIONS,
    "approval.effects": st.sampled_from(["discard", "ask", "commit"]),
    "approval.wait_s": st.integers(0, 2),
    "commands.allow": some(["git status", "git *", "git log -1", "python3 x.py", "python3 *"]),
    "layers.required": some(["user", "uts", "cgroup"]),
    "syscalls.groups": some(list(keys.SYSCALL_GROUPS[6:])).map(lambda more: [*keys.WANTED_GROUPS, *more]),
}


def toml(values: dict[str, Any]) -> str:
    def shown(value: Any) -> str:
        if isinstance(value, dict):
            return "{" + ", ".join(f"{name} = {shown(each)}" for name, each in value.items()) + "}"
        if isinstance(value, list):
            return "[" + ", ".join(map(shown, value)) + "]"
        return json.dumps(value)

    return "".join(f"{name} = {shown(value)}\n" for name, value in values.items())


def subset(names: list[str]) -> st.SearchStrategy[str]:
    """A text that gives a few of the keys."""
    few = st.lists(st.sampled_from(names), unique=True, max_size=3)
    return few.flatmap(lambda chosen: st.fixed_dictionaries({name: VALUES[name] for name in chosen})).map(toml)


TEXTS = subset(list(VALUES))


def allowed(profile: Profile) -> dict[str, Any]:
    """What a profile allows, as sets and numbers of which the smaller one allows less. Written without the rules."""
    order = {"deny": 0, "ask": 1, "allow": 2}
    daemon = dict.fromkeys(profile.environment_pass, "the daemon's")
    return {
        "paths": {("system", path) for path in profile.system} | {("mounts", path) for path in profile.mounts},
        "secrets": set(profile.secrets.items()),
        "seen": set(PATTERNS) - set(profile.hidden),
        "changed": set(PATTERNS) - {*profile.protected, *profile.hidden},
        "kept": set(profile.scratch),
        "changed instead": set(SCRATCH) - {*profile.scratch, *profile.protected, *profile.hidden},
        "variables": set({**daemon, **profile.environment}.items()),
        "calls": set(profile.syscalls),
        "written": {"read": 0, "overlay": 1}[profile.workspace],
        "network": {"none": 0, "loopback": 1, "host": 2}[profile.network],
        "doing without": set(keys.LAYERS) - set(profile.required_layers),
        "unasked": unasked(profile),
        "effects": {"discard": 0, "ask": 1, "commit": 2}[profile.approval.effects],
        "wait_s": profile.approval.wait_s,
        **{kind: order[getattr(profile.approval, kind)] for kind in ("reads", "writes", "commands")},
        **{f"limit {name}": getattr(profile.limits, name) for name in profile.limits.__slots__},
        **{f"budget {name}": getattr(profile.budget, name) for name in profile.budget.__slots__},
    }


def unasked(profile: Profile) -> set[str]:
    """Which of a few commands nobody is asked about."""
    some = {"git status", "git log -1", "git log", "python3 x.py", "another"}
    match profile.approval.commands:
        case "allow":
            return some
        case "deny":
            return set()
    wide = {"git status", "git log"} if "git *" in profile.command_rules else set()
    return wide | (some & set(profile.command_rules))


def no_more(child: Profile, parent: Profile) -> list[str]:
    """What the child allows and the parent refuses."""
    less, more = allowed(child), allowed(parent)
    return [name for name, value in less.items() if not value <= more[name]]


def required(text: str) -> str:
    """Nothing of "net", which one of the modes gives up."""
    return "" if "required" in text else 'layers.required = ["user"]\n'


def parse(text: str) -> Profile:
    return profiles.parse((required(text) + text).encode(), name="base", source="base.toml", directories=SHIPPED)


def test_every_key_has_a_rule_or_allows_nothing_by_itself() -> None:
    assert sorted([*RULES, *FREE]) == sorted(key.name for key in keys.KEYS)
    assert set(VALUES) == set(RULES), "a key that is never tried"


@settings(max_examples=examples(150))
@given(TEXTS, TEXTS)
def test_widenings_are_found_exactly_where_more_is_allowed(one: str, other: str) -> None:
    child, parent = parse(one), parse(other)
    assert bool(widenings(child, parent)) == bool(no_more(child, parent))


@settings(max_examples=examples(150))
@given(TEXTS, st.lists(TEXTS, min_size=1, max_size=4))
def test_a_chain_of_tightenings_allows_nothing_that_any_of_it_refuses(base: str, wishes: list[str]) -> None:
    profile = parse(base)
    passed = [profile]
    for wish in wishes:
        try:
            profile = tighten(profile, wish.encode())
        except ConfigurationError:
            continue
        passed.append(profile)
    for earlier in passed:
        assert no_more(profile, earlier) == []
    assert profiles.restore(profile.text, name=profile.name, source=profile.source) == profile


@settings(max_examples=examples(150), suppress_health_check=[HealthCheck.filter_too_much])
@given(st.lists(TEXTS, min_size=2, max_size=5))
def test_a_chain_of_extends_that_is_taken_allows_nothing_that_a_base_refuses(texts: list[str]) -> None:
    files = [
        File(
            f"p{n}",
            f"p{n}.toml",
            (f"extends = 'p{n + 1}'\n" if n + 1 < len(texts) else required(text)).encode() + text.encode(),
        )
        for n, text in enumerate(texts)
    ]
    try:
        read.effective(files)
    except ConfigurationError:
        return
    chain = [read.effective(files[start:]) for start in range(len(files))]
    for index, child in enumerate(chain):
        for parent in chain[index:]:
            assert no_more(child, parent) == []


@pytest.mark.parametrize("name", sorted(VALUES))
@settings(max_examples=examples(30))
@given(data=st.data())
def test_a_single_key_is_judged_as_what_it_allows(name: str, data: st.DataObject) -> None:
    one, other = (toml({name: data.draw(VALUES[name])}) for _ in range(2))
    child, parent = parse(one), parse(other)
    assert bool(widenings(child, parent)) == bool(no_more(child, parent))


def test_a_tightening_is_kept_with_the_profile_and_counts_in_its_digest() -> None:
    base = profiles.load("dev", directories=SHIPPED)
    narrow = tighten(base, b"limits.wall_s = 5\n", source="mine")
    assert narrow.limits.wall_s == 5
    assert (narrow.name, narrow.source) == (base.name, base.source)
    assert narrow.digest != base.digest
    assert read.own_text(narrow.text) == base.text
    assert read.own_tightening(narrow.text) == b"limits.wall_s = 5\n"
    assert read.own_tightening(base.text) == b""


def test_what_is_refused_or_required_is_added_to() -> None:
    base = parse('[layers]\nrequired = ["user"]')
    assert tighten(base, b'layers.required = ["net"]').required_layers == ("user", "net")
    base = parse('[filesystem]\nhidden = [".env"]\nprotected = ["a"]')
    narrow = tighten(base, b'[filesystem]\nhidden = ["b"]\nprotected = ["c", "a"]')
    assert (narrow.hidden, narrow.protected) == ((".env", "b"), ("a", "c"))


def test_what_was_scratch_is_given_up_only_for_what_cannot_be_changed() -> None:
    base = parse('filesystem.scratch = ["a", "b"]')
    with pytest.raises(ConfigurationError, match=r"`filesystem.scratch` lets be changed in the workspace b"):
        tighten(base, b'filesystem.scratch = ["a"]')
    narrow = tighten(base, b'filesystem.scratch = ["a"]\nfilesystem.protected = ["b"]')
    assert (narrow.scratch, narrow.protected) == (("a",), ("b",))
    with pytest.raises(ConfigurationError, match=r"`filesystem.scratch` keeps c; this allows more"):
        tighten(base, b'filesystem.scratch = ["a", "b", "c"]')


@pytest.mark.parametrize("key", ["hidden", "protected"])
def test_a_tightening_cannot_bind_what_stays_scratch(key: str) -> None:
    base = parse('filesystem.scratch = ["web/.venv"]')
    with pytest.raises(
        ConfigurationError, match=rf'^tightening:1:1: `filesystem.scratch` has "web/.venv", which `f.*{key}'
    ):
        tighten(base, f'filesystem.{key} = ["**/.venv"]'.encode())


def test_a_tightening_that_allows_more_is_refused_with_place_key_and_what_it_would_allow() -> None:
    base = profiles.load("dev", directories=SHIPPED)
    with pytest.raises(ConfigurationError) as refused:
        tighten(base, b"[limits]\nwall_s = 5\n cpu_s = 1000\n[environment.set]\nLD_PRELOAD = '/x'\n")
    assert str(refused.value).startswith("tightening:3:2: `limits.cpu_s` is 1000, more than 600; this allows more than")
    assert "profile dev" in str(refused.value)
    assert [mistake.line for mistake in refused.value.mistakes] == [3, 4]


@pytest.mark.parametrize("key", ["extends = 'strict'", "widen = ['limits.cpu_s']", "description = 'x'"])
def test_a_tightening_is_no_profile(key: str) -> None:
    with pytest.raises(ConfigurationError, match=r"tightening:1:1: `\w+` belongs to a profile"):
        tighten(profiles.load("dev", directories=SHIPPED), key.encode())


def test_a_variable_that_the_profile_sets_cannot_become_the_daemons(tmp_path: Path) -> None:
    """Both pass TZ; where it is set as well, the daemon's never shows."""
    parent = parse("environment.pass = ['TZ']\nenvironment.set = {TZ = 'UTC'}")
    child = parse("environment.pass = ['TZ']\nenvironment.set = {}")
    assert [each.key for each in widenings(child, parent)] == ["environment.pass"]
