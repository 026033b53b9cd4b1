"""Control groups, version 2: which files hold the limits and the figures (admin-guide/cgroup-v2)."""

from collections.abc import Mapping
from pathlib import Path

from stockade_daemon.sandbox.cgroup_files import PERIOD_US, Figures, Setting, flat, quota_us, whole
from stockade_daemon.values import Limits


def settings(limits: Limits) -> tuple[Setting, ...]:
    """What to write. The whole group is killed when it is out of memory, not the process that the kernel picks."""
    return (
        Setting("memory", "memory.max", str(limits.memory_mb * 1024 * 1024)),
        Setting("memory", "memory.swap.max", "0", optional=True),  # missing on a kernel without swap
        Setting("memory", "memory.oom.group", "1", optional=True),  # since Linux 4.19
        Setting("pids", "pids.max", str(limits.processes + 1)),  # and init
        Setting("cpu", "cpu.max", f"{quota_us(limits.cpus)} {PERIOD_US}"),
    )


def figures(directories: Mapping[str, Path]) -> Figures:
    """What the kernel has counted; None where the controller is not ours or the kernel is too old."""
    memory, pids = directories.get("memory"), directories.get("pids")
    microseconds = flat(next(iter(directories.values()), None), "cpu.stat").get("usage_usec")
    return Figures(
        cpu_s=None if microseconds is None else microseconds / 1e6,
        peak_bytes=whole(memory, "memory.peak"),  # since Linux 5.19
        used_bytes=whole(memory, "memory.current"),
        oom_kills=flat(memory, "memory.events").get("oom_kill"),
        processes_refused=flat(pids, "pids.events").get("max"),
    )
