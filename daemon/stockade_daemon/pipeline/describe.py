"""Asking a tool file what it declares. Only importing it can tell, so a worker does that, which lives for this alone.

The worker has the access `none` and small limits. What it sends is one frame, bounded before it is read, and judged by
registry/custom.py; what it prints is dropped.
"""

import asyncio
from dataclasses import replace
from typing import Any, Final

from stockade_daemon.errors import ConfigurationError
from stockade_daemon.pipeline.output import Output, Pump
from stockade_daemon.registry import custom, programs
from stockade_daemon.registry import sources as sources_of
from stockade_daemon.sandbox.channel import ChannelClosed
from stockade_daemon.sandbox.pool import Pool
from stockade_daemon.sandbox.worker import Worker
from stockade_daemon.values import Access, Code, Limits, Manifest, Profile
from stockade_worker.frames import BrokenFrame, Frame

IMPORT_S: Final = 10.0  # a file that takes longer to import would be of little use as a tool
LIMITS: Final = Limits(
    wall_s=IMPORT_S, cpu_s=5, memory_mb=256, processes=16, open_files=64, file_mb=8, tmp_mb=16, tmp_inodes=256,
    output_mb=1, output_past="truncate", cpus=1.0, jobs=0, job_s=IMPORT_S,
)  # fmt: skip
_ROOM: Final = "tools:describe"  # no session's id has a colon
_AT_ONCE: Final = 2  # workers of a few, so that a directory full of slow files leaves the host to its calls
_SHORT_S: Final = 1.0  # of a first attempt; a file that takes longer waits for another one, behind its like
_LAST_WORDS_S: Final = 5.0  # to report how it ended; waited for only where it has hung up


class _TooSlow(ConfigurationError):
    """An attempt's time was up."""


class Describing:
    """Turns sources into manifests. The same sources are asked once."""

    def __init__(self, pool: Pool, strict: Profile) -> None:
        """`strict`: the shipped profile of that name; its limits are made smaller."""
        self._pool = pool
        self._profile = replace(strict, name="tool files", limits=LIMITS)
        self._turns = asyncio.Semaphore(_AT_ONCE)
        self._slow = asyncio.Semaphore(1)

    async def file(self, text: bytes, *, origin: str, name: str, built_in: tuple[str, ...]) -> tuple[Manifest, ...]:
        """What a tool file declares; `name` is its own, which says what it is. Raises as `manifests` does."""
        stem, _, suffix = name.rpartition(".")
        if suffix == "py":
            return await self.manifests(sources_of.single(text, origin=origin, stem=stem), built_in)
        try:
            return (await asyncio.to_thread(programs.read, text, origin=origin, stem=stem, built_in=built_in),)
        except ConfigurationError as error:
            raise ConfigurationError(custom.one_line(str(error))) from error

    async def manifests(self, code: Code, built_in: tuple[str, ...]) -> tuple[Manifest, ...]:
        """What `code` declares, judged.

        Raises ConfigurationError `ORIGIN:LINE: …` where it cannot be used, Refusal where there is no worker.
        """
        try:
            return custom.judge(await self._answer(code), code, built_in)
        except ConfigurationError as error:
            raise ConfigurationError(custom.one_line(str(error))) from error

    async def _answer(self, code: Code) -> bytes:
        """What the import answers. Files that never end keep none from being listed but each other."""
        try:
            return await self._attempt(code, self._turns, _SHORT_S)
        except _TooSlow:
            pass
        try:
            return await self._attempt(code, self._slow, IMPORT_S)
        except _TooSlow:
            raise ConfigurationError(
                f"{code.origin}:1: importing it took longer than {IMPORT_S:g} s and was ended; do the work in the "
                "function, not beside it"
            ) from None

    async def _attempt(self, code: Code, turns: asyncio.Semaphore, seconds: float) -> bytes:
        answer: bytes | ConfigurationError
        async with turns:
            self._pool.open_room(_ROOM, self._profile, None)
            async with self._pool.worker(_ROOM, Access.NONE) as worker, asyncio.TaskGroup() as pumps:
                for descriptor in (worker.stdout, worker.stderr):
                    # Drained, or a file that prints a lot while it is imported would wait forever; kept is nothing.
                    pumps.create_task(Pump(descriptor, Output.nowhere()).run())
                try:
                    answer = await self._ask(worker, code, seconds)
                except ConfigurationError as error:
                    answer = error  # raised below: within the group of tasks it would come out as a group
                finally:
                    worker.kill()
        if isinstance(answer, ConfigurationError):
            raise answer
        return answer

    async def _ask(self, worker: Worker, code: Code, seconds: float) -> bytes:
        header, blob = sources(code)
        try:
            async with asyncio.timeout(seconds):
                await worker.requests.send({"type": "describe", **header}, blob)
                frame = await worker.requests.receive()
        except TimeoutError:
            raise _TooSlow(code.origin) from None
        except ChannelClosed:
            raise ConfigurationError(f"{code.origin}:1: importing it {await self._end(worker)}") from None
        except BrokenFrame as error:
            raise ConfigurationError(
                f"{code.origin}:1: importing it sent something that is no answer ({error}); take out what writes "
                "to other descriptors than 0 to 2"
            ) from None
        if frame.type == "manifests":
            return frame.blob
        raise ConfigurationError(_fault(frame, code))

    async def _end(self, worker: Worker) -> str:
        """How a process ended that gave no answer."""
        ended = await worker.last_words(_LAST_WORDS_S)
        reached = worker.account(ended).reached(LIMITS)
        if reached is not None:
            return f"reached its limit of {reached}; do the work in the function, not beside it"
        if ended is not None and ended.signal is not None:
            return f"ended its process by signal {ended.signal}; take out what does that"
        if ended is not None:
            return f"ended its process with status {ended.exit_code}; a tool file must not leave by itself"
        return "ended its process; take out what does that"


def sources(code: Code) -> tuple[dict[str, Any], bytes]:
    """Sources as a job carries them: a part of its header, and the beginning of its blob."""
    modules = [[each.name, each.package, len(each.text)] for each in code.modules]
    return {"entry": code.entry, "modules": modules}, b"".join(each.text for each in code.modules)


def _fault(frame: Frame, code: Code) -> str:
    """The worker's complaint about a file; its text is anybody's."""
    line, message = frame.header.get("line"), frame.header.get("message")
    entry = next(each for each in code.modules if each.name == code.entry)
    if frame.type != "faulty" or not isinstance(message, str):
        return (
            f"{code.origin}:1: importing it sent a frame that is no answer; take out what writes to other descriptors "
            "than 0 to 2"
        )
    return f"{code.origin}:{custom.line_within(line, entry.text)}: {message}"
