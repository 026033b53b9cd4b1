"""`stockade doctor`, refusals and results on hosts that give less, each made by a real kernel that refuses."""

import functools
import json
import os
import re
import shlex
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeAlias

import pytest

from stockade_worker import landlock
from tests.conformance.function_door import lacking_in_place
from tests.end_to_end.stockaded import COMMAND_S, Stockaded
from tests.everybodys_python import everybodys_python

ROOT = os.geteuid() == 0
PROJECT = Path(__file__).parents[2]
FINDINGS = [
    "kernel", "user_namespaces", "namespaces", "time_namespaces", "proc", "seccomp", "libseccomp", "landlock",
    "cgroups", "overlay", *(["idmapped_mounts"] if ROOT else []), "worker_uids", "state", "open_files", "git",
    "ripgrep", "surroundings", "python",
]  # fmt: skip
HERE_LANDLOCK = landlock.abi()
needs_landlock = pytest.mark.skipif(HERE_LANDLOCK == 0, reason="this kernel has no Landlock, or it is switched off")

Stockade: TypeAlias = Callable[..., "subprocess.CompletedProcess[str]"]


def on_a_host_without(*lacks: str) -> Stockade:
    """`on_a_host_without("landlock")(*arguments)`: the command and its private daemon, both on such a host.

    Without user namespaces with a Python that workers can run then, where there is one.
    """
    python, variables = sys.executable, dict[str, str]()
    if "user_namespaces" in lacks and not lacking_in_place():
        python, variables = everybodys_python()

    def run(*arguments: str) -> "subprocess.CompletedProcess[str]":
        around = [sys.executable, "-m", "tests.end_to_end.lesser_host", *lacks, "--"] if lacks else []
        return subprocess.run(
            [*around, python, "-m", "stockade_client", *arguments],
            cwd=PROJECT,
            env={name: value for name, value in os.environ.items() if name != "STOCKADE_ADDRESS"} | variables,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=COMMAND_S,
            check=False,
        )

    return run


class Doctor:
    """What `stockade doctor --json` said."""

    def __init__(self, done: "subprocess.CompletedProcess[str]") -> None:
        assert len(done.stdout.splitlines()) == 1, done.stdout + done.stderr
        self.status = done.returncode
        self.said: dict[str, Any] = json.loads(done.stdout)
        self.findings = {each["name"]: each for each in self.said["findings"]}
        self.profiles = {each["name"]: each for each in self.said["profiles"]}

    def state(self, name: str) -> str:
        return str(self.findings[name]["state"])

    def layer(self, name: str, profile: str = "strict") -> dict[str, Any]:
        found: dict[str, Any] = next(each for each in self.profiles[profile]["layers"] if each["name"] == name)
        return found


@functools.cache
def doctor(*lacks: str) -> Doctor:
    """Asked once for each such host: it is the same one for all tests."""
    return Doctor(on_a_host_without(*lacks)("doctor", "--json"))


def requiring(directory: Path, layer: str) -> str:
    """A profile file that is `strict` and requires one layer more."""
    path = directory / f"needs_{layer}.toml"
    path.write_text(f'[layers]\nrequired = ["user", "seccomp", "{layer}"]\n')
    return str(path)


def layers_of_a_call(run: Stockade, workspace: Path, tool: str = "shell") -> dict[str, dict[str, Any]]:
    done = run("call", tool, '{"command": "true"}', "--profile", "dev", "--workspace", str(workspace), "--json")
    result = json.loads(done.stdout)
    assert result["ok"], result
    return {each["name"]: each for each in result["layers"]}


def is_refused(run: Stockade, workspace: Path, profile: str) -> str:
    """That nothing runs under a profile; the daemon's words."""
    mark = workspace / "ran"
    where = ["--profile", profile, "--workspace", str(workspace), "--json"]
    called = json.loads(run("call", "shell", '{"command": "echo ran | tee ran"}', *where).stdout)
    assert called["error"]["code"] == "SANDBOX_UNAVAILABLE"
    assert "value" not in called or not called["value"]
    assert not mark.exists()
    return str(called["error"]["message"])


