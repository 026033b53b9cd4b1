"""Control groups: found, made, swept. Version 2 is tried on made-up files; a kernel's is not at hand everywhere."""

import os
import signal
import subprocess
from pathlib import Path

import pytest

from stockade_daemon.profiles import read as profiles
from stockade_daemon.sandbox import cgroup_v1, cgroup_v2, cgroups
from stockade_daemon.sandbox.cgroup_files import Figures, quota_us, since
from stockade_daemon.sandbox.cgroup_layout import Layout, layout
from stockade_daemon.sandbox.cgroups import Cgroups, Group
from stockade_daemon.sandbox.pool import Pool
from stockade_daemon.values import Access, Limits, Profile
from tests.sandbox.conftest import run


@pytest.fixture
def limits() -> Limits:
    return profiles.load("strict", directories=[profiles.shipped()]).limits


def mount(point: Path | str, kind: str, options: str, root: str = "/") -> str:
    return f"31 23 0:28 {root} {point} rw,relatime shared:9 - {kind} {kind} rw,{options}\n"


def fake(directory: Path, **files: str) -> Path:
    """A group's directory with some of its files; a dot in a name is written as two underscores."""
    os.makedirs(directory, exist_ok=True)
    for name, text in files.items():
        (directory / name.replace("__", ".")).write_text(text)
    return directory


# --- where our group is ---


def test_each_controller_of_version_1_has_a_place_of_its_own(tmp_path: Path) -> None:
    mounts = mount("/cg/memory", "cgroup", "memory") + mount("/cg/cpu,cpuacct", "cgroup", "cpu,cpuacct")
    mounts += mount("/cg/pids", "cgroup", "pids") + mount(tmp_path, "cgroup2", "nsdelegate")
    own = "9:name=systemd:/\n4:memory:/a/b\n3:pids:/\n2:cpu,cpuacct:/c\n0::/u\n"
    found = layout(own, mounts)
    assert found is not None
    assert found.version == 1
    assert {name: str(path) for name, path in found.own.items()} == {
        "memory": "/cg/memory/a/b", "pids": "/cg/pids", "cpu": "/cg/cpu,cpuacct/c", "cpuacct": "/cg/cpu,cpuacct/c",
    }  # fmt: skip


def test_version_2_counts_where_it_has_the_controllers(tmp_path: Path) -> None:
    own = fake(tmp_path / "user.slice" / "x", cgroup__controllers="cpuset memory pids\n")
    found = layout("0::/user.slice/x\n", mount(tmp_path, "cgroup2", "nsdelegate"))
    assert found == Layout(2, {"memory": own, "pids": own})


def test_a_part_that_a_container_mounts_is_looked_up_from_its_root() -> None:
    found = layout("4:memory:/docker/abc/in\n", mount("/cg\\040x", "cgroup", "memory", root="/docker/abc"))
    assert found == Layout(1, {"memory": Path("/cg x/in")})
    assert layout("4:memory:/other\n", mount("/cg", "cgroup", "memory", root="/docker/abc")) is None
    assert layout("4:memory:/../other\n", mount("/cg", "cgroup", "memory")) is None
    assert layout("0::/\n", mount("/nowhere", "cgroup2", "")) is None


# --- limits and figures ---


def test_version_2_limits_are_written_into_files_that_the_kernel_made(tmp_path: Path, limits: Limits) -> None:
    group = fake(tmp_path, memory__max="", memory__oom__group="", pids__max="", cpu__max="")
    for setting in cgroup_v2.settings(limits):
        if (group / setting.file).exists() or not setting.optional:
            cgroups.write(group / setting.file, setting.text)
    written = {path.name: path.read_text() for path in group.iterdir()}
    assert written == {
        "memory.max": str(1024 << 20), "memory.oom.group": "1", "pids.max": "129", "cpu.max": "100000 100000",
    }  # fmt: skip


def test_memory_and_swap_are_limited_together_after_memory(limits: Limits) -> None:
    files = [setting.file for setting in cgroup_v1.settings(limits)]
    assert files.index("memory.limit_in_bytes") < files.index("memory.memsw.limit_in_bytes")
    assert ("memory.swap.max", "0") in [(each.file, each.text) for each in cgroup_v2.settings(limits)]


def test_version_2_figures_are_read(tmp_path: Path) -> None:
    directory = fake(
        tmp_path, cpu__stat="usage_usec 1500000\nuser_usec 1\n", memory__peak="104857600\n", memory__current="4096\n",
        memory__events="low 0\nmax 7\noom 1\noom_kill 2\noom_group_kill 1\n", pids__events="max 3\n",
    )  # fmt: skip
    directories = dict.fromkeys(("memory", "pids", "cpu"), directory)
    assert cgroup_v2.figures(directories) == Figures(1.5, 104857600, 4096, 2, 3)


def test_version_1_figures_are_read(tmp_path: Path) -> None:
    directory = fake(
        tmp_path, cpuacct__usage="1500000000\n", memory__max_usage_in_bytes="104857600\n",
        memory__usage_in_bytes="4096\n", memory__oom_control="oom_kill_disable 0\nunder_oom 0\noom_kill 2\n",
        pids__events="max 3\n",
    )  # fmt: skip
    directories = dict.fromkeys(("memory", "pids", "cpuacct"), directory)
    assert cgroup_v1.figures(directories) == Figures(1.5, 104857600, 4096, 2, 3)


def test_what_is_not_there_is_unknown_and_not_zero(tmp_path: Path) -> None:
    assert cgroup_v1.figures({}) == cgroup_v2.figures({}) == Figures()
    assert cgroup_v2.figures({"memory": tmp_path}) == Figures()


