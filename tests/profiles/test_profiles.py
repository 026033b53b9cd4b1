"""Profiles: the shipped ones, and every kind of mistake in one."""

import dataclasses
import hashlib
import os
from pathlib import Path

import pytest

from stockade_daemon import profiles, settings, toml_text
from stockade_daemon.errors import ConfigurationError, RequestError
from stockade_daemon.profiles.keys import EXTENDS, KEYS, SYSCALL_GROUPS, WANTED_GROUPS, WIDEN
from stockade_daemon.profiles.shown import MADE_UP, VIEWS
from stockade_daemon.profiles.widening import widenings
from stockade_daemon.sandbox import plan, syscalls
from stockade_daemon.values import Profile
from stockade_worker import trees

SHIPPED = [profiles.shipped()]
ALL = ["ci", "dev", "hook", "network", "offline", "strict"]


def parse(text: str) -> Profile:
    return profiles.parse(text.encode(), name="mine", source="mine.toml", directories=SHIPPED)


def test_six_profiles_are_shipped() -> None:
    assert profiles.available(SHIPPED) == ALL


@pytest.mark.parametrize("name", ALL)
def test_a_shipped_profile_writes_out_every_key(name: str) -> None:
    text = (profiles.shipped() / f"{name}.toml").read_bytes()
    profile = profiles.load(name, directories=SHIPPED)
    written = settings.read(toml_text.parse(text, source=name), KEYS).values
    assert set(written) == {key.name for key in KEYS if key not in (EXTENDS, WIDEN)}
    assert profile.digest == hashlib.sha256(text).hexdigest()
    assert profile.name == name
    assert profile.description


def test_a_profile_that_says_nothing_is_strict() -> None:
    strict = profiles.load("strict", directories=SHIPPED)
    nothing = parse("")
    assert nothing == dataclasses.replace(
        strict, name="mine", source="mine.toml", digest=nothing.digest, text=b"", description=""
    )


def test_strict_has_no_network_no_sockets_and_no_writes() -> None:
    strict = profiles.load("strict", directories=SHIPPED)
    assert strict.network == "none"
    assert strict.syscalls == WANTED_GROUPS
    assert strict.approval.writes == "deny"
    assert strict.environment_pass == ()
    assert strict.mounts == ()


def test_hook_allows_nothing_that_strict_refuses() -> None:
    strict, hook = (profiles.load(name, directories=SHIPPED) for name in ("strict", "hook"))
    assert widenings(hook, strict) == ()
    assert hook.limits.jobs == 0  # nobody would end them


def test_only_the_profile_of_that_name_has_the_hosts_network_and_it_asks_about_everything() -> None:
    found = {name: profiles.load(name, directories=SHIPPED) for name in ALL}
    assert [name for name, profile in found.items() if profile.network == "host"] == ["network"]
    assert found["network"].approval.commands == found["network"].approval.writes == "ask"
    assert "landlock" in found["network"].required_layers
    assert [name for name, profile in found.items() if profile.secrets] == []


def test_where_nobody_answers_nothing_is_asked() -> None:
    for name in ("ci", "offline", "hook", "strict"):
        approval = profiles.load(name, directories=SHIPPED).approval
        assert "ask" not in (approval.reads, approval.writes, approval.commands)


def test_strict_sets_no_variable_that_steers_a_loader_or_an_interpreter() -> None:
    steering = ("LD_", "DYLD_", "PYTHON", "GIT_", "NODE_", "PERL", "RUBY", "JAVA_", "BASH_", "ENV", "PROMPT_", "IFS")
    names = plan.environment(profiles.load("strict", directories=SHIPPED))
    assert [name for name in names if name.startswith(steering)] == []


def test_dev_asks_before_a_write_and_requires_the_layers_of_strict() -> None:
    strict, dev = (profiles.load(name, directories=SHIPPED) for name in ("strict", "dev"))
    assert dev.approval.writes == "ask"
    assert dev.required_layers == strict.required_layers
    assert dev.system == strict.system


