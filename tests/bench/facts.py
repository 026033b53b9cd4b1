"""What machine this was, and how busy."""

import os
import platform
import subprocess
import time
from collections.abc import Mapping
from pathlib import Path

from tests.bench.daemon import ROOT
from tests.bench.figures import Cell


def machine(bwrap: str) -> dict[str, Cell]:
    """Facts that figures depend on, and none that tells whose machine it is."""
    return {
        "processor": _processor(),
        "cores": len(os.sched_getaffinity(0)),
        "memory GiB": round(os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30),
        "kernel": platform.release(),
        "architecture": platform.machine(),
        "control groups": _control_groups(),
        "python": platform.python_version(),
        "identity": "root" if os.getuid() == 0 else "ordinary user",
        "bubblewrap": bwrap,
        "commit": _commit(),
        "date": time.strftime("%Y-%m-%d", time.gmtime()),
    }


def load() -> float:
    """Processes that wanted to run, over the last minute."""
    return round(os.getloadavg()[0], 2)


def lines(facts: Mapping[str, Cell]) -> list[str]:
    return [f"{name}: {value}" for name, value in facts.items()]


def _processor() -> str:
    for line in Path("/proc/cpuinfo").read_text().splitlines():
        if line.startswith("model name"):
            return line.partition(":")[2].strip()
    return platform.machine()


def _control_groups() -> str:
    if Path("/sys/fs/cgroup/cgroup.controllers").exists():
        return "version 2"
    return "version 1" if Path("/sys/fs/cgroup/memory").exists() else "none"


def _commit() -> str:
    """The commit, with a plus where files differ from it (those that this program writes do not count)."""
    try:
        named = subprocess.run(
            ["git", "-C", str(ROOT), "rev-parse", "--short=12", "HEAD"], capture_output=True, text=True, check=True
        )
        changed = subprocess.run(
            ["git", "-C", str(ROOT), "status", "--porcelain", "--", ".", ":!docs/bench"],
            capture_output=True, text=True, check=True,
        )  # fmt: skip
    except (OSError, subprocess.CalledProcessError):
        return "unknown"
    return named.stdout.strip() + ("+" if changed.stdout.strip() else "")
