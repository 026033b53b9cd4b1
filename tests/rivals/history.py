"""Versions of one file and the steps between them, whoever made them: one trail without a fork, or something was lost.

Every version has bytes of its own, so a digest names a version and a step is a pair of digests: what was displaced and
what stands instead; None is "no file". If each writer displaced exactly what it said, the steps make one trail from the
first version to the last: each version is come to as often as it is left, but for the two ends. A version that is left
twice was overwritten by somebody who had not seen what came after it; one that is never left, and is not the last, was
overwritten unseen. Both are lost updates.
"""

import hashlib
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Final

UNKNOWN: Final = "?"  # displaced: its writer cannot say


def digest_of(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()


EMPTY: Final = digest_of(b"")


@dataclass(slots=True)
class History:
    """One file's. `first`: what it began as."""

    first: str | None
    steps: list[tuple[str | None, str | None]] = field(default_factory=list)
    # Bytes that stood under the name for a moment and were taken back: a commit's that came too late.
    passing: set[str] = field(default_factory=set)
    emptied: bool = False  # it was written in place, and so was empty for a moment

    def versions(self) -> set[str | None]:
        return {self.first, *(after for _, after in self.steps)}

    def left(self, version: str | None) -> bool:
        """Whether something else came to stand where `version` had stood, or may have."""
        if version == EMPTY and self.emptied:
            return True
        return any(before in (version, UNKNOWN) or before in self.passing for before, _ in self.steps)

    def unknown(self) -> int:
        """Steps whose writer cannot say, or says wrongly, which version it displaced."""
        return sum(1 for before, _ in self.steps if before == UNKNOWN or before in self._only_passing())

    def ends(self) -> tuple[list[str | None], list[str]]:
        """Versions that nothing is known to have displaced, one for each time; and what cannot be, in words."""
        balance: Counter[str | None] = Counter([self.first])
        passing = self._only_passing()
        for before, after in self.steps:
            balance[after] += 1
            if before != UNKNOWN and before not in passing:
                balance[before] -= 1
        faults = [
            f"{named(version)} was displaced {-count} times more than it was written: an update was lost"
            for version, count in balance.items()
            if count < 0
        ]
        return list(balance.elements()), faults

    def _only_passing(self) -> set[str]:
        return self.passing - self.versions()


def lost(history: History, last: str | None) -> list[str]:
    """What is wrong with a history that is said to have come to `last`."""
    ends, faults = history.ends()
    if last not in ends:
        return [*faults, f"the disk has {named(last)}, and the steps lead to {_all(ends)}"]
    ends.remove(last)
    if len(ends) != history.unknown():
        faults.append(f"{_all(ends)} went without anybody having displaced it: an update was lost")
    return faults


def named(version: str | None) -> str:
    return "no file" if version is None else version[:12]


def _all(versions: Iterable[str | None]) -> str:
    return ", ".join(map(named, versions)) or "nothing"