@pytest.mark.parametrize("name", ALL)
def test_a_shipped_profile_shows_nothing_of_etc_but_what_programs_need(name: str) -> None:
    system = profiles.load(name, directories=SHIPPED).system
    for secret in ("/etc", "/etc/shadow", "/etc/ssl", "/etc/ssl/private", "/root", "/home", "/var"):
        assert secret not in system


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        (
            "[limits]\n\nwal_s = 3",
            "mine.toml:3:1: unknown key 'wal_s' in [limits]; the nearest valid key is 'wall_s'",
        ),
        (
            "wall_s = 3",
            "mine.toml:1:1: unknown key 'wall_s' at the top of the file; 'wall_s' belongs beneath [limits]",
        ),
        (
            "\n[netwrok]\nmode = 'none'",
            "mine.toml:2:1: unknown key 'netwrok' at the top of the file; the nearest",
        ),
        ("[network]\nzzz = 1", "mine.toml:2:1: unknown key 'zzz' in [network]; the keys here are mode"),
        ("limits = 3", "mine.toml:1:1: `limits` is a table; write its keys beneath [limits]"),
        ("[[limits]]\nwall_s = 3", "mine.toml:1:1: `limits` is a table"),
        (
            "[limits]\nwall_s = true",
            "mine.toml:2:1: `limits.wall_s` must be a number from 0.1 to 86400, not true or fa",
        ),
        (
            "[limits]\nwall_s = '3'",
            "mine.toml:2:1: `limits.wall_s` must be a number from 0.1 to 86400, not text",
        ),
        ("[limits]\nwall_s = nan", "mine.toml:2:1: `limits.wall_s` is nan; it must be from 0.1 to 86400"),
        ("[limits]\nwall_s = 1e400", "mine.toml:2:1: `limits.wall_s` is inf; it must be from 0.1 to 86400"),
        (
            "[limits]\ncpu_s = 1.5",
            "mine.toml:2:1: `limits.cpu_s` must be a whole number from 1 to 86400, not a number",
        ),
        ("[limits]\nprocesses = -1", "mine.toml:2:1: `limits.processes` is -1; it must be from 8 to 32768"),
        (
            "limits.file_mb = 123456789012345678901234567890",
            "mine.toml:1:1: `limits.file_mb` is a number of more than",
        ),
        (
            "filesystem.scratch = ['a', '../b']",
            'mine.toml:1:28: `filesystem.scratch` element 2 is "../b"; name something below the workspace, without ..',
        ),
        ("filesystem.scratch = ['/b']", 'mine.toml:1:23: `filesystem.scratch` element 1 is "/b"; paths count from'),
        ("filesystem.scratch = ['*']", 'mine.toml:1:23: `filesystem.scratch` element 1 is "*", a pattern; a scratch'),
        ("filesystem.scratch = ['a/.GIT/b']", 'mine.toml:1:23: `filesystem.scratch` element 1 is "a/.GIT/b"; what git'),
        (
            "filesystem.scratch = ['a/b', 'a/bc', 'a']",
            'mine.toml:1:23: `filesystem.scratch` element 1 is "a/b", which lies in "a"; remove one of them',
        ),
        (
            "[filesystem]\nhidden = ['k/*']\nscratch = ['k/v/cache']",
            'mine.toml:3:1: `filesystem.scratch` has "k/v/cache", which `filesystem.hidden` binds with "k/*"; take one',
        ),
        (
            "[filesystem]\nscratch = ['.venv']\nprotected = ['**/.venv']",
            'mine.toml:2:1: `filesystem.scratch` has ".venv", which `filesystem.protected` binds with "**/.venv"; take',
        ),
        (
            "filesystem.scratch = " + str([f"{n}" for n in range(9)]),
            "mine.toml:1:1: `filesystem.scratch` has 9 elements",
        ),
        (
            "[filesystem]\nsystem = '/usr'",
            "mine.toml:2:1: `filesystem.system` must be an array in brackets, not text",
        ),
        (
            "[filesystem]\nsystem = [\n'/usr',\n'opt',\n]",
            'mine.toml:4:1: `filesystem.system` element 2 is "opt"; write the absolute path, beginning with /',
        ),
        ("[filesystem]\nsystem = ['/']", 'mine.toml:2:11: `filesystem.system` element 1 is "/", the whole host'),
        ("[filesystem]\nsystem = ['/usr/../etc']", 'write the path in its normal form, "/etc"'),
        ("[filesystem]\nsystem = ['/usr/']", 'write the path in its normal form, "/usr"'),
        ("[filesystem]\nsystem = ['//usr']", 'write the path in its normal form, "/usr"'),
        ('[filesystem]\nsystem = ["/usr\\u0000x"]', "holds a NUL character"),
        ("[filesystem]\nsystem = ['/usr', '/usr']", 'element 2 is "/usr" a second time; remove it'),
        (
            "[network]\nmode = 'host'",
            'mine.toml:2:1: `layers.required` has "net", which `network.mode = "host"` gives up',
        ),
        (
            "network.mode = 'host'\n[layers]\nrequired = ['net']",
            'mine.toml:3:1: `layers.required` has "net"',
        ),
        ("[network]\nmode = 'loopbak'", 'is "loopbak"; the nearest allowed value is "loopback"'),
        (
            "[filesystem]\nmounts = ['/opt']",
            'mine.toml:2:11: `filesystem.mounts` element 1 must be a table, for example {path = "/opt/toolchain", mode',
        ),
        ("[[filesystem.mounts]]\nmode = 'ro'", "mine.toml:1:1: `filesystem.mounts` element 1 lacks `path`"),
        (
            "[[filesystem.mounts]]\npath = '/opt'\n[[filesystem.mounts]]\npath = '/srv'\nmode = 'rw'",
            'mine.toml:5:1: `filesystem.mounts` element 2 has another mode than "ro", the only one',
        ),
        (
            "[[filesystem.mounts]]\npath = '/opt'\nfrom = '/srv'",
            "mine.toml:3:1: `filesystem.mounts` element 1 has the unknown key 'from'; its keys are path and mode",
        ),
        (
            "[filesystem]\nmounts = [{path = '/opt'}, {path = '/opt', mode = 'ro'}]",
            'mine.toml:2:28: `filesystem.mounts` element 2 is "/opt" a second time; remove it',
        ),
        (
            "[[filesystem.mounts]]\npath = '~/.cargo'",
            "mine.toml:2:1: `filesystem.mounts` element 1 `path` begins with ~",
        ),
        ("[[filesystem.mounts]]\npath = '/opt/'", 'write the path in its normal form, "/opt"'),
        ("[[filesystem.mounts]]\npath = '/'", 'element 1 `path` is "/", the whole host'),
        ("[limits]\nmemory_mb = 8", "mine.toml:2:1: `limits.memory_mb` is 8; it must be from 16 to 1048576"),
        ("[limits]\ncpus = 0", "mine.toml:2:1: `limits.cpus` is 0; it must be from 0.01 to 64"),
        ("extends = 'strict.toml/'", 'mine.toml:1:1: `extends` is not a profile\'s name, for example "strict"'),
        (
            "\nextends = 'stirct'",
            "mine.toml:2:1: `extends` names 'stirct', but no profile is named 'stirct'; did you mean",
        ),
        (
            "[limits]\nextends = 'dev'",
            "mine.toml:2:1: unknown key 'extends' in [limits]; 'extends' belongs above the first",
        ),
        (
            "[environment]\nset = { A = 'x',  'B C' = 'y' }",
            "`environment.set` 'B C' is not a variable's name",
        ),
        (
            "[environment.set]\nA = 'x'\nB = 3",
            "mine.toml:3:1: `environment.set` 'B' must be text in quotes, not a whole",
        ),
        (
            "[environment]\npass = ['A=B']",
            "mine.toml:2:9: `environment.pass` element 1 is not a variable's name",
        ),
        ("[approval]\nwrites = 'alow'", 'is "alow"; the nearest allowed value is "allow"'),
        ("[approval]\nwrites = 1979-05-27", "not a date or time"),
        ("[approval]\neffects = 'comit'", 'is "comit"; the nearest allowed value is "commit"'),
        ("[layers]\nrequired = ['secomp']", 'the nearest allowed value is "seccomp"'),
        (
            "[syscalls]\ngroups = ['base']",
            "lacks files, processes, signals, time, memory, without which no program",
        ),
        ("[syscalls]\ngroups = ['all']", 'element 1 is "all"; '),
    ],
)
def test_a_mistake_is_answered_with_its_place_and_what_is_right(text: str, complaint: str) -> None:
    with pytest.raises(ConfigurationError) as refused:
        parse(text)
    assert complaint in str(refused.value)
    assert str(refused.value).startswith("mine.toml:")


