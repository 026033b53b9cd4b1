"""What a call prints: two streams, the order in which they arrived, and what of it is in the result."""

import logging
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Final

from stockade_daemon.errors import InfrastructureFailure, Refusal, ToolFailure
from stockade_daemon.pipeline.arrival import STREAMS, Arrival
from stockade_daemon.pipeline.kept_bytes import FILES, ORDER, KeptBytes, file_of
from stockade_daemon.pipeline.output import Excerpt, Output
from stockade_daemon.values import Json, Limits, Profile

_log = logging.getLogger(__name__)
BOTH: Final = "both"  # the view of both streams, in the order in which their bytes arrived
PRINTED: Final = (*STREAMS, BOTH)
_MB: Final = 1024 * 1024
_IN_VALUE: Final = 64 * 1024  # bytes of each stream
_FOR_MODEL: Final = 28 * 1024  # of each, so that both stay below the tool's cap and are cut in one place only


class Printed:
    """Written by the call's own task alone, read by any number. What stands at an offset never changes."""

    def __init__(
        self,
        outputs: Path,
        session_id: str,
        call_id: str,
        limits: Limits,
        stop: Callable[[], None],
        *,
        is_job: bool = False,
    ) -> None:
        """outputs: a private directory; stop: ends the call, where the profile has it end at its cap."""
        self._call_id = call_id
        self._limits = limits
        self._stop = stop
        self._is_job = is_job
        out, err, order = (file_of(outputs, session_id, call_id, part) for part in FILES)
        self.arrival = Arrival()
        self._bytes = KeptBytes((out, err, order), self.arrival)
        self.stdout, self.stderr = (
            Output(self._bytes, self.arrival, number, cap=limits.output_mb * _MB) for number in range(len(STREAMS))
        )
        for each in (self.stdout, self.stderr):
            each.on_past = self._past

    def narrow(self, limits: Limits) -> None:
        """Other limits, before anything was written; those that allow more change nothing."""
        self._limits = limits
        for each in (self.stdout, self.stderr):
            each.narrow(limits.output_mb * _MB)

    def again(self) -> None:
        """Another attempt of the same call begins: what it prints stands behind what those before have printed, and
        the value has the last one's."""
        for each in (self.stdout, self.stderr, self.arrival):
            each.again()

    async def outlive(self) -> None:
        """Has the next daemon find what was printed, while the call waits for somebody's answer."""
        if not self.stdout.size and not self.stderr.size:
            return
        try:
            async with self.arrival.turn:
                await self._bytes.to_files()
        except OSError as error:
            # A full disk costs the output, not the call.
            _log.warning("the output of call %s is lost when the daemon ends: %s", self._call_id, error)

    def go_on(self) -> None:
        """Has what an earlier daemon kept of this call, which has ended but for an answer. Raises OSError."""
        for each, size in zip((self.stdout, self.stderr), self._bytes.reopen(), strict=True):
            each.went_on(size)

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
        stream = STREAMS[run.part]
        return stream, await self.of(stream).read(run.offset, min(size, run.size))

    def close(self) -> None:
        """Closes the files; their bytes stay on the disk."""
        for each in (self.stdout, self.stderr, self.arrival):
            each.close()
        self._bytes.close()

    async def sync(self) -> None:
        """Has what is in files survive a power cut. Raises InfrastructureFailure."""
        try:
            await self._bytes.sync()
        except OSError as error:
            raise InfrastructureFailure(
                "FS_IO_ERROR", f"the output of the call cannot be synced to the disk: {error.strerror}"
            ) from error

    def small(self) -> dict[str, bytes]:
        """What the ledger keeps: streams that never needed a file, and the order where it has to be told."""
        if self._bytes.in_files:
            return {}
        parts = {part: self._bytes.small(number) for number, part in enumerate(STREAMS)}
        runs = self.arrival.kept()
        return parts if runs is None else {**parts, ORDER: runs}

    def stopped(self, profile: Profile, after: str) -> Refusal | None:
        """OUTPUT_LIMIT where more was printed than the profile lets a call print; None elsewhere. `after`: what became
        of its effects."""
        past = [part for part in STREAMS if self.of(part).dropped and not self.of(part).full]
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
        out, err = [await self._text(part, _IN_VALUE) for part in STREAMS]
        return {
            "stdout": out[0],
            "stderr": err[0],
            "truncated": out[1] or err[1],
            **{f"{part}_bytes": self.of(part).total for part in STREAMS},
            **{f"{part}_kept": self.of(part).kept for part in STREAMS},
        }

    async def blocks(self, remedy: str) -> list[str]:
        """The same for a model: a text of each stream that is not empty. remedy: how what is left out can be seen."""
        out, err = [(await self._text(part, _FOR_MODEL, remedy))[0] for part in STREAMS]
        return [text for text in (out, f"[stderr]\n{err}" if err else "") if text]

    def cut(self) -> list[str]:
        """A text for each stream of which not all was kept, where nothing else tells of it."""
        return [
            f"[{part} was cut: {each.total} bytes were printed, the first {each.kept} kept ({self._why(each)})]"
            for part in STREAMS
            if (each := self.of(part)).dropped
        ]

    def _why(self, output: Output) -> str:
        return "the disk took no more" if output.full else "limits.output_mb"

    async def _text(self, part: str, most: int, remedy: str = "") -> tuple[str, bool]:
        """Head and tail as text, with what is left out between them; and whether anything is.

        Bytes that are not UTF-8 become U+FFFD; the raw ones stay readable by offset.
        """
        output = self.of(part)
        found = await output.excerpt(most)
        head, tail = (data.decode("utf-8", "replace") for data in (found.head, found.tail))
        if not found.left_out:
            return (found.head + found.tail).decode("utf-8", "replace"), False
        gap = "; ".join(self._gap(part, output, found, remedy))
        return f"{head}\n[{gap}]\n{tail}", True

    def _gap(self, part: str, output: Output, found: Excerpt, remedy: str) -> Iterator[str]:
        if output.dropped:
            kept = f"the first {output.kept} were kept ({self._why(output)})"
            yield f"{found.left_out} bytes left out: {part} has {output.total}, {kept}"
        else:
            yield f"{found.left_out} bytes left out"
        offset = output.begin + len(found.head)
        there = output.size > offset
        if not remedy and there:
            option = "" if part == "stdout" else f" --part {part}"
            yield f"`stockade output {self._call_id}{option} --offset {offset}` reads on from here"
        elif remedy and self._is_job and there:
            yield f'the tool `job` reads on from here: action "read", stream "{part}", offset {offset}'
        elif remedy:
            yield remedy