def test_every_finding_has_a_state_a_meaning_and_a_remedy_where_there_is_one() -> None:
    found = doctor()
    assert list(found.findings) == FINDINGS
    for each in found.findings.values():
        assert each["state"] in ("ok", "degraded", "missing")
        assert each["found"]
        assert each["meaning"].endswith(".")
        assert bool(each["remedy"]) == (each["state"] != "ok"), each


def test_able_and_the_exit_status_say_what_the_profiles_say() -> None:
    found = doctor()
    assert sorted(found.profiles) == sorted(path.stem for path in (PROJECT / "sandbox_profiles").glob("*.toml"))
    for profile in found.profiles.values():
        held = {layer["name"] for layer in profile["layers"] if layer["held"]}
        assert (profile["state"] == "ok") == (set(profile["required"]) <= held), profile
        assert (profile["reason"] == "") == (profile["state"] == "ok")
    able = all(profile["state"] == "ok" for profile in found.profiles.values())
    assert (found.said["able"], found.status) == (able, 0 if able else 1)


def test_a_running_daemon_is_asked_about_its_own_host(shared: Stockaded, stockade: Stockade) -> None:
    found = Doctor(stockade("doctor", "--json"))
    assert found.said["daemon"]["address"] == shared.address
    assert found.said["daemon"]["uid"] == os.geteuid()
    assert found.findings["state"]["found"].startswith(str(shared.state))
    assert os.listdir(shared.state / "scratch") == []


def test_the_table_for_people_names_every_finding_and_profile(stockade: Stockade) -> None:
    done = stockade("doctor")
    assert done.returncode in (0, 1), done.stderr
    for name in (*FINDINGS, "profile strict", "profile dev"):
        assert re.search(rf"^{name} ", done.stdout, re.MULTILINE), name


def test_operations_md_has_every_finding() -> None:
    page = (PROJECT / "docs" / "operations.md").read_text()
    _, _, section = page.partition("## What a host can enforce\n")
    written = re.findall(r"^\| `(\w+)` \|", section.partition("\n## ")[0], re.MULTILINE)
    assert [name for name in written if ROOT or name != "idmapped_mounts"] == list(doctor().findings)


def test_a_host_without_user_namespaces_says_so_and_what_to_change(workspace: Path) -> None:
    found = doctor("user_namespaces")
    assert (found.said["able"], found.status) == (False, 1)
    asked = found.findings["user_namespaces"]
    assert asked["state"] == "missing"
    assert "Operation not permitted" in asked["found"]
    assert "no setting refuses them" in asked["remedy"]
    assert {each["state"] for each in found.profiles.values()} == {"missing"}
    for name in ("namespaces", "proc"):
        assert found.findings[name]["meaning"] == "See user_namespaces."
    for name in ("time_namespaces", "overlay"):
        assert found.findings[name]["remedy"] == "see user_namespaces"
    run = on_a_host_without("user_namespaces")
    assert asked["remedy"] in is_refused(run, workspace, "dev")
    done = run("exec", "--profile", "dev", "--workspace", str(workspace), "--", "sh", "-c", "echo ran")
    assert done.returncode == 125, done.stderr
    assert "ran" not in done.stdout


@pytest.mark.skipif(bool(lacking_in_place()), reason=f"needs {lacking_in_place()}")
def test_without_user_namespaces_what_the_other_layers_promise_is_held(workspace: Path) -> None:
    lesser = workspace.parent / "lesser.toml"
    lesser.write_text(example("Hosts without user namespaces"))
    done = on_a_host_without("user_namespaces")("profile", "probe", str(lesser), "--json")
    assert done.returncode == 0, done.stdout + done.stderr
    found = [json.loads(line) for line in done.stdout.splitlines()]
    own = {each["layer"] for each in found if each["verdict"] == "held" and not each["by"]}
    assert own >= {"no_new_privs", "landlock", "seccomp", "rlimits"}
    absent = {each["layer"]: each["detail"] for each in found if each["verdict"] == "absent"}
    assert {"user", "mount", "pid", "net", "root", "proc", "overlay"} <= absent.keys()
    assert "refuses user namespaces" in absent["overlay"]
    assert {each["verdict"] for each in found} == {"held", "absent"}