def test_every_mistake_of_a_file_is_found_in_its_order() -> None:
    with pytest.raises(ConfigurationError) as refused:
        parse(
            "[limits]\nwall_s = 0\nspeed = 9\n[filesystem]\nsystem = ['/usr', 'x', '/proc']\n"
            "[environment.set]\nA = 1\nB = 2"
        )
    assert [(mistake.line, mistake.column) for mistake in refused.value.mistakes] == [
        (2, 1), (3, 1), (5, 19), (5, 24), (7, 1), (8, 1)
    ]  # fmt: skip
    assert str(refused.value) == str(refused.value.mistakes[0])


@pytest.mark.parametrize("tree", ["/proc", "/sys", "/dev", "/run", "/var/run", "/tmp"])
@pytest.mark.parametrize("below", ["", "/x"])
def test_the_hosts_views_of_itself_are_never_shown(tree: str, below: str) -> None:
    with pytest.raises(ConfigurationError, match="is never shown"):
        parse(f"[filesystem]\nsystem = ['{tree}{below}']")


@pytest.mark.parametrize(
    "path", ["/proc/1", "/sys", "/dev/shm", "/run/x", "/var/run", "/etc", "/tmp", "/var/tmp", "/var"]
)
def test_a_mount_shows_no_view_of_the_host_and_hides_nothing_of_the_workers(path: str) -> None:
    with pytest.raises(ConfigurationError, match=r"^mine\.toml:1:23: `filesystem\.mounts` element 1 `path` is"):
        parse(f"filesystem.mounts = [{{path = '{path}'}}]")


