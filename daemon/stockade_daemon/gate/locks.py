"""Locks by key, shared by every session of the process, and gone when nobody holds or awaits them.

They keep two commits to one file apart, from the last look at its bytes to their replacement. Keys are taken in sorted
order, so holders of several cannot wait for each other. asyncio's locks: for one event loop.
"""

import asyncio
import os
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field
from typing import TypeAlias

from stockade_daemon.gate import repositories
from stockade_daemon.gate.workspace import Workspace

Key: TypeAlias = tuple[str, str]  # a kind, and what it is of


def of_path(workspace: Workspace, real: bytes) -> Key:
    """Of one file. The absolute path, so that sessions on a directory and on one within it share the lock."""
    return "path", os.path.join(workspace.place, os.fsdecode(real))


def of_change(workspace: Workspace, real: bytes) -> list[Key]:
    """What is held while a file changes: its own, and those of repositories that the change may make."""
    made = [os.path.join(workspace.place, os.fsdecode(each)) for each in repositories.shared(real)]
    return [of_path(workspace, real), *(("repository", each) for each in made)]


@dataclass(slots=True)
class _Entry:
    lock: asyncio.Lock = field(default_factory=asyncio.Lock)
    users: int = 0  # holders and waiters


_entries: dict[Key, _Entry] = {}


@asynccontextmanager
async def held(*keys: Key) -> AsyncIterator[None]:
    """Holds the locks of all `keys`."""
    async with AsyncExitStack() as stack:
        for key in sorted(set(keys)):
            await stack.enter_async_context(_one(key))
        yield


def is_held(key: Key) -> bool:
    """Whether somebody holds this lock now."""
    entry = _entries.get(key)
    return entry is not None and entry.lock.locked()


@asynccontextmanager
async def _one(key: Key) -> AsyncIterator[None]:
    entry = _entries.setdefault(key, _Entry())
    entry.users += 1
    try:
        async with entry.lock:
            yield
    finally:
        entry.users -= 1
        if not entry.users:
            del _entries[key]
