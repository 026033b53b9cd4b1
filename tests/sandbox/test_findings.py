"""Findings about hosts that are not at hand: what a kernel would have said is made up, what follows is ours."""

import errno
import os
import tomllib
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from stockade_daemon.sandbox import user_namespaces
from stockade_daemon.sandbox.findings import findings
from stockade_daemon.sandbox.library import RIPGREP
from stockade_daemon.sandbox.survey import Answer, Survey
from stockade_daemon.sandbox.uids import UidRange
from stockade_daemon.values import Finding, Layer

YES = Answer(0, "")
NO = Answer(errno.EPERM, os.strerror(errno.EPERM))
QUESTIONS = ("user", "mount", "pid", "net", "ipc", "uts", "cgroup_ns", "time", "proc", "seccomp")
GOOD = Survey(
    release="6.12.0", machine="x86_64", uid=0, mode="root", uids=UidRange(1_900_000_000, 65536),
    answers=dict.fromkeys((*QUESTIONS, "overlay_user", "overlay_root"), YES), idmap={"/state": YES}, missing_calls=(),
    landlock_abi=6, landlock_errno=0, settings={}, libseccomp="2.6.0", unknown_calls=(), state="/state",
    state_kind="ext4", state_free_mb=50_000, state_free_names=None, open_files=65536, surroundings=(), git="2.50",
    ripgrep="/rg",
)  # fmt: skip
HELD = (Layer("cgroup", True),)


def on(*, layers: tuple[Layer, ...] = HELD, no: tuple[str, ...] = (), **changed: Any) -> dict[str, Finding]:
    """Findings by name, on the good host but for what is changed and what the kernel says no to."""
    answers = {**GOOD.answers, **dict.fromkeys(no, NO)}
    return {each.name: each for each in findings(replace(GOOD, answers=answers, **changed), layers)}


def test_a_host_that_gives_everything_has_nothing_to_do() -> None:
    assert {(each.state, each.remedy) for each in on().values()} == {("ok", "")}


@pytest.mark.parametrize(
    ("abi", "lacking", "release"),
    [(5, 1, "6.12"), (4, 2, "6.12"), (3, 3, "6.12"), (2, 4, "6.12"), (1, 5, "6.12")],
)
def test_an_older_landlock_names_each_right_that_it_lacks(abi: int, lacking: int, release: str) -> None:
    found = on(landlock_abi=abi)["landlock"]
    assert found.state == "degraded"
    assert found.found.partition("without ")[2].count(",") == lacking - 1
    assert ("TCP" in found.found) == (abi < 4)
    assert ("ioctl" in found.found) == (abi < 5)
    assert release in found.remedy


def test_landlock_that_was_not_switched_on_and_one_that_is_not_there_have_other_remedies() -> None:
    off, absent = (on(landlock_abi=0, landlock_errno=each)["landlock"] for each in (errno.EOPNOTSUPP, errno.ENOSYS))
    assert (off.state, absent.state) == ("missing", "missing")
    assert "lsm=" in off.remedy
    assert "CONFIG_SECURITY_LANDLOCK" in absent.remedy


@pytest.mark.parametrize(
    ("settings", "word"),
    [
        ({"user.max_user_namespaces": "0"}, "user.max_user_namespaces=15000"),
        ({"kernel.unprivileged_userns_clone": "0"}, "kernel.unprivileged_userns_clone=1"),
        ({"kernel.apparmor_restrict_unprivileged_userns": "1"}, "apparmor_restrict_unprivileged_userns=0"),
        ({"kernel.apparmor_restrict_unprivileged_userns": "0"}, "no setting refuses them"),
        ({}, "no setting refuses them"),
    ],
)
def test_the_setting_that_refuses_user_namespaces_is_the_one_to_change(settings: dict[str, str], word: str) -> None:
    assert word in user_namespaces.remedy(settings)


@pytest.mark.parametrize("abi", range(6))
def test_in_place_a_landlock_without_scopes_means_that_nothing_runs(abi: int) -> None:
    found = on(no=("user",), mode="in-place", landlock_abi=abi)["landlock"]
    assert found.state == "missing"
    assert found.meaning.startswith("No call can run")


def test_in_place_a_daemon_of_root_that_cannot_change_uids_runs_nothing() -> None:
    found = on(no=("user",), mode="in-place", uids=None)["worker_uids"]
    assert found.meaning.startswith("No call can run")
    assert "CAP_SETPCAP" in found.found


def test_user_namespaces_without_rights_inside_are_missing_and_so_said() -> None:
    found = on(no=("mount",), uid=1000, settings={"kernel.apparmor_restrict_unprivileged_userns": "1"})
    assert found["user_namespaces"].state == "missing"
    assert "without rights inside" in found["user_namespaces"].found


def test_a_proc_that_is_covered_by_a_container_names_the_containers_option() -> None:
    found = on(no=("proc",))["proc"]
    assert found.state == "missing"
    assert "systempaths=unconfined" in found.remedy


def test_state_on_an_overlay_is_told_to_move_and_not_to_change_the_kernel() -> None:
    assert "--state" in on(no=("overlay_root",), state_kind="overlay")["overlay"].remedy
    assert "modprobe" in on(no=("overlay_root",))["overlay"].remedy


def test_an_ordinary_users_overlay_and_uids_are_degraded_and_nothing_is_said_of_id_maps() -> None:
    found = on(uid=1000, mode="user", uids=None)
    assert (found["overlay"].state, found["worker_uids"].state) == ("degraded", "degraded")
    assert "idmapped_mounts" not in found


def test_control_groups_in_force_for_some_limits_are_degraded() -> None:
    found = on(layers=(Layer("cgroup", False, "in force for memory and pids only: cpu: not delegated"),))["cgroups"]
    assert found.state == "degraded"
    assert "Delegate=yes" in found.remedy


@pytest.mark.parametrize("changed", [{"state_free_mb": 100}, {"state_free_names": 10}, {"open_files": 1024}])
def test_too_little_of_something_is_degraded_with_a_remedy(changed: dict[str, Any]) -> None:
    found = [each for each in on(**changed).values() if each.state != "ok"]
    assert [each.state for each in found] == ["degraded"]
    assert found[0].remedy


def test_without_ripgrep_the_searching_tools_are_named_and_the_package_is_the_remedy() -> None:
    found = on(ripgrep="")["ripgrep"]
    assert found.state == "missing"
    assert "`grep` and `glob`" in found.meaning
    assert "-m pip install 'ripgrep>=14.1,<15'" in found.remedy
    project = tomllib.loads((Path(__file__).parents[2] / "pyproject.toml").read_text())
    assert RIPGREP in [each for extra in project["project"]["optional-dependencies"].values() for each in extra]
