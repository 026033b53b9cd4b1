"""What came of a case, and the two ways in which judging one ends early."""

from dataclasses import dataclass
from typing import Final, Literal, TypeAlias

# `max_seconds` tells a hang from an answer, on an idle host; on one that has other work, everything takes longer.
PATIENCE: Final = 5.0

Word: TypeAlias = Literal["PASS", "FAIL", "SKIP"]


@dataclass(frozen=True, slots=True)
class Verdict:
    id: str
    area: str
    word: Word
    why: str  # of a FAIL what differs, of a SKIP what is missing; empty for PASS
    seconds: float = 0.0
    trace: str = ""  # of a fault of the runner's own

    def __str__(self) -> str:
        """One line that every stream takes."""
        line = f"{self.word} {self.id}" + (f": {self.why}" if self.why else "")
        return line.replace("\n", "\\n").encode("utf-8", "backslashreplace").decode("utf-8")


class Fails(Exception):
    """The product does not do what the case expects."""


class Missing(Exception):
    """The case cannot be asked here; the text names what is missing."""


def hold(true: object, why: str) -> None:
    """Raises Fails with `why` where `true` is not."""
    if not true:
        raise Fails(why)
