"""The tool files of the configured directories, from what lies there to a generation of tools.

    candidates → read → describe (in a worker) → judge → names → generation

A file whose new text cannot be used keeps its tools of before; one that is gone, and stays so for a moment, takes its
tools with it. What came of a look is said in the log and in every session that is at hand.
"""

import asyncio
import logging
import math
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from stockade_daemon import watching
from stockade_daemon.errors import ConfigurationError, Refusal
from stockade_daemon.pipeline.describe import Describing
from stockade_daemon.registry import sources
from stockade_daemon.registry.generations import Change, Generations, Refused
from stockade_daemon.registry.sources import Candidate
from stockade_daemon.values import Json, Manifest

_log = logging.getLogger(__name__)
_SETTLE_S: Final = 0.1  # a file that still changes is being written
_LOOKS: Final = 20  # for it to settle
_GONE_LOOKS: Final = 5  # a file that is missing for fewer is being replaced, by who removes first and then writes
_AGAIN_S: Final = 30.0  # until what no worker could be had for is tried again

# Told of a new generation and of refusals: an event's type and body.
Announce = Callable[[str, Mapping[str, Json]], None]


@dataclass(slots=True)
class _Known:
    """What came of a file, or of an entry point."""

    stem: str
    order: tuple[int, str]  # of its directory in the configuration, and its name; entry points come first
    signature: tuple[object, ...] = ()
    good: tuple[Manifest, ...] = ()
    reason: str | None = None  # why its present text cannot be used
    again: float = field(default=math.inf)  # when to try it again all the same, on the loop's clock


