"""Monotonic guards: the last check before a body runs, or a change is made. A guard denies or abstains; nothing can
allow again."""

from collections.abc import Callable
from typing import Generic, TypeAlias, TypeVar

from stockade_daemon.errors import ExtensionFailed
from stockade_daemon.json_text import is_text
from stockade_daemon.policy.subjects import Judged, Transaction
from stockade_daemon.policy.waterfall import blaming

S = TypeVar("S")
Guard: TypeAlias = Callable[[Judged], str | None]  # a reason to deny, or None
TransactionGuard: TypeAlias = Callable[[Transaction], str | None]


class Guards(Generic[S]):
    """Registered guards. Order cannot matter for the answer, only for which reason is given: the first one's."""

    def __init__(self, name: str = "guard") -> None:
        self.name = name
        self._guards: list[tuple[Callable[[S], str | None], str]] = []

    def add(self, guard: Callable[[S], str | None], *, owner: str = "") -> None:
        """Registers a guard behind those there are; during a check it still counts for that check."""
        self._guards.append((guard, owner))

    def __len__(self) -> int:
        return len(self._guards)

    def check(self, subject: S) -> str | None:
        """The first reason to deny; None when all abstain.

        Raises ExtensionFailed for a guard that raises something that is no refusal, or answers neither a text nor None:
        it never counts as an abstention.
        """
        for guard, owner in self._guards:
            with blaming(owner, self.name):
                reason = guard(subject)
            if reason is None:
                continue
            if not is_text(reason):
                what = f"it answered a {type(reason).__name__} that is neither a text which JSON can carry nor None"
                raise ExtensionFailed(owner, self.name, what)
            return reason or f"a {self.name} denied this and gave no reason"
        return None
