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
        self._streams = len(STREAMS)  # that may still grow in this attempt
        self.closed = False  # no more will come
        self._changed = asyncio.Event()

    @staticmethod
    def restored(runs: bytes | None, sizes: tuple[int, int]) -> "Arrival":
        """That of a settled call: `runs` as `kept` or `ends` gave them, or None where one stream came after the other.
        `sizes` are those of what is kept of each."""
        view = Arrival()
        view.restore(runs, sizes)
        view.close()
        return view

    def restore(self, runs: bytes | None, sizes: tuple[int, int]) -> None:
        """Has the order that another one had when both streams had ended; nothing was added to this one.

        The last run goes on to its stream's end, and the rest of the other one follows: so much need not be kept. Where
        bytes of a run are not there (a daemon was killed, power was cut) the view ends: further on nothing would stand
        where it stood.
        """
        self._streams = 0
        ends = array("Q", runs or b"")
        before = 0
        for number, end in enumerate(ends):
            part, wanted = number % 2, end - before
            there = min(wanted, sizes[part] - self._told[part])
            self._add(part, there)
            if there < wanted:
                return
            before = end
        last = max(0, len(ends) - 1) % 2
        for part in (last, 1 - last):
            self._add(part, sizes[part] - self._told[part])

    @property
    def size(self) -> int:
        """Bytes in the view."""
        return self._ends[-1] if self._ends else 0

    def kept(self) -> bytes | None:
        """The runs, for `restored`; None where one stream came after the other, which needs no telling."""
        return self._ends.tobytes() if len(self._ends) > len(STREAMS) else None

    def ends(self, begin: int, part: int, count: int) -> "array[int]":
        """The ends of the runs from number `begin` on that there are when so many more bytes of a stream are kept:
        offsets in the view."""
        ends, number = self._ends[begin:], len(self._ends)
        size = self.size
        for each, many in self._moves(part, count):
            if many:
                while not number or (number - 1) % 2 != each:
                    ends.append(size)
                    number += 1
                size += many
                ends[-1] = size
        return ends

    def add(self, part: int, count: int) -> None:
        """So many more bytes of a stream are kept."""
        moves = self._moves(part, count)
        self._held[part] += count
        for each, many in moves:
            self._held[each] -= many
            self._add(each, many)
        if moves:
            self._wake()

    def _moves(self, part: int, count: int) -> list[tuple[int, int]]:
        """What comes into the view when so many more bytes of a stream are kept: of which stream, how many."""
        last = (len(self._ends) - 1) % 2
        if not any(self._held) and (len(self._ends) < EXACT or last == part):
            return [(part, count)]
        held = list(self._held)
        held[part] += count
        if sum(held) < max(COARSE, self.size // _SHARE):
            return []
        return [(last, held[last]), (1 - last, held[1 - last])]

    def end(self) -> None:
        """One of the streams has ended, for this attempt."""
        self._streams -= 1
        if not self._streams:
            last = (len(self._ends) - 1) % 2
            for each in (last, 1 - last):
                self._add(each, self._held[each])
                self._held[each] = 0
            self._wake()

    def again(self) -> None:
        """Another attempt begins, with both streams."""
        self._streams = len(STREAMS)

    def close(self) -> None:
        """No more will come."""
        self.closed = True
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
