"""Processes of this run, told apart by names that only this run has on a command line."""

import contextlib
import os
import signal
import threading
from collections.abc import Callable
from pathlib import Path


def those_with(*needles: str) -> list[int]:
    """Pids, but ours, whose command line holds one of the needles; zombies have none."""
    found = []
    for entry in os.listdir("/proc"):
        if not entry.isdigit() or int(entry) == os.getpid():
            continue
        with contextlib.suppress(OSError):
            line = Path("/proc", entry, "cmdline").read_bytes()
            if any(needle.encode() in line for needle in needles):
                found.append(int(entry))
    return found


def end_those_with(*needles: str) -> None:
    for pid in those_with(*needles):
        with contextlib.suppress(OSError):
            os.kill(pid, signal.SIGKILL)


def host_uids(script: str) -> list[int]:
    """Real, effective, saved and file-system uid on the host of the process that runs `script`; empty: none does."""
    for pid in those_with(script):
        with contextlib.suppress(OSError):
            arguments = Path("/proc", str(pid), "cmdline").read_bytes().split(b"\0")
            if arguments[1:2] != [script.encode()]:
                continue
            for line in Path("/proc", str(pid), "status").read_text().splitlines():
                if line.startswith("Uid:"):
                    return [int(each) for each in line.split()[1:]]
    return []


def until(true: Callable[[], bool], seconds: float) -> bool:
    """Asks every tenth of a second, for what the kernel has no event for; whether it became true in time."""
    pause = threading.Event()
    for _ in range(max(1, int(seconds * 10))):
        if true():
            return True
        pause.wait(0.1)
    return true()
