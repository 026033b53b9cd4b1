"""Processes on the host, for checks that nothing is left of a call."""

import os
from contextlib import suppress
from pathlib import Path

from tests.conformance.cases.verdicts import hold
from tests.conformance.processes import until

_SETTLED_S = 5.0


def left_of(words: bytes, workspace: Path) -> None:
    """Raises Fails where a process with these words on its command line (NUL between them) is still there.

    Other daemons may have such processes, too: those that have left our mount namespace and do not see the workspace.
    """

    def left() -> list[int]:
        return [pid for pid in _with(words) if not _is_of_others(pid, os.fsencode(workspace))]

    hold(until(lambda: not left(), _SETTLED_S), f"left running: {left()}")


def zombies_below(pid: int) -> int:
    """How many zombies there are in the process tree below `pid`, once it has settled."""
    until(lambda: not _zombies(pid), _SETTLED_S)
    return len(_zombies(pid))


def _with(words: bytes) -> list[int]:
    found = []
    for name in os.listdir("/proc"):
        if name.isdecimal() and int(name) != os.getpid():
            with suppress(OSError):
                if words in Path("/proc", name, "cmdline").read_bytes():
                    found.append(int(name))
    return found


def _is_of_others(pid: int, workspace: bytes) -> bool:
    process = Path("/proc", str(pid))
    with suppress(OSError):
        apart = os.readlink(process / "ns/mnt") != os.readlink("/proc/self/ns/mnt")
        return apart and workspace not in (process / "mountinfo").read_bytes()
    return False  # nobody knows


def _zombies(top: int) -> list[int]:
    parents: dict[int, int] = {}
    zombies = []
    for name in os.listdir("/proc"):
        if not name.isdecimal():
            continue
        with suppress(OSError):
            fields = Path("/proc", name, "stat").read_text().rpartition(")")[2].split()
            parents[int(name)] = int(fields[1])
            if fields[0] == "Z":
                zombies.append(int(name))
    return [pid for pid in zombies if _is_below(pid, top, parents)]


def _is_below(pid: int, top: int, parents: dict[int, int]) -> bool:
    while pid in parents:
        pid = parents[pid]
        if pid == top:
            return True
    return False
