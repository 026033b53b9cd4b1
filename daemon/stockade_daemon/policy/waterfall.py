"""A waterfall: listeners around a default, the first registered outermost. Each may decide, or ask the next."""

from collections.abc import Awaitable, Callable
from typing import Generic, TypeAlias, TypeVar

S = TypeVar("S")
D = TypeVar("D")

Next: TypeAlias = Callable[[], Awaitable[D]]
Listener: TypeAlias = Callable[[S, Next[D]], Awaitable[D]]


class Waterfall(Generic[S, D]):
    """Listeners of one extension point. `run` gives each the frozen subject and a `next`; what does not call it has
    the last word."""

    def __init__(self, name: str) -> None:
        self.name = name
        self._listeners: list[Listener[S, D]] = []

    def add(self, listener: Listener[S, D]) -> None:
        """Registers a listener inside those there are."""
        self._listeners.append(listener)

    async def run(self, subject: S, default: Next[D]) -> D:
        """The outermost listener's decision; `default` is innermost."""

        def link(index: int) -> Next[D]:
            if index == len(self._listeners):
                return default

            async def step() -> D:
                return await self._listeners[index](subject, link(index + 1))

            return step

        return await link(0)()
