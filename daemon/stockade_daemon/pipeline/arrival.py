"""In which order the bytes of two streams arrived: a view of both, in which every byte that is kept stands once.

The view is runs: bytes of stdout, then of stderr, then of stdout, and so on. Of two pipes nobody can tell in which
order they were written to between two looks; what is told is the order in which the daemon read them. A body that
changes between its streams often makes many runs. The first EXACT of them are exact; after that a run is added only
when at least COARSE bytes, and a thousandth of the view, have come for it, so that the order of gigabytes fits into a
megabyte.
"""

import asyncio
import bisect
from array import array
from dataclasses import dataclass
from typing import Final

EXACT: Final = 32_768  # runs
COARSE: Final = 4096  # bytes
_SHARE: Final = 1024
STREAMS: Final = ("stdout", "stderr")


@dataclass(frozen=True, slots=True)
class Run:
    """Bytes of one stream that stand together in the view, from the offset that was asked for."""

    part: int  # index in STREAMS
    offset: int  # in that stream
    size: int


class Arrival:
    """The order of one call's output. Written by one task for each stream, read by any number."""

    def __init__(self) -> None:
        self.turn = asyncio.Lock()  # held while bytes are kept: they are kept in the order in which they were read
        self._ends = array("Q")  # of each run, in the view; even ones are stdout's, odd ones stderr's
        self._starts = array("Q")  # of each run, in its own stream
        self._told = [0, 0]  # bytes of each stream that are in the view
        self._held = [0, 0]  # bytes that are kept, and wait for more of their like to be in it
        self._streams = len(STREAMS)  # that may still grow
        self._changed = asyncio.Event()

    @staticmethod
    def restored(runs: bytes | None, sizes: tuple[int, int]) -> "Arrival":
        """That of a settled call: `runs` as `kept` gave them, or None where one stream came after the other.

        `sizes` are those of what is kept of each. They count where they differ from the order, which a daemon that was
        killed did not keep.
        """
        view = Arrival()
        if runs is not None:
            ends = array("Q")
            ends.frombytes(runs[: len(runs) - len(runs) % ends.itemsize])
            before = 0
            for number, end in enumerate(ends):
                view._add(number % 2, min(end - before, sizes[number % 2] - view._told[number % 2]))
                before = end
        for part, size in enumerate(sizes):
            view._add(part, size - view._told[part])
        view._streams = 0
        return view

    @property
    def size(self) -> int:
        """Bytes in the view."""
        return self._ends[-1] if self._ends else 0

    @property
    def closed(self) -> bool:
        """Whether no more will come."""
        return self._streams <= 0

    def kept(self) -> bytes | None:
        """The runs, for `restored`; None where one stream came after the other, which needs no telling."""
        return self._ends.tobytes() if len(self._ends) > len(STREAMS) else None

    def add(self, part: int, count: int) -> None:
        """So many more bytes of a stream are kept."""
        if not any(self._held) and (len(self._ends) < EXACT or (len(self._ends) - 1) % 2 == part):
            self._add(part, count)
        else:
            self._held[part] += count
            if sum(self._held) < max(COARSE, self.size // _SHARE):
                return
            self._let_go()
        self._wake()

    def end(self) -> None:
        """One of the streams has ended."""
        self._streams -= 1
        if self.closed:
            self._let_go()
        self._wake()

    def at(self, offset: int) -> Run | None:
        """The bytes at an offset of the view, up to where the other stream goes on; None at its present end."""
        number = bisect.bisect_right(self._ends, offset)
        if number == len(self._ends):
            return None
        before = self._ends[number - 1] if number else 0
        return Run(number % 2, self._starts[number] + offset - before, self._ends[number] - offset)

    async def more(self, offset: int) -> bool:
        """Waits until there is something at `offset`; False when there never will be."""
        while self.size <= offset and not self.closed:
            await self._changed.wait()
        return self.size > offset

    def _let_go(self) -> None:
        last = (len(self._ends) - 1) % 2
        for part in (last, 1 - last):
            self._add(part, self._held[part])
            self._held[part] = 0

    def _add(self, part: int, count: int) -> None:
        if count <= 0:
            return
        while not self._ends or (len(self._ends) - 1) % 2 != part:
            self._ends.append(self.size)
            self._starts.append(self._told[(len(self._ends) - 1) % 2])
        self._ends[-1] += count
        self._told[part] += count

    def _wake(self) -> None:
        changed, self._changed = self._changed, asyncio.Event()
        changed.set()
