"""What a worker's process tree uses, read from /proc: where there are no control groups, and for the bytes moved.

A look is one walk over the tree from its init down. Processor time and bytes add up without gaps however fast processes
come and go, because a process that has been waited for is counted in its parent (proc_pid_stat(5), cutime; the same
holds for proc_pid_io(5)). Memory is what cannot be read again from a file, and proportional: a page that several
processes share counts once. A peak between two looks is seen as far as the process that had it is still there (VmHWM).
"""

import asyncio
import os
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

INTERVAL_S: Final = 0.05
_TICKS: Final = os.sysconf("SC_CLK_TCK")
_MOST: Final = 5000  # processes looked at


@dataclass(frozen=True, slots=True)
class Look:
    """One look at a tree; zero is also "could not be read"."""

    cpu_s: float = 0.0
    memory_bytes: int = 0  # of all processes together, now
    peak_bytes: int = 0  # at least this much was in use together at one time
    read_bytes: int = 0  # from storage
    written_bytes: int = 0  # to storage


def look(pid: int) -> Look:
    """Walks the tree below `pid`, a worker's init. What ends meanwhile is left out."""
    ticks = memory = largest = read = written = 0
    for each in _tree(pid):
        ticks += _ticks(each)
        now, peak = _memory(each) if each != pid else (0, 0)  # init is ours
        memory += now
        largest = max(largest, peak)
        moved = _moved(each)
        read += moved[0]
        written += moved[1]
    return Look(ticks / _TICKS, memory, max(memory, largest), read, written)


class Sampled:
    """The looks at one worker, put together. Changed on the event loop alone."""

    def __init__(self, pid: int) -> None:
        self.pid = pid
        self.looks = 0
        self.last = Look()
        self.peak_bytes = 0

    async def look(self) -> Look:
        """Looks once more, in a thread: a tree may be large."""
        found = await asyncio.to_thread(look, self.pid)
        if found.cpu_s or found.memory_bytes:  # else it is gone
            self.looks += 1
            self.last = Look(
                max(self.last.cpu_s, found.cpu_s),
                found.memory_bytes,
                found.peak_bytes,
                max(self.last.read_bytes, found.read_bytes),
                max(self.last.written_bytes, found.written_bytes),
            )
            self.peak_bytes = max(self.peak_bytes, found.peak_bytes)
        return found

    async def until_over(self, limit_bytes: int) -> None:
        """Looks again and again; returns when the tree uses more memory than that."""
        loop = asyncio.get_running_loop()
        while True:
            began = loop.time()
            if (await self.look()).memory_bytes > limit_bytes:
                return
            # A tree that takes long to look at is looked at less often, so that looking stays cheap.
            await asyncio.sleep(max(INTERVAL_S, 4 * (loop.time() - began)))


def _tree(pid: int) -> Iterator[int]:
    waiting = [pid]
    seen = 0
    while waiting and seen < _MOST:
        each = waiting.pop()
        seen += 1
        yield each
        try:
            threads = os.listdir(f"/proc/{each}/task")
        except OSError:
            continue
        for thread in threads:
            waiting += (int(child) for child in _text(f"/proc/{each}/task/{thread}/children").split())


def _text(path: str) -> str:
    try:
        with open(path, encoding="ascii", errors="replace") as file:
            return file.read()
    except OSError:
        return ""


def _ticks(pid: int) -> int:
    fields = _text(f"/proc/{pid}/stat").rpartition(")")[2].split()
    return sum(int(field) for field in fields[11:15])


def _memory(pid: int) -> tuple[int, int]:
    """Bytes now, and at this process's own peak."""
    status = _numbers(f"/proc/{pid}/status")
    shares = _numbers(f"/proc/{pid}/smaps_rollup")
    if "Pss_Anon" in shares:
        now = shares["Pss_Anon"] + shares.get("Pss_Shmem", 0)
    else:  # not readable everywhere; then pages that are shared count for each
        now = status.get("RssAnon", 0) + status.get("RssShmem", 0)
    return now * 1024, (now + max(0, status.get("VmHWM", 0) - status.get("VmRSS", 0))) * 1024


def _moved(pid: int) -> tuple[int, int]:
    numbers = _numbers(f"/proc/{pid}/io")
    return numbers.get("read_bytes", 0), numbers.get("write_bytes", 0)


def _numbers(path: str) -> dict[str, int]:
    """Lines "key: number …"."""
    found = {}
    for line in _text(path).splitlines():
        key, colon, rest = line.partition(":")
        words = rest.split()
        if colon and words and words[0].isdecimal():
            found[key] = int(words[0])
    return found
