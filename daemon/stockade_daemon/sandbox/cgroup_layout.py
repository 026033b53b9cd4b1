"""Where this process's own control groups lie: a pure reading of proc_pid_cgroup(5) and proc_pid_mountinfo(5).

Version 1 has a hierarchy for each controller, version 2 one for all. A host may mount both; what counts then is where
the controllers are.
"""

import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Literal

LIMITING: Final = ("memory", "pids", "cpu")
_V1: Final = (*LIMITING, "cpuacct")  # in version 2 the processor time is counted without a controller


@dataclass(frozen=True, slots=True)
class Layout:
    """The directory of our own group, by controller; in version 2 the same one for all."""

    version: Literal[1, 2]
    own: Mapping[str, Path]


@dataclass(frozen=True, slots=True)
class _Mount:
    root: str  # the group that is mounted
    point: str
    controllers: frozenset[str]  # empty: version 2


def layout(memberships: str, mountinfo: str) -> Layout | None:
    """The layout that the texts of /proc/self/cgroup and /proc/self/mountinfo describe; None without controllers.

    Reads the list of controllers that version 2 offers our group.
    """
    mounts = [mount for line in mountinfo.splitlines() if (mount := _mount(line)) is not None]
    groups = [line.split(":", 2) for line in memberships.splitlines()]
    for _, names, group in groups:
        for mount in mounts if not names else ():
            own = _inside(mount, group) if not mount.controllers else None
            offered = _controllers(own) if own is not None else frozenset()
            if own is not None and offered & set(LIMITING):
                return Layout(2, {name: own for name in LIMITING if name in offered})
    found: dict[str, Path] = {}
    for _, names, group in groups:
        for name in set(names.split(",")) & set(_V1):
            for mount in mounts:
                own = _inside(mount, group) if name in mount.controllers else None
                if own is not None:
                    found[name] = own
    return Layout(1, found) if found else None


def _mount(line: str) -> _Mount | None:
    fields = line.split(" ")
    dash = fields.index("-")
    kind, options = fields[dash + 1], fields[dash + 3]
    if kind not in ("cgroup", "cgroup2"):
        return None
    root, point = (os.fsdecode(os.fsencode(each).decode("unicode_escape").encode("latin-1")) for each in fields[3:5])
    return _Mount(root, point, frozenset(options.split(",")) if kind == "cgroup" else frozenset())


def _inside(mount: _Mount, group: str) -> Path | None:
    """The directory of a group; None where the mount does not show it (a container that mounts another part)."""
    root = mount.root.rstrip("/")
    if ".." in group.split("/") or not (group == mount.root or group.startswith(f"{root}/")):
        return None
    return Path(mount.point, group.removeprefix(root).lstrip("/"))


def _controllers(own: Path) -> frozenset[str]:
    try:
        return frozenset((own / "cgroup.controllers").read_text().split())
    except OSError:
        return frozenset()
