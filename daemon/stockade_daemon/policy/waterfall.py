"""A waterfall: listeners around a default, the first registered outermost. Each may decide, or ask the next."""

import asyncio
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from typing import Generic, TypeAlias, TypeVar

from stockade_daemon.errors import ExtensionFailed, Refusal
from stockade_daemon.json_text import is_text

S = TypeVar("S")
D = TypeVar("D")

Next: TypeAlias = Callable[[], Awaitable[D]]
Listener: TypeAlias = Callable[[S, Next[D]], Awaitable[D]]


class Waterfall(Generic[S, D]):
    """Listeners of one extension point. `run` gives each the frozen subject and a `next`; what does not call it has
    the last word."""

    def __init__(self, name: str, decisions: tuple[type, ...] = (object,), *, again: bool = False) -> None:
        """`decisions`: the types that a listener may answer. `again`: it may ask the next more than once."""
        self.name = name
        self._decisions = decisions
        self._again = again
        self._listeners: list[tuple[Listener[S, D], str]] = []

    def add(self, listener: Listener[S, D], *, owner: str = "") -> None:
        """Registers a listener inside those there are. `owner` is whose it is; empty: the daemon's own."""
        self._listeners.append((listener, owner))

    def __len__(self) -> int:
        return len(self._listeners)

    async def run(self, subject: S, default: Next[D]) -> D:
        """The outermost listener's decision; `default` is innermost.

        Raises ExtensionFailed for a listener that raises something that is no error of ours, answers something that is
        no decision, or asks the next twice where that is not allowed. What the default raises is raised.
        """
        listeners = tuple(self._listeners)

        def link(index: int) -> Next[D]:
            if index == len(listeners):
                return default

            async def step() -> D:
                listener, owner = listeners[index]
                return await self._asked(listener, owner, subject, link(index + 1))

            return step

        return await link(0)()

    async def _asked(self, listener: Listener[S, D], owner: str, subject: S, following: Next[D]) -> D:
        passing: list[BaseException] = []  # what came from further in is not this listener's fault
        asked = 0

        async def ahead() -> D:
            nonlocal asked
            asked += 1
            if asked > 1 and not self._again:
                raise ExtensionFailed(owner, self.name, "it asked the next listener twice")
            try:
                return await following()
            except BaseException as error:
                passing.append(error)
                raise

        try:
            decision = await listener(subject, ahead)
        except (Refusal, ExtensionFailed):
            raise
        except BaseException as error:
            if not owner or any(error is each for each in passing) or is_ending():
                raise
            raise ExtensionFailed(owner, self.name, f"{type(error).__name__}: {said(error)}") from error
        if not isinstance(decision, self._decisions):
            names = ", ".join(each.__name__ for each in self._decisions)
            raise ExtensionFailed(
                owner, self.name, f"it answered a {type(decision).__name__}, which is none of {names}"
            )
        return decision


@contextmanager
def blaming(owner: str, stage: str) -> Iterator[None]:
    """Makes ExtensionFailed of whatever an extension raises that is no refusal. With an empty owner, which is the
    daemon itself, a bug stays one."""
    try:
        yield
    except ExtensionFailed:
        raise
    except Refusal as refusal:
        if not is_text(refusal.message):
            raise ExtensionFailed(owner, stage, "the message of its refusal is no text that JSON can carry") from None
        raise
    except BaseException as error:
        if not owner or is_ending():
            raise
        raise ExtensionFailed(owner, stage, f"{type(error).__name__}: {said(error)}") from error


def is_ending() -> bool:
    """Whether the task that asks is being cancelled. Where it is not, a CancelledError that an extension lets through
    is of a task of the extension's own, and a failure like any other; so are SystemExit and its like, which would end
    the daemon with all its sessions."""
    task = asyncio.current_task()
    return task is not None and task.cancelling() > 0


def said(error: BaseException) -> str:
    """The message of an error, whatever its class does when it is asked for it."""
    try:
        text = str(error)
    except Exception:
        return "an error that cannot say what it is"
    return text.encode("utf-8", "replace").decode()[:500]