def test_entering_the_sandbox_is_not_counted_as_the_bodys() -> None:
    assert since(Figures(1.5, 100, 90), Figures(0.5, 60, 40)) == Figures(1.0, 60, 90)
    assert since(Figures(), Figures()) == Figures()


def test_a_share_of_the_processor_is_never_less_than_the_kernel_takes() -> None:
    assert [quota_us(each) for each in (0.01, 0.5, 2.0, 0.001)] == [1000, 50_000, 200_000, 1000]


# --- version 2: which group may have groups below it ---


def test_version_2_passes_its_controllers_on(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    own = fake(tmp_path / "own", cgroup__subtree_control="memory\n")
    make = Path.mkdir

    def with_files(path: Path) -> None:
        make(path)
        fake(path, cgroup__subtree_control="")

    monkeypatch.setattr(Path, "mkdir", with_files)
    group, reasons = cgroups._base_v2(Layout(2, {"memory": own, "pids": own}), "stockade-1-2-3")
    assert set(group.directories) == {"memory", "pids"}
    assert set(group.directories.values()) == {own / "stockade-1-2-3"}
    assert (own / "cgroup.subtree_control").read_text().startswith("+pids")
    assert reasons == [f"the controller cpu is not delegated to {own}"]
    layer = Cgroups(group, "; ".join(reasons)).layer(group)
    assert (layer.held, layer.reason) == (
        False, f"in force for memory and pids only: the controller cpu is not delegated to {own}",
    )  # fmt: skip


def test_version_2_with_our_own_process_in_the_group_says_what_to_do(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    own = fake(tmp_path / "own", cgroup__subtree_control="")

    def busy(file: Path, text: str) -> None:
        raise OSError(16, "Device or resource busy", str(file))

    monkeypatch.setattr(cgroups, "write", busy)
    group, reasons = cgroups._base_v2(Layout(2, dict.fromkeys(("memory", "pids", "cpu"), own)), "stockade-1-2-3")
    assert group.directories == {}
    assert "DelegateSubgroup=" in reasons[0]
    assert [path.name for path in own.iterdir()] == ["cgroup.subtree_control"]


# --- the real thing, where it is to be had ---


@pytest.fixture
def group() -> Group:
    found, reason = cgroups._begin()
    if not found.directories:
        pytest.skip(f"no control groups here: {reason}")
    return found


def test_groups_of_the_dead_are_swept_and_those_of_the_living_stay(group: Group) -> None:
    try:
        place = next(iter(group.directories.values())).parent
        namespace = cgroups._pid_namespace()
        with subprocess.Popen(["/bin/sleep", "599"]) as other:
            started = cgroups._started(other.pid)
            dead = [place / f"stockade-{other.pid}-{started + 1}-{namespace}-1", place / f"stockade-0-0-{namespace}-1"]
            living = [
                place / f"stockade-{other.pid}-{started}-{namespace}-1",
                place / f"stockade-0-0-{namespace + 1}-1",  # of another pid namespace: who can say
                place / "stockade-of-somebody",
            ]
            for each in (*dead, *living):
                (each / "w1").mkdir(parents=True)
            try:
                cgroups.sweep(place)
                assert [each.exists() for each in (*dead, *living)] == [False, False, True, True, True]
                other.kill()
                os.waitid(os.P_PID, other.pid, os.WEXITED | os.WNOWAIT)  # a zombie: dead, and not waited for
                cgroups.sweep(place)
                assert [each.exists() for each in living] == [False, True, True]
            finally:
                other.kill()
                for each in filter(Path.exists, living):
                    (each / "w1").rmdir()
                    each.rmdir()
    finally:
        group.remove()
    assert not any(path.exists() for path in group.directories.values())


def test_what_a_dead_daemon_left_in_a_workers_group_is_ended(group: Group) -> None:
    place = next(iter(group.directories.values())).parent
    dead = place / f"stockade-0-0-{cgroups._pid_namespace()}-2"
    with subprocess.Popen(["/bin/sleep", "599"]) as left:
        try:
            (dead / "w1").mkdir(parents=True)
            (dead / "w1" / "cgroup.procs").write_text(str(left.pid))
            cgroups.sweep(place)
            assert left.wait(30) == -signal.SIGKILL
            assert not dead.exists()
        finally:
            left.kill()
            group.remove()


async def test_all_of_a_worker_is_in_its_group_and_sees_it_as_the_root(pool: Pool, room: str) -> None:
    async with pool.worker(room, Access.OVERLAY) as worker:
        layer = next(each for each in worker.layers if each.name == "cgroup")
        if worker._group is None:
            assert layer.reason
            pytest.skip(layer.reason)
        assert (layer.held, layer.reason) == (True, "")
        for directory in worker._group.directories.values():
            assert len((directory / "cgroup.procs").read_text().split()) == 2  # init and the body that waits
        await run(worker, "grep -c ':/$' /proc/self/cgroup; grep -vc ':/$' /proc/self/cgroup")
        assert os.read(worker.stdout, 100).endswith(b"\n0\n")
        places = set(worker._group.directories.values())
    assert places


async def test_where_there_are_no_groups_the_layer_says_why(tmp_path: Path, profile: Profile) -> None:
    state = tmp_path / "state"
    state.mkdir(mode=0o700)
    async with Pool.start(state, cgroups=False) as pool:
        held = {layer.name: layer for layer in await pool.probe(profile)}
    assert not held["cgroup"].held
    assert held["cgroup"].reason == "switched off"
    assert held["cgroup_ns"].held