def test_a_mount_may_lie_below_home_and_tmp() -> None:
    mounts = "[[filesystem.mounts]]\npath = '/home/me/.cargo'\n[[filesystem.mounts]]\npath = '/tmp/x'\nmode = 'ro'"
    assert parse(mounts).mounts == ("/home/me/.cargo", "/tmp/x")


def test_a_profile_and_the_worker_refuse_the_same_views_of_the_host() -> None:
    assert trees.VIEWS == VIEWS


def test_files_that_the_sandbox_makes_up_cannot_be_shown_from_the_host() -> None:
    assert {*plan._FILES, "/etc/gitexclude"} == set(MADE_UP)
    for path in ("/etc", *MADE_UP):
        with pytest.raises(ConfigurationError, match=r"`filesystem\.mounts` element 1 `path` is"):
            parse(f"filesystem.mounts = [{{path = '{path}'}}]")
        with pytest.raises(ConfigurationError, match=r"^mine\.toml:1:22: `filesystem\.system` element 1 is"):
            parse(f"filesystem.system = ['{path}']")


def test_the_groups_of_system_calls_are_those_that_the_sandbox_knows() -> None:
    assert set(SYSCALL_GROUPS) == set(syscalls.GROUPS)


def test_the_first_mistake_in_the_file_is_the_one_that_is_named() -> None:
    with pytest.raises(ConfigurationError, match=r"^mine\.toml:2:"):
        parse("[network]\nmode = 1\n[limits]\nwall_s = 'x'\n")


