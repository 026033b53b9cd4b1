"""Monotonic guards: the last check before a body runs. A guard denies or abstains; nothing can allow again."""

from collections.abc import Callable
from typing import TypeAlias

from stockade_daemon.policy.subjects import Judged

Guard: TypeAlias = Callable[[Judged], str | None]  # a reason to deny, or None


class Guards:
    """Registered guards. Order cannot matter for the answer, only for which reason is given."""

    def __init__(self) -> None:
        self._guards: list[Guard] = []

    def add(self, guard: Guard) -> None:
        self._guards.append(guard)

    def __len__(self) -> int:
        return len(self._guards)

    def check(self, judged: Judged) -> str | None:
        """The first reason to deny; None when all abstain. What a guard raises is raised."""
        for guard in self._guards:
            reason = guard(judged)
            if reason is not None:
                return reason
        return None