class Toolbox:
    """Keeps the generations in step with the files."""

    def __init__(
        self,
        generations: Generations,
        describing: Describing,
        *,
        directories: Sequence[Path],
        packages: Sequence[str],
        announce: Announce,
    ) -> None:
        self._generations = generations
        self._describing = describing
        self._directories = directories
        self._packages = packages
        self._announce = announce
        self._known: dict[str, _Known] = {}  # by origin
        self._told: set[tuple[str, str]] = set()  # refusals that have been announced
        self._unlisted = ""  # the last look's error
        self._taking: dict[str, asyncio.Task[None]] = {}

    @asynccontextmanager
    async def kept(self, *, wait_s: float) -> AsyncIterator[None]:
        """Takes the tools and follows their files while the block runs.

        It begins when every file has been looked at, or after `wait_s` seconds: one that takes its time must not keep
        the daemon from serving.
        """
        async with asyncio.TaskGroup() as tasks:
            for name in self._packages:
                self._known[name] = _Known(name, (-1, name))
                self._taking[name] = tasks.create_task(self._take_package(name))
            await self._look(tasks, settle=False)
            if self._taking:
                await asyncio.wait(self._taking.values(), timeout=wait_s)
            following = [tasks.create_task(each) for each in (self._follow(tasks), self._retry_packages(tasks))]
            try:
                yield
            finally:
                for each in (*following, *self._taking.values()):
                    each.cancel()

    async def _follow(self, tasks: asyncio.TaskGroup) -> None:
        """Looks again whenever something may have changed, until it is cancelled."""
        async for _ in watching.changes(self._directories):
            await self._look(tasks)

    async def _retry_packages(self, tasks: asyncio.TaskGroup) -> None:
        """Takes entry points again that no worker could be had for, until every one of them has been judged. Of files
        the next look does that."""
        while any(name in self._taking or self._known[name].again < math.inf for name in self._packages):
            await asyncio.sleep(_AGAIN_S)
            for name in self._packages:
                if name not in self._taking and self._known[name].again < math.inf:
                    self._taking[name] = tasks.create_task(self._take_package(name))

    async def _look(self, tasks: asyncio.TaskGroup, *, settle: bool = True) -> None:
        """Begins to take what is new or has changed, each file by itself, and drops what is gone. Files that are being
        written or replaced are waited for, where `settle`."""
        try:
            found = await asyncio.to_thread(self._candidates)
            for number in range(_LOOKS if settle and (self._changed(found) or self._gone(found)) else 0):
                await asyncio.sleep(_SETTLE_S)
                before, found = found, await asyncio.to_thread(self._candidates)
                if found == before and (number + 1 >= _GONE_LOOKS or not self._gone(found)):
                    break
        except OSError as error:
            # What cannot be listed says nothing of its files: the tools stay, and the next look may see more.
            if str(error) != self._unlisted:
                _log.warning("tool files cannot be listed: %s; the tools stay as they are", error)
            self._unlisted = str(error)
            return
        self._unlisted = ""
        for origin in self._changed(found):
            if origin not in self._taking:  # or else the next look finds that it has changed
                self._taking[origin] = tasks.create_task(self._take(*found[origin]))
        gone = self._gone(found)
        for origin in gone:
            del self._known[origin]
        if gone:
            self._settle()

    def _candidates(self) -> dict[str, tuple[Candidate, Path]]:
        return {
            each.origin: (each, directory) for directory in self._directories for each in sources.candidates(directory)
        }

    def _changed(self, found: Mapping[str, tuple[Candidate, Path]]) -> list[str]:
        now = asyncio.get_running_loop().time()
        return [
            origin
            for origin, (candidate, _) in found.items()
            if (known := self._known.get(origin)) is None
            or known.signature != candidate.signature
            or known.again <= now
        ]

    def _gone(self, found: Mapping[str, tuple[Candidate, Path]]) -> list[str]:
        return [origin for origin in self._known if origin not in found and origin not in self._packages]

    async def _take(self, candidate: Candidate, directory: Path) -> None:
        """Reads and judges one file; what it was before stays where it cannot be used now."""
        order = (self._directories.index(directory), candidate.origin)
        known = self._known.setdefault(candidate.origin, _Known(candidate.stem, order))
        known.signature, known.again = candidate.signature, math.inf

        async def manifests() -> tuple[Manifest, ...]:
            text = await asyncio.to_thread(sources.read, candidate, directory)
            name = candidate.stem + candidate.suffix
            return await self._describing.file(
                text, origin=candidate.origin, name=name, built_in=self._generations.names()
            )

        await self._judged(candidate.origin, known, manifests())

    async def _take_package(self, name: str) -> None:
        async def manifests() -> tuple[Manifest, ...]:
            code = await asyncio.to_thread(sources.installed, name)
            return await self._describing.manifests(code, self._generations.names())

        self._known[name].again = math.inf
        await self._judged(name, self._known[name], manifests())

    async def _judged(self, origin: str, known: _Known, judging: Awaitable[tuple[Manifest, ...]]) -> None:
        """Notes what came of one file and makes a generation of it, without waiting for any other."""
        try:
            known.good = await judging
            known.reason = None
        except ConfigurationError as error:
            known.reason = str(error)
        except Refusal as error:
            # Not the file's fault: no worker was to be had.
            known.reason = f"{origin}:1: {error.message}"
            known.again = asyncio.get_running_loop().time() + _AGAIN_S
        except Exception as error:
            _log.exception("%s met a fault of the daemon", origin)
            known.reason = f"{origin}:1: the daemon failed at it ({type(error).__name__}); please report this"
        finally:
            del self._taking[origin]
        self._settle()

    def _settle(self) -> None:
        """Makes the generation of what is known, and tells what is new."""
        taken, refused = chosen(self._known)
        change = self._generations.succeed(taken, refused)
        if change:
            self._tell_change(change)
        now = {(each.origin, each.reason) for each in refused}
        for each in refused:
            if (each.origin, each.reason) not in self._told:
                stay = f" Its tools of before stay: {', '.join(each.kept)}." if each.kept else ""
                _log.warning("tools refused: %s.%s", each.reason, stay)
                self._announce("catalog/refused", {"reason": each.reason, "kept": list(each.kept)})
        self._told = now

    def _tell_change(self, change: Change) -> None:
        body = {"added": list(change.added), "changed": list(change.changed), "removed": list(change.removed)}
        words = "; ".join(f"{word} {', '.join(names)}" for word, names in body.items() if names)
        _log.info("tools, generation %d: %s", change.number, words)
        self._announce("catalog/changed", {"generation": change.number, **body})


def chosen(known: Mapping[str, _Known]) -> tuple[list[Manifest], list[Refused]]:
    """Which tools there are: of two files that name the same one, it is that of the longer file name, which names it
    more closely; of files of the same name in two directories it is that of the first directory."""
    taken: dict[str, Manifest] = {}
    refused: list[Refused] = []
    for origin, each in sorted(known.items(), key=lambda item: (-len(item[1].stem), item[1].order)):
        twice = [manifest for manifest in each.good if manifest.name in taken]
        if each.reason is not None:
            kept = () if twice else tuple(manifest.name for manifest in each.good)
            refused.append(Refused(origin, each.stem, each.reason, kept))
        if twice:
            other = taken[twice[0].name].origin
            reason = f"{twice[0].origin}: {twice[0].name} is a tool of {other}; rename one of the two"
            if each.reason is None:
                refused.append(Refused(origin, each.stem, reason, ()))
        else:
            taken.update({manifest.name: manifest for manifest in each.good})
    return list(taken.values()), sorted(refused, key=lambda each: known[each.origin].order)
