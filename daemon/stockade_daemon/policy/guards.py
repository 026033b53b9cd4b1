"""Monotonic guards: the last check before a body runs. A guard denies or abstains; nothing can allow again."""

from collections.abc import Callable
from typing import TypeAlias

from stockade_daemon.errors import ExtensionFailed, StockadeError
from stockade_daemon.json_text import is_text
from stockade_daemon.policy.subjects import Judged
from stockade_daemon.policy.waterfall import said

Guard: TypeAlias = Callable[[Judged], str | None]  # a reason to deny, or None

NAME = "guard"


class Guards:
    """Registered guards. Order cannot matter for the answer, only for which reason is given: the first one's."""

    def __init__(self) -> None:
        self._guards: list[tuple[Guard, str]] = []

    def add(self, guard: Guard, *, owner: str = "") -> None:
        """Registers a guard behind those there are; during a check it still counts for that check."""
        self._guards.append((guard, owner))

    def __len__(self) -> int:
        return len(self._guards)

    def check(self, judged: Judged) -> str | None:
        """The first reason to deny; None when all abstain.

        Raises ExtensionFailed for a guard that raises something that is no error of ours, or answers neither a text nor
        None: it never counts as an abstention.
        """
        for guard, owner in self._guards:
            try:
                reason = guard(judged)
            except StockadeError:
                raise
            except Exception as error:
                if not owner:
                    raise
                raise ExtensionFailed(owner, NAME, f"{type(error).__name__}: {said(error)}") from error
            if reason is None:
                continue
            if not is_text(reason):
                what = f"it answered a {type(reason).__name__} that is neither a text which JSON can carry nor None"
                raise ExtensionFailed(owner, NAME, what)
            return reason or "a guard denied the call and gave no reason"
        return None
