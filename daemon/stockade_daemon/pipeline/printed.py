"""What a call prints: two streams, the order in which they arrived, and what of it is in the result."""

import base64
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any, Final

from stockade_daemon.errors import Refusal, ToolFailure
from stockade_daemon.pipeline.arrival import Arrival
from stockade_daemon.pipeline.output import PARTS, Output, file_of, synced
from stockade_daemon.values import Json, Limits, Profile

ORDER: Final = "order"  # the ledger's output part that has the runs of the view of both
BOTH: Final = "both"  # the view of both streams, in the order in which their bytes arrived
PRINTED: Final = (*PARTS, BOTH)
_MB: Final = 1024 * 1024
_IN_VALUE: Final = 64 * 1024  # bytes of each stream
_FOR_MODEL: Final = 28 * 1024  # of each, so that both stay below the tool's cap and are cut in one place only


class Printed:
    """Written by the call's own task alone, read by any number."""

    def __init__(self, outputs: Path, session_id: str, call_id: str, limits: Limits, stop: Callable[[], None]) -> None:
        """outputs: a private directory; stop: ends the call, where the profile has it end at its cap."""
        self._outputs, self._session_id, self._call_id = outputs, session_id, call_id
        self._limits = limits
        self._stop = stop
        self._begin()

    def _begin(self) -> None:
        self.arrival = Arrival()
        self.stdout, self.stderr = (
            Output(
                file_of(self._outputs, self._session_id, self._call_id, part),
                cap=self._limits.output_mb * _MB,
                arrival=self.arrival,
                part=number,
            )
            for number, part in enumerate(PARTS)
        )
        for each in (self.stdout, self.stderr):
            each.on_past = self._past

    def narrow(self, limits: Limits) -> None:
        """Other limits, before anything was written; those that allow more change nothing."""
        self._limits = limits
        for each in (self.stdout, self.stderr):
            each.narrow(limits.output_mb * _MB)

    def again(self) -> None:
        """New streams in place of these, which are closed: for another attempt of the same call."""
        self.close()
        self._begin()

    def left(self) -> dict[str, Json]:
        """For a daemon that goes on with the call, as JSON: what of it lies in no file, and how much was dropped."""
        texts: dict[str, Json] = {part: base64.b64encode(data).decode() for part, data in self.small().items()}
        return {"small": texts, "dropped": {part: self.of(part).dropped for part in PARTS}}

    def restore(self, left: Mapping[str, Any]) -> None:
        """What the call had printed when a daemon before had `left`, to its end.

        Raises ValueError, KeyError or TypeError for what is no `left`'s.
        """
        small = {str(part): base64.b64decode(text, validate=True) for part, text in left["small"].items()}
        for part in PARTS:
            self.of(part).restore(small.get(part), int(left["dropped"][part]))
        self.arrival = Arrival.restored(small.get(ORDER), (self.stdout.size, self.stderr.size))

    def of(self, part: str) -> Output:
        """The stream of that name."""
        return self.stdout if part == "stdout" else self.stderr

    def size(self, part: str) -> int:
        """Bytes that can be read of a stream, or of both."""
        return self.arrival.size if part == BOTH else self.of(part).size

    async def more(self, part: str, offset: int) -> bool:
        """Waits until there is something at `offset`; False when there never will be."""
        return await (self.arrival if part == BOTH else self.of(part)).more(offset)

    async def read(self, part: str, offset: int, size: int) -> tuple[str, bytes]:
        """Up to `size` bytes from `offset`, all of one stream, and which; none at the present end."""
        if part != BOTH:
            return part, await self.of(part).read(offset, size)
        run = self.arrival.at(offset)
        if run is None:
            return "", b""
        stream = PARTS[run.part]
        return stream, await self.of(stream).read(run.offset, min(size, run.size))

    def close(self) -> None:
        """Closes the files; their bytes stay on the disk."""
        self.stdout.close()
        self.stderr.close()

    async def sync(self) -> None:
        """Has what is kept survive a power cut. Raises InfrastructureFailure."""
        await synced(self.stdout, self.stderr)

    def small(self) -> dict[str, bytes]:
        """What the ledger keeps: streams that never needed a file, and the order where it has to be told."""
        parts = {part: data for part in PARTS if (data := self.of(part).small)}
        runs = self.arrival.kept()
        return parts if runs is None else {**parts, ORDER: runs}

    def stopped(self, profile: Profile, after: str) -> Refusal | None:
        """OUTPUT_LIMIT where more was printed than the profile lets a call print; None elsewhere. `after`: what became
        of its effects."""
        past = [part for part in PARTS if self.of(part).dropped and not self.of(part).full]
        if not past or self._limits.output_past != "stop":
            return None
        return ToolFailure(
            "OUTPUT_LIMIT",
            f"it printed more than {self._limits.output_mb} MiB to {' and to '.join(past)} (limits.output_mb of "
            f'profile {profile.name}, which has limits.output_past = "stop") and was ended; {after}. '
            "Have it print less, or write to a file",
        )

    def _past(self) -> None:
        if self._limits.output_past == "stop":
            self._stop()

    async def value(self) -> dict[str, Json]:
        """The members of a command's value that tell of its output."""
        out, err = [await self._text(part, _IN_VALUE) for part in PARTS]
        return {
            "stdout": out[0],
            "stderr": err[0],
            "truncated": out[1] or err[1],
            **{f"{part}_bytes": self.of(part).size + self.of(part).dropped for part in PARTS},
            **{f"{part}_kept": self.of(part).size for part in PARTS},
        }

    async def blocks(self) -> list[str]:
        """The same for a model: a text of each stream that is not empty."""
        (out, _), (err, _) = [await self._text(part, _FOR_MODEL) for part in PARTS]
        return [text for text in (out, f"[stderr]\n{err}" if err else "") if text]

    async def _text(self, part: str, most: int) -> tuple[str, bool]:
        """Head and tail as text, with what is left out between them; and whether anything is.

        Bytes that are not UTF-8 become U+FFFD; the raw ones stay readable by offset.
        """
        output = self.of(part)
        found = await output.excerpt(most)
        head, tail = (data.decode("utf-8", "replace") for data in (found.head, found.tail))
        if not found.left_out:
            return (found.head + found.tail).decode("utf-8", "replace"), False
        return f"{head}\n[{''.join(self._gap(part, output, found.left_out, len(found.head)))}]\n{tail}", True

    def _gap(self, part: str, output: Output, left_out: int, begin: int) -> Iterator[str]:
        yield f"{left_out} bytes left out"
        if output.dropped:
            why = "the disk took no more" if output.full else "limits.output_mb"
            yield f": {part} has {output.size + output.dropped}, the first {output.size} were kept ({why})"
        if output.size > begin:
            option = "" if part == "stdout" else f" --part {part}"
            yield f"; `stockade output {self._call_id}{option} --offset {begin}` reads on from here"
