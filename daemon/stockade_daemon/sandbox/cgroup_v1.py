"""Control groups, version 1: which files hold the limits and the figures (cgroups(7), admin-guide/cgroup-v1)."""

from collections.abc import Mapping
from pathlib import Path

from stockade_daemon.sandbox.cgroup_files import PERIOD_US, Figures, Setting, flat, quota_us, whole
from stockade_daemon.values import Limits


def settings(limits: Limits) -> tuple[Setting, ...]:
    """What to write, in this order: memory with swap may not be less than memory alone."""
    size = str(limits.memory_mb * 1024 * 1024)
    return (
        Setting("memory", "memory.limit_in_bytes", size),
        # Missing where the kernel does not count swap; then there may still be some to use up.
        Setting("memory", "memory.memsw.limit_in_bytes", size, optional=True),
        Setting("memory", "memory.swappiness", "0", optional=True),
        Setting("pids", "pids.max", str(limits.processes + 1)),  # and init
        Setting("cpu", "cpu.cfs_period_us", str(PERIOD_US)),
        Setting("cpu", "cpu.cfs_quota_us", str(quota_us(limits.cpus))),
    )


def figures(directories: Mapping[str, Path]) -> Figures:
    """What the kernel has counted; None where the controller is not ours."""
    memory, pids, cpu = (directories.get(name) for name in ("memory", "pids", "cpuacct"))
    nanoseconds = whole(cpu, "cpuacct.usage")
    return Figures(
        cpu_s=None if nanoseconds is None else nanoseconds / 1e9,
        peak_bytes=whole(memory, "memory.max_usage_in_bytes"),
        used_bytes=whole(memory, "memory.usage_in_bytes"),
        oom_kills=flat(memory, "memory.oom_control").get("oom_kill"),
        processes_refused=flat(pids, "pids.events").get("max"),
    )
