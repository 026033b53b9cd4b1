"""What a daemon holds, as the kernel counts it, and whether it grows from call to call."""

import os
import re
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass
from pathlib import Path

from stockade_daemon.sandbox.cgroup_layout import layout

# Bytes of memory for each call, as the slope of a straight line through all looks. A call that is never let go of (its
# record, arguments, buffers) was measured at 9 KiB. Where nothing leaks, the slope was 163 over 5,000 calls, 179 over
# 4,000, 290 over 1,500, each after 1,000 calls: what the allocator takes in the end for good. After 300 it was 570.
MOST_PER_CALL = 512
# Over fewer calls the slope is the allocator's: memory is then not judged.
SHORTEST = 1500
# grpc starts threads when it is busy and ends them later.
_THREADS_TO_AND_FRO = 8


@dataclass(frozen=True, slots=True)
class Figures:
    """One look at a daemon that has nothing to do, after `calls` calls."""

    calls: int
    descriptors: int  # of the daemon
    inner_descriptors: int  # of the processes below it together
    processes: int  # below it
    mounts: int  # in the mounter's namespace
    groups: int  # control groups below the daemon's own
    scratch: int  # entries of the directory for private views
    threads: int  # of the daemon
    rss: int  # bytes, of the daemon
    memory: int  # bytes of the daemon's own: its proportional share of anonymous memory (proc_pid_smaps(5), Pss_Anon)
    mounter: int  # bytes, the same of the mounter
    state: int  # bytes of the ledger and of outputs kept on disk: they grow, as they should


# None of these may be higher at the end than after the warm-up.
CONSTANT = ("descriptors", "inner_descriptors", "processes", "mounts", "groups", "scratch")
# These may not grow by more than MOST_PER_CALL.
BOUNDED = ("memory", "mounter")


def look(pid: int, state: Path, calls: int) -> Figures:
    """What the daemon `pid` holds at this moment. Raises OSError where it or its mounter has ended."""
    below = list(_below(pid))
    mounter = next(_children(pid))
    own = _memory(pid)
    return Figures(
        calls=calls,
        descriptors=len(os.listdir(f"/proc/{pid}/fd")),
        inner_descriptors=sum(_descriptors(each) for each in below),
        processes=len(below),
        mounts=len(Path(f"/proc/{mounter}/mountinfo").read_bytes().splitlines()),
        groups=_groups(pid),
        scratch=len(os.listdir(state / "scratch")),
        threads=len(os.listdir(f"/proc/{pid}/task")),
        rss=own["Rss"],
        memory=own["Pss_Anon"],
        mounter=_memory(mounter)["Pss_Anon"],
        state=sum(_sizes(state)) + sum(_sizes(state / "outputs")),
    )


def above(figures: Figures, base: Figures) -> list[str]:
    """What is higher than it was and should be constant."""
    return [
        f"{name} grew from {getattr(base, name)} to {getattr(figures, name)}"
        for name in CONSTANT
        if getattr(figures, name) > getattr(base, name)
    ]


def differ(one: Figures, other: Figures) -> bool:
    return any(getattr(one, name) != getattr(other, name) for name in CONSTANT)


def grown(looks: Sequence[Figures]) -> list[str]:
    """What grows over these looks, the first of which is after the warm-up; empty where nothing does. Of memory it says
    something where they are SHORTEST calls apart."""
    base, last = looks[0], looks[-1]
    found = above(last, base)
    if last.threads > base.threads + _THREADS_TO_AND_FRO:
        found.append(f"threads grew from {base.threads} to {last.threads}")
    for name in BOUNDED if last.calls - base.calls >= SHORTEST else ():
        rate = slope([(each.calls, getattr(each, name)) for each in looks])
        if rate > MOST_PER_CALL:
            found.append(f"{name} grows by {rate:.0f} bytes a call, more than {MOST_PER_CALL}")
    return found


def slope(points: Sequence[tuple[float, float]]) -> float:
    """The rise of the straight line that is nearest to the points (least squares)."""
    middle_x = sum(x for x, _ in points) / len(points)
    middle_y = sum(y for _, y in points) / len(points)
    across = sum((x - middle_x) ** 2 for x, _ in points)
    return sum((x - middle_x) * (y - middle_y) for x, y in points) / across if across else 0.0


def line(figures: Figures) -> str:
    """For a person who watches."""
    sizes = {"rss", "memory", "mounter", "state"}
    return "  ".join(
        f"{name} {value / 2**20:.1f}M" if name in sizes else f"{name} {value}"
        for name, value in asdict(figures).items()
    )


def _children(pid: int) -> Iterator[int]:
    """Oldest first (proc_pid_task(5), children)."""
    for task in sorted(os.listdir(f"/proc/{pid}/task"), key=int):
        try:
            yield from map(int, Path(f"/proc/{pid}/task/{task}/children").read_text().split())
        except OSError:
            continue  # the thread has ended


def _below(pid: int) -> Iterator[int]:
    try:
        for child in _children(pid):
            yield child
            yield from _below(child)
    except OSError:
        return


def _descriptors(pid: int) -> int:
    try:
        return len(os.listdir(f"/proc/{pid}/fd"))
    except OSError:
        return 0  # it has ended, or (as an ordinary user) cannot be looked into


def _memory(pid: int) -> dict[str, int]:
    """Sums over all mappings, bytes."""
    text = Path(f"/proc/{pid}/smaps_rollup").read_text()
    return {name: int(kib) * 1024 for name, kib in re.findall(r"^(\w+): +(\d+) kB$", text, re.MULTILINE)}


def _sizes(directory: Path) -> Iterator[int]:
    with os.scandir(directory) as entries:
        for entry in entries:
            with suppress(FileNotFoundError):  # removed meanwhile
                if entry.is_file(follow_symlinks=False):
                    yield entry.stat(follow_symlinks=False).st_size


def _groups(pid: int) -> int:
    found = layout(Path(f"/proc/{pid}/cgroup").read_text(), Path(f"/proc/{pid}/mountinfo").read_text())
    places = {place for own in found.own.values() for place in (own, own.parent)} if found else set()
    return sum(each.is_dir() for place in places for base in place.glob(f"stockade-{pid}-*") for each in base.iterdir())
