"""The register of checks: `@of("ID")` above a function that takes what was played and raises Fails."""

from collections.abc import Callable
from typing import Final, TypeAlias

from tests.conformance.cases.replies import Played

Check: TypeAlias = Callable[[Played], None]

CHECKS: Final[dict[str, Check]] = {}


def of(*ids: str) -> Callable[[Check], Check]:
    """Registers a check for cases. Raises ValueError where one has a check already."""

    def register(check: Check) -> Check:
        for each in ids:
            if each in CHECKS:
                raise ValueError(f"{each} has two checks")
            CHECKS[each] = check
        return check

    return register
