"""Locks on whole workspaces: a change of one file shares its workspace with others like it; a transaction has its own
to itself, and with it all that lie within it or around it.

In order of arrival, so that a transaction gets its turn. asyncio's futures: for one event loop at a time.
"""

import asyncio
import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field


@dataclass(slots=True, eq=False)
class _Turn:
    path: str
    alone: bool
    turn: "asyncio.Future[None]" = field(default_factory=lambda: asyncio.get_running_loop().create_future())


_turns: list[_Turn] = []


@asynccontextmanager
async def shared(path: str) -> AsyncIterator[None]:
    """Holds the workspace at `path` together with others that share it."""
    async with _held(_Turn(path, alone=False)):
        yield


@asynccontextmanager
async def alone(path: str) -> AsyncIterator[None]:
    """Holds the workspace at `path`, and any that overlaps it, alone."""
    async with _held(_Turn(path, alone=True)):
        yield


def is_held_alone(path: str) -> bool:
    """Whether a transaction is under way there now."""
    return any(each.alone and each.turn.done() and _overlap(each.path, path) for each in _turns)


@asynccontextmanager
async def _held(mine: _Turn) -> AsyncIterator[None]:
    _turns.append(mine)
    try:
        _go_on()
        await mine.turn
        yield
    finally:
        _turns.remove(mine)
        _go_on()


def _go_on() -> None:
    for number, each in enumerate(_turns):
        if not each.turn.done() and not any(_apart(each, earlier) for earlier in _turns[:number]):
            each.turn.set_result(None)


def _apart(one: _Turn, other: _Turn) -> bool:
    """Whether they must not go at the same time."""
    return (one.alone or other.alone) and _overlap(one.path, other.path)


def _overlap(one: str, other: str) -> bool:
    first, second = (each.rstrip("/") + "/" for each in (os.path.normpath(one), os.path.normpath(other)))
    return first.startswith(second) or second.startswith(first)
