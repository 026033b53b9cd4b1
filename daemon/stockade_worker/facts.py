"""What the kernel says about this process, to be compared with what was meant to hold (proc_pid_status(5))."""

import os
from typing import IO, Any

from stockade_worker import landlock

_WANTED = {"Uid", "Gid", "Groups", "CapInh", "CapPrm", "CapEff", "CapBnd", "CapAmb", "NoNewPrivs", "Seccomp"}


def of_this_process(status: IO[str] | None = None) -> dict[str, Any]:
    """The wanted lines of /proc/self/status, the pid as this namespace sees it, and the namespaces' inode numbers.

    `status`: that file, where it has to be opened before it is closed to us; read only now.
    """
    found: dict[str, Any] = {"pid": os.getpid()}
    with status or opened() as lines:
        for line in lines:
            name, _, text = line.partition(":")
            if name in _WANTED:
                found[name] = text.strip()
    found["namespaces"] = {
        name: os.stat(f"/proc/self/ns/{name}").st_ino
        for name in ("user", "mnt", "pid", "net", "ipc", "uts", "cgroup", "time_for_children")
        if os.path.exists(f"/proc/self/ns/{name}")
    }
    found["landlock"] = landlock.abi()
    return found


def opened() -> IO[str]:
    """/proc/self/status. The kernel writes it anew when it is read."""
    return open("/proc/self/status", encoding="ascii", errors="replace")
