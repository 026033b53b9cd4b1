"""`stockade profile`: list, show, check and explain, with a daemon that runs and with a private one."""

import json
import os
from pathlib import Path

import pytest

from tests.client.conftest import Stockade

FAULTY = "[limits]\nwal_s = 3\n\n cpu_s = 0\n[network]\nmode = 'hots'\n"


def rows(text: bytes) -> list[dict[str, object]]:
    return [json.loads(line) for line in text.splitlines()]


def test_all_shipped_profiles_are_listed(stockade: Stockade) -> None:
    done = stockade("profile", "list", "--json")
    assert done.returncode == 0, done.stderr
    found = rows(done.stdout)
    assert [row["name"] for row in found] == ["ci", "dev", "hook", "network", "offline", "strict"]
    assert all(row["digest"] and row["description"] and not row["fault"] for row in found)
    assert b"strict" in stockade("profile", "list").stdout


def test_a_profile_is_shown_as_it_stands_and_with_what_it_extends(stockade: Stockade, workspace: Path) -> None:
    (workspace / "mine.toml").write_text('extends = "dev"\nlimits.cpu_s = 1\n')
    assert b"# dev: an agent that works on a repository" in stockade("profile", "show", "dev").stdout
    both = stockade("profile", "show", "./mine.toml").stdout
    assert both.startswith(b'# ./mine.toml\nextends = "dev"\nlimits.cpu_s = 1\n')
    assert b"# dev: an agent that works on a repository" in both


def test_explain_says_of_every_setting_which_line_set_it(stockade: Stockade, workspace: Path) -> None:
    (workspace / "mine.toml").write_text(
        'extends = "dev"\nwiden = ["environment.set"]\n\n[limits]\ncpu_s = 1\n[environment.set]\nA = "b"\n'
    )
    done = stockade("profile", "explain", "mine.toml", "--json")
    found = {str(row["key"]): row for row in rows(done.stdout)}
    assert (found["limits.cpu_s"]["value"], found["limits.cpu_s"]["source"], found["limits.cpu_s"]["line"]) == (
        1, "mine.toml", 5
    )  # fmt: skip
    assert (found["environment.set.A"]["value"], found["environment.set.A"]["line"]) == ("b", 7)
    assert (found["environment.set.A"]["toml"], found["limits.cpu_s"]["toml"]) == ('"b"', "1")
    assert found["widen"]["value"] == ["environment.set"]
    assert found["filesystem.mounts"]["value"] == []
    assert str(found["limits.wall_s"]["source"]).endswith("/dev.toml")
    assert found["limits.wall_s"]["value"] == 600
    said = stockade("profile", "explain", "mine.toml").stdout.decode()
    assert "limits.cpu_s" in said
    assert "= 1  # mine.toml:5\n" in said


def test_what_nobody_sets_is_the_default(stockade: Stockade, workspace: Path) -> None:
    (workspace / "mine.toml").write_text("")
    found = rows(stockade("profile", "explain", "mine.toml", "--json").stdout)
    assert {row["source"] for row in found} == {""}
    assert {row["line"] for row in found} == {0}
    assert b"# default" in stockade("profile", "explain", "mine.toml").stdout


def test_explain_names_a_secrets_file_and_not_the_secret(stockade: Stockade, workspace: Path) -> None:
    (workspace / "token").write_text("swordfish")
    (workspace / "mine.toml").write_text(f'secrets.T = {{file = "{workspace}/token"}}\n')
    said = stockade("profile", "explain", "mine.toml").stdout.decode()
    assert "secrets.T " in said
    assert f'= {{file = "{workspace}/token"}}  # mine.toml:1' in said
    assert "swordfish" not in said


def test_check_names_every_mistake_with_its_place(stockade: Stockade, workspace: Path) -> None:
    (workspace / "mine.toml").write_text(FAULTY)
    done = stockade("profile", "check", "mine.toml")
    assert done.returncode == 1
    lines = done.stdout.decode().splitlines()
    assert [line.split(": ")[0] for line in lines] == ["mine.toml:2:1", "mine.toml:4:2", "mine.toml:6:1"]
    assert "the nearest valid key is 'wall_s'" in lines[0]
    assert [row["line"] for row in rows(stockade("profile", "check", "mine.toml", "--json").stdout)] == [2, 4, 6]


def test_check_names_wrong_keys_and_a_base_that_nobody_has(stockade: Stockade, workspace: Path) -> None:
    (workspace / "mine.toml").write_text('extends = "stirct"\n' + FAULTY)
    done = stockade("profile", "check", "mine.toml")
    assert done.returncode == 1
    lines = done.stdout.decode().splitlines()
    assert [line.split(": ")[0] for line in lines] == [f"mine.toml:{place}" for place in ("1:1", "3:1", "5:2", "7:1")]
    assert "did you mean 'strict'" in lines[0]


def test_check_is_silent_about_a_profile_that_can_be_used(stockade: Stockade) -> None:
    done = stockade("profile", "check", "dev")
    assert (done.returncode, done.stdout, done.stderr) == (0, b"", b"")


@pytest.mark.parametrize("verb", ["show", "check", "explain"])
def test_a_name_that_nobody_has_is_a_usage_error(stockade: Stockade, verb: str) -> None:
    done = stockade("profile", verb, "stirct")
    assert done.returncode == 2
    assert b"did you mean 'strict'" in done.stderr


def test_a_private_daemon_answers_as_well(stockade: Stockade, workspace: Path) -> None:
    alone = {name: value for name, value in os.environ.items() if name != "STOCKADE_ADDRESS"}
    (workspace / "mine.toml").write_text(FAULTY)
    assert stockade("profile", "check", "mine.toml", env=alone).returncode == 1


def test_probe_says_layer_by_layer_what_held(stockade: Stockade) -> None:
    done = stockade("profile", "probe", "strict")
    assert done.returncode == 0, done.stdout
    lines = done.stdout.decode().splitlines()
    assert {line.split()[0] for line in lines} <= {"HELD", "absent"}
    assert "HELD      root          read a file of the host by its path: No such file or directory" in lines
    assert "HELD      mount         mount a file system: by seccomp, Operation not permitted" in lines
    found = rows(stockade("profile", "probe", "hook", "--json").stdout)
    assert {row["verdict"] for row in found} <= {"held", "absent"}
    assert {row["by"] for row in found if row["what"] == "mount a file system"} == {"seccomp"}


def test_what_could_not_be_tried_has_a_status_of_its_own(stockade: Stockade, workspace: Path) -> None:
    (workspace / "mine.toml").write_text(f'filesystem.protected = ["{"x" * 300}"]\n')
    done = stockade("profile", "probe", "mine.toml")
    assert done.returncode == 4, done.stdout
    (line,) = [line for line in done.stdout.decode().splitlines() if not line.startswith(("HELD", "absent"))]
    assert line.startswith("not tried protected     do something with a name such as xxx")
    assert line.endswith("none could be made: File name too long")


def test_a_layer_that_is_required_and_missing_leaves_no_worker_to_probe(stockade: Stockade, workspace: Path) -> None:
    (workspace / "mine.toml").write_text('filesystem.mounts = [{path = "/opt/no such tree"}]\n')
    done = stockade("profile", "probe", "mine.toml")
    assert done.returncode == 3
    assert b"mounts /opt/no such tree, which does not exist" in done.stderr
