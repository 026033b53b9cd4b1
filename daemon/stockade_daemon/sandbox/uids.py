"""Host uids for workers: a range of the daemon's own, one uid for each template (user_namespaces(7)).

Not 65534, which the whole system shares (overflow id, NFS, reserved blocks), and not one uid for all: inotify
instances and other per-uid limits are counted across user namespaces.
"""

import os
from dataclasses import dataclass
from pathlib import Path

# 1879048192-2147352575 is not assigned to anything by the usual allocations of Linux distributions.
_PREFERRED = 1_900_000_000
_COUNT = 65536


@dataclass(frozen=True, slots=True)
class UidRange:
    first: int
    count: int


def available(*, in_place: bool = False) -> UidRange | None:
    """The range that a root daemon can use, or None where this process cannot change its uid to any other.

    It needs CAP_SYS_ADMIN as well, to mount; `in_place`, where nothing is mounted, CAP_SETPCAP.

    In a container the daemon's own user namespace may map few ids: then the top half of its largest extent is taken.
    """
    if os.geteuid() != 0 or not _has_capabilities(8 if in_place else 21):
        return None
    uids, gids = (_extents(Path(f"/proc/self/{name}").read_text()) for name in ("uid_map", "gid_map"))
    if all(_holds(each, _PREFERRED, _COUNT) for each in (uids, gids)):
        return UidRange(_PREFERRED, _COUNT)
    first, count = max(uids, key=lambda extent: extent[1])
    half = UidRange(first + count // 2, min(count // 2, _COUNT))
    if half.count < 16 or not _holds(gids, half.first, half.count):
        return None
    return half


def _extents(text: str) -> list[tuple[int, int]]:
    return [(int(inside), int(count)) for inside, _, count in (line.split() for line in text.splitlines())]


def _holds(extents: list[tuple[int, int]], first: int, count: int) -> bool:
    return any(start <= first and first + count <= start + length for start, length in extents)


def _has_capabilities(more: int) -> bool:
    """CAP_KILL (5), without which a worker of another uid could not be ended, CAP_SETGID (6), CAP_SETUID (7) and one
    `more` in the effective set."""
    wanted = 1 << 5 | 1 << 6 | 1 << 7 | 1 << more
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith("CapEff:"):
            return int(line.split()[1], 16) & wanted == wanted
    return False


class UidAllotment:
    """Hands out uids of a range, least recently freed last, so that a leftover of one template meets no other's."""

    def __init__(self, uids: UidRange | None) -> None:
        self._uids = uids
        self._next = 0
        self._taken: set[int] = set()

    @property
    def of_nobody(self) -> int | None:
        """A uid of the range that no process gets: it owns what outlives workers."""
        return None if self._uids is None else self._uids.first + self._uids.count - 1

    @property
    def range(self) -> UidRange | None:
        return self._uids

    def take(self) -> int | None:
        """A free uid, or None when workers keep the daemon's own."""
        if self._uids is None:
            return None
        for _ in range(self._uids.count):
            uid = self._uids.first + self._next % self._uids.count
            self._next += 1
            if uid not in self._taken and uid not in (65534, self.of_nobody):
                self._taken.add(uid)
                return uid
        raise OSError(0, f"all {self._uids.count} uids of the daemon's range are taken; close sessions")

    def give_back(self, uid: int | None) -> None:
        self._taken.discard(uid if uid is not None else -1)