def test_the_groups_that_every_program_wants_come_first() -> None:
    assert WANTED_GROUPS == ("base", "files", "processes", "signals", "time", "memory")
    assert SYSCALL_GROUPS[: len(WANTED_GROUPS)] == WANTED_GROUPS


def test_a_profiles_environment_cannot_be_changed() -> None:
    with pytest.raises(TypeError):
        parse("").environment["X"] = "y"  # type: ignore[index]


def test_an_unknown_profile_names_the_nearest() -> None:
    with pytest.raises(RequestError, match="did you mean 'strict'") as refused:
        profiles.load("stirct", directories=SHIPPED)
    assert refused.value.status == "NOT_FOUND"


@pytest.mark.parametrize("name", ["", "../strict", "/etc/passwd", ".", "a\0b", "strict/", "x" * 200])
def test_a_name_that_is_no_name_finds_nothing(name: str) -> None:
    with pytest.raises(RequestError, match=r"there are: ci, dev, hook, network, offline, strict|did you mean"):
        profiles.load(name, directories=SHIPPED)


def test_a_profile_of_ones_own_is_found_beside_the_shipped(tmp_path: Path) -> None:
    (tmp_path / "mine.toml").write_text("description = 'my own'")
    (tmp_path / "README").write_text("not a profile")
    directories = [*SHIPPED, tmp_path, tmp_path / "absent"]
    assert profiles.available(directories) == sorted([*ALL, "mine"])
    assert profiles.load("mine", directories=directories).description == "my own"


def test_a_name_in_two_directories_is_refused(tmp_path: Path) -> None:
    (tmp_path / "strict.toml").write_text("")
    with pytest.raises(ConfigurationError, match="two profiles are named 'strict'"):
        profiles.load("strict", directories=[*SHIPPED, tmp_path])


def test_a_profile_that_is_a_fifo_is_refused_at_once(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe.toml")
    with pytest.raises(ConfigurationError, match="not a regular file"):
        profiles.load("pipe", directories=[tmp_path])


def test_a_profile_that_cannot_be_read_is_refused(tmp_path: Path) -> None:
    (tmp_path / "lost.toml").symlink_to(tmp_path / "nowhere")
    with pytest.raises(ConfigurationError, match=r"lost\.toml:1:1: the file cannot be read"):
        profiles.load("lost", directories=[tmp_path])


@pytest.mark.parametrize("what", ["directory", "file"])
@pytest.mark.parametrize("mode", [0o020, 0o002])
def test_a_profile_that_others_may_change_is_refused(tmp_path: Path, what: str, mode: int) -> None:
    tmp_path.chmod(0o755)
    file = tmp_path / "mine.toml"
    file.write_text("limits.cpu_s = 1\n")
    file.chmod(0o644)
    directories = [profiles.shipped(), tmp_path]
    assert profiles.load("mine", directories=directories).limits.cpu_s == 1
    place = file if what == "file" else tmp_path
    place.chmod(place.stat().st_mode | mode)
    with pytest.raises(ConfigurationError, match=r"mine\.toml:1:1: .* can be written by .*chmod go-w"):
        profiles.load("mine", directories=directories)


def test_a_profile_of_another_user_is_refused(tmp_path: Path) -> None:
    if os.getuid() != 0:
        pytest.skip("only root can give a file away")
    file = tmp_path / "mine.toml"
    file.write_text("limits.cpu_s = 1\n")
    os.chown(file, 1000, 1000)
    with pytest.raises(ConfigurationError, match="belongs to uid 1000; have it owned by the daemon's user or by root"):
        profiles.load("mine", directories=[profiles.shipped(), tmp_path])
