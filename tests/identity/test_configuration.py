"""What stockade.toml says of principals; its mistakes have their places."""

import os
from pathlib import Path

import pytest

from stockade_daemon.config import Config, load
from stockade_daemon.errors import ConfigurationError
from stockade_daemon.rpc.tokens import TokenFiles, make
from stockade_daemon.values import Role


def _loaded(tmp_path: Path, text: str) -> Config:
    file = tmp_path / "stockade.toml"
    file.write_text(text)
    return load(file, socket=tmp_path / "s", state=tmp_path / "state")


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (
            '[[principals]]\nname = "a"\nuid = 1\nrole = ["agent"]\n',
            ":4:1: `principals` has the unknown key 'role'; the nearest valid key is 'roles'",
        ),
        ("[[principals]]\nuid = 1\n", ":1:1: `principals` lacks `name` in table 1; give it one"),
        ('[[principals]]\nname = "a"\n', ":1:1: `principals` 'a' is known by nothing; give uid, certificate or token"),
        (
            '[[principals]]\nname = "a"\nuid = 1\n[[principals]]\nname = "a"\nuid = 2\n',
            ":5:1: `principals` `name` is the same a second time",
        ),
        (
            '[[principals]]\nname = "a"\nuid = 1\n[[principals]]\nname = "b"\nuid = 1\n',
            ":6:1: `principals` `uid` is another principal's as well",
        ),
        ('[[principals]]\nname = "daemon"\nuid = 1\n', ":2:1: `principals` `name` is 'daemon'"),
        ('[[principals]]\nname = "uid:0"\nuid = 1\n', ":2:1: `principals` `name` is 'uid:0'"),
        (
            '[[principals]]\nname = "a"\nuid = 1\nroles = ["agent", "aprover"]\n',
            ':4:19: `principals` `roles` element 2 is "aprover"; the nearest allowed value is "approver"',
        ),
        ('[[principals]]\nname = "a"\ncertificate = "a"\n', ':3:1: `principals` `certificate` must be "CN=…"'),
        ('[[principals]]\nname = "a"\ntoken = "t"\n', ':3:1: `principals` `token` is "t"; write the absolute path'),
        ("principals = 1\n", ":1:1: `principals` must be tables"),
        ('[identity]\nanswer_own_asks = "yes"\n', ":2:1: `identity.answer_own_asks` must be true or false, not text"),
        ("[identity]\nshare = true\n", ":2:1: unknown key 'share' in [identity]; the nearest valid key is 'shared'"),
    ],
)
def test_a_mistake_is_told_with_its_place(tmp_path: Path, text: str, said: str) -> None:
    with pytest.raises(ConfigurationError) as refused:
        _loaded(tmp_path, text)
    assert f"{tmp_path}/stockade.toml{said}" in str(refused.value)


def test_an_approver_of_nobody_that_there_is_is_a_mistake(tmp_path: Path) -> None:
    several = '[[principals]]\nname = "builder"\nuid = 1\n[[principals]]\nname = "b"\nuid = 2\napproves = ["{}"]\n'
    _loaded(tmp_path, several.format("builder"))
    _loaded(tmp_path, several.format("uid:1000"))
    for name, hint in (("bilder", "did you mean 'builder'?"), ("x", "list it as well, or write uid:N")):
        with pytest.raises(ConfigurationError) as refused:
            _loaded(tmp_path, several.format(name))
        assert f":7:1: `principals` `approves` names '{name}', which no principal is called; {hint}" in str(
            refused.value
        )


def test_only_a_daemon_of_root_is_shared(tmp_path: Path) -> None:
    text = "[identity]\nshared = true\n"
    if os.geteuid() == 0:
        assert _loaded(tmp_path, text).identity.shared
    else:
        with pytest.raises(ConfigurationError, match=r"toml:2:1: only a daemon of root is shared by several uids"):
            _loaded(tmp_path, text)


def test_the_daemons_own_user_may_do_everything_and_another_uid_what_an_agent_may(tmp_path: Path) -> None:
    alone = _loaded(tmp_path, "").identity
    own = alone.of_uid(1000, 1000)
    assert (own.name, own.roles, own.answers_own) == ("uid:1000", frozenset(Role), True)
    several = _loaded(tmp_path, '[[principals]]\nname = "a"\nuid = 1001\nroles = ["admin"]\n').identity
    assert not several.of_uid(1000, 1000).answers_own
    assert several.of_uid(1001, 1000).name == "a"
    assert several.of_uid(1001, 1000).roles == {Role.ADMIN}
    assert several.of_uid(1002, 1000).roles == {Role.AGENT}


@pytest.mark.parametrize(
    ("content", "mode", "said"),
    [
        (None, 0, "cannot be read: No such file or directory; make it with `stockaded token"),
        ("a" * 63, 0o600, "holds no digest: 64 hexadecimal digits"),
        ("the-token-itself", 0o600, "holds no digest"),
        ("a" * 64, 0o620, "can be written by others, who could make a token of their own count"),
    ],
)
def test_a_token_file_that_cannot_be_used_is_told_of(tmp_path: Path, content: str | None, mode: int, said: str) -> None:
    file = tmp_path / "token"
    if content is not None:
        file.write_text(content)
        file.chmod(mode)
    config = _loaded(tmp_path, f'[[principals]]\nname = "a"\ntoken = "{file}"\n')
    with pytest.raises(ConfigurationError, match=f"{file}:1:1: .*{said}"):
        TokenFiles(config.identity.listed)


def test_a_token_file_that_goes_away_takes_its_token_along(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = tmp_path / "token"
    token = make(file).encode()
    files = TokenFiles(_loaded(tmp_path, f'[[principals]]\nname = "a"\ntoken = "{file}"\n').identity.listed)
    monkeypatch.setattr("stockade_daemon.rpc.tokens._LOOK_S", 0.0)
    listed = files.of(token)
    assert listed is not None
    assert listed.name == "a"
    file.unlink()
    assert files.of(token) is None
    assert files.of(b"") is None
    again = make(file).encode()
    assert files.of(token) is None
    assert files.of(again) is not None