@pytest.mark.skipif(bool(lacking_in_place()), reason=f"needs {lacking_in_place()}")
def test_without_user_namespaces_a_profile_that_allows_it_runs_functions_in_place(workspace: Path) -> None:
    run = on_a_host_without("user_namespaces")
    lesser = workspace.parent / "lesser.toml"
    lesser.write_text(example("Hosts without user namespaces"))
    where = ["--profile", str(lesser), "--workspace", str(workspace), "--json"]
    said = json.loads(run("call", "read", '{"path": "a.txt"}', *where).stdout)
    assert said["value"]["content"] == (workspace / "a.txt").read_text()
    layers = {each["name"]: each for each in said["layers"]}
    assert {name for name in ("no_new_privs", "landlock", "seccomp", "rlimits") if layers[name]["held"]} == {
        "no_new_privs", "landlock", "seccomp", "rlimits",
    }  # fmt: skip
    assert "refuses user namespaces" in layers["user"]["reason"]
    assert "a view" in is_refused(run, workspace, str(lesser))
    for tool in ("grep", "glob"):
        searched = json.loads(run("call", tool, '{"pattern": "one"}', *where).stdout)
        assert searched["error"]["code"] == "SANDBOX_UNAVAILABLE"
        assert "a view" in searched["error"]["message"]
    strict = json.loads(run("call", "read", '{"path": "a.txt"}', "--profile", "strict", *where[2:]).stdout)
    assert strict["error"]["code"] == "SANDBOX_UNAVAILABLE"
    assert "requires layers" in strict["error"]["message"]


def test_without_user_namespaces_and_landlock_that_holds_signals_nothing_runs(workspace: Path) -> None:
    lesser = workspace.parent / "lesser.toml"
    lesser.write_text(example("Hosts without user namespaces"))
    run = on_a_host_without("landlock", "user_namespaces")
    where = ["--profile", str(lesser), "--workspace", str(workspace), "--json"]
    said = json.loads(run("call", "read", '{"path": "a.txt"}', *where).stdout)
    assert said["error"]["code"] == "SANDBOX_UNAVAILABLE"


@pytest.mark.skipif(not ROOT, reason="needs root, whose workers have another uid")
def test_an_installation_that_others_cannot_read_is_named_with_the_remedy(workspace: Path, scratch: Path) -> None:
    installed = Path(tempfile.mkdtemp(dir=scratch))
    places = [installed / name for name in ("daemon", "client", "proto")]
    for place in places:
        shutil.copytree(PROJECT / place.name, place, symlinks=False)
    subprocess.run(["chmod", "-R", "go-rwx", installed], check=True)

    def run(*arguments: str) -> "subprocess.CompletedProcess[str]":
        environment = {name: value for name, value in os.environ.items() if name != "STOCKADE_ADDRESS"}
        return subprocess.run(
            [sys.executable, "-m", "stockade_client", *arguments],
            cwd=workspace,
            env=environment | {"PYTHONPATH": os.pathsep.join(map(str, places))},
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=COMMAND_S,
            check=False,
        )

    packages = [str(installed / "daemon" / name) for name in ("stockade_toolkit", "stockade_worker")]
    remedy = ["chmod", "-R", "go+rX", *packages]
    done = run("exec", "--profile", "dev", "--", "true")
    assert done.returncode == 125
    assert re.search(rf"uid \d+ cannot read {installed}/daemon/stockade_\w+,", done.stderr)
    assert shlex.join(remedy) in done.stderr
    found = Doctor(run("doctor", "--json"))
    assert found.state("python") == "missing"
    assert found.findings["python"]["remedy"] == shlex.join(remedy)
    assert re.search(rf"uid \d+ cannot read {installed}/daemon/stockade_\w+$", found.findings["python"]["found"])
    assert all(shlex.join(remedy) in each["reason"] for each in found.profiles.values())
    # One module that was written later, by somebody with another umask.
    subprocess.run(remedy, check=True)
    module = installed / "daemon" / "stockade_worker" / "frames.py"
    module.chmod(0o600)
    assert f"cannot read {module}," in run("exec", "--profile", "dev", "--", "true").stderr
    subprocess.run(remedy, check=True)
    assert run("exec", "--profile", "dev", "--", "echo", "ran").stdout == "ran\n"
    assert Doctor(run("doctor", "--json")).state("python") == "ok"


