"""Directories that are watched: says when something in one of them may have changed.

The kernel's word (inotify, by way of watchfiles) is a reason to look, never the news itself: whoever is told looks at
the directory again and compares. So nothing depends on what kind of change it was, a rename over a file or a link that
leads elsewhere, and an event that was lost costs a second, after which it says "look" anyway.
"""

import asyncio
import contextlib
import logging
import os
from collections.abc import AsyncGenerator, Sequence
from pathlib import Path
from typing import Final

from watchfiles import awatch

_log = logging.getLogger(__name__)
LOOK_MS: Final = 1000  # at the latest; a few stat(2) calls
_STEP_MS: Final = 50  # changes that follow each other within this are one


async def changes(directories: Sequence[Path]) -> AsyncGenerator[None, None]:
    """Yields when to look again. A directory need not exist; it is waited for. Ends when it is closed, or cancelled."""
    told = False
    while directories:
        places = await asyncio.to_thread(_places, directories)
        try:
            watch = awatch(
                *{path for path, *_ in places},
                recursive=False,
                watch_filter=lambda _, path: _concerns(directories, path),
                debounce=4 * _STEP_MS,
                step=_STEP_MS,
                rust_timeout=LOOK_MS,
                yield_on_timeout=True,
            )
            async with contextlib.aclosing(watch) as news:
                async for _ in news:
                    yield
                    if await asyncio.to_thread(_places, directories) != places:
                        break  # one was made, removed or replaced: what is watched is the old one
            told = False
        except (OSError, RuntimeError, ExceptionGroup) as error:
            # Most often the host's limit on watches. One that vanished before it could be watched is met here as well,
            # and a name that is not UTF-8, which the library cannot tell of: a group, since it is raised within one.
            if not told:
                _log.warning("directories cannot be watched (%s): they are looked at every second", error)
            told = True
            await asyncio.sleep(LOOK_MS / 1000)
            yield


def _places(directories: Sequence[Path]) -> list[tuple[str, int, int]]:
    """What to watch, with its identity: each directory that exists, and the nearest one above it, where it would be
    made or replaced."""
    found: dict[str, tuple[int, int]] = {}
    for directory in directories:
        for place in (directory, *directory.parents):
            with contextlib.suppress(OSError):
                at = os.stat(place)
                found[str(place)] = (at.st_dev, at.st_ino)
                if place != directory:
                    break
    return [(path, *identity) for path, identity in sorted(found.items())]


def _concerns(directories: Sequence[Path], path: str) -> bool:
    """Whether a changed path lies in one of them, is one, or is on the way to one."""
    changed = Path(path)
    return any(changed == each or each in changed.parents or changed in each.parents for each in directories)