def example(section: str) -> str:
    """The profile that docs/profiles.md shows there."""
    _, _, text = (PROJECT / "docs" / "profiles.md").read_text().partition(f"\n## {section}\n")
    return text.partition("```toml\n")[2].partition("```")[0]


def test_the_setting_that_refuses_user_namespaces_is_named() -> None:
    found = doctor("user_namespaces_by_setting")
    assert found.status == 1
    assert found.findings["user_namespaces"]["remedy"].startswith("sysctl -w user.max_user_namespaces=")


@needs_landlock
@pytest.mark.parametrize(("lack", "remedy"), [("landlock", "CONFIG_SECURITY_LANDLOCK"), ("landlock_off", "lsm=")])
def test_a_host_without_landlock_runs_what_does_not_require_it(workspace: Path, lack: str, remedy: str) -> None:
    found = doctor(lack)
    assert found.state("landlock") == "missing"
    assert remedy in found.findings["landlock"]["remedy"]
    assert not found.layer("landlock")["held"]
    run = on_a_host_without(lack)
    layer = layers_of_a_call(run, workspace)["landlock"]
    assert not layer["held"]
    said = is_refused(run, workspace, requiring(workspace.parent, "landlock"))
    assert f"landlock ({layer['reason']})" in said
    for profile in found.profiles.values():
        assert (profile["state"] == "missing") == ("landlock" in profile["required"])


@pytest.mark.parametrize("lack", ["cgroups_read_only", "no_cgroups"])
def test_a_host_without_writable_control_groups_runs_what_does_not_require_them(workspace: Path, lack: str) -> None:
    found = doctor(lack)
    assert found.state("cgroups") == "missing"
    assert found.findings["cgroups"]["remedy"]
    run = on_a_host_without(lack)
    layer = layers_of_a_call(run, workspace)["cgroup"]
    assert not layer["held"]
    assert layer["reason"]
    if ROOT:
        assert ("Read-only" in layer["reason"]) == (lack == "cgroups_read_only")
        assert ("mounts no control groups" in layer["reason"]) == (lack == "no_cgroups")
    assert "cgroup (" in is_refused(run, workspace, requiring(workspace.parent, "cgroup"))


def test_a_kernel_without_time_namespaces_is_reported_and_refuses_nothing_else(workspace: Path) -> None:
    found = doctor("time_namespaces")
    assert found.state("time_namespaces") == "degraded"
    run = on_a_host_without("time_namespaces")
    layer = layers_of_a_call(run, workspace)["time"]
    assert not layer["held"]
    assert layer["reason"]
    assert "time (" in is_refused(run, workspace, requiring(workspace.parent, "time"))


def test_without_overlays_functions_run_and_commands_do_not(workspace: Path) -> None:
    found = doctor("overlay")
    assert found.status == 1
    assert found.state("overlay") == "missing"
    assert found.profiles["strict"]["state"] == "degraded"
    assert found.profiles["strict"]["layers"]
    run = on_a_host_without("overlay")
    where = ["--profile", "strict", "--workspace", str(workspace), "--json"]
    assert json.loads(run("call", "read", '{"path": "a.txt"}', *where).stdout)["ok"]
    assert json.loads(run("call", "shell", '{"command": "true"}', *where).stdout)["error"]["code"] == "SANDBOX_FAILED"


def test_a_private_daemon_without_room_says_where_to_make_some(
    workspace: Path, directory: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    temporary = directory / "tmp"
    temporary.mkdir()
    monkeypatch.setenv("TMPDIR", str(temporary))
    much = ["sh", "-c", "head -c 3000000 /dev/zero"]
    done = on_a_host_without("space")("exec", "--profile", "dev", "--workspace", str(workspace), "--", *much)
    assert done.returncode == 125
    assert f"Make room in {temporary}, or set TMPDIR to a directory that has more; look at the workspace" in done.stderr
    for wrong in ("restart", "a fault of the daemon", ".;", "..\n"):
        assert wrong not in done.stderr, done.stderr


def test_an_address_where_nobody_answers_is_infrastructure(stockade: Stockade, stockaded: Stockaded) -> None:
    found = Doctor(stockade("doctor", "--json", daemon=stockaded))
    assert found.status == 3
    assert stockaded.address in found.findings["daemon"]["found"]
