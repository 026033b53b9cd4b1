"""What came of entries."""

from dataclasses import dataclass
from typing import Literal, TypeAlias

from stockade_client.results import CallResult, Failure, Json
from stockade_client.runs.entries import Entry

# passed · failed: not as expected · timeout: not over in time · infrastructure: what it runs on failed, twice ·
# not run: the run ended before
Kind: TypeAlias = Literal["passed", "failed", "timeout", "infrastructure", "not run"]

# Whose matter an error is that no tool and no rule is answerable for: the sandbox could not be made, the disk failed,
# somebody else ended the worker, the call or the daemon.
INFRASTRUCTURE = frozenset({"sandbox", "infrastructure", "unknown"})


@dataclass(frozen=True, slots=True)
class Difference:
    """How something is not as expected."""

    reason: str
    error: Failure | None = None  # that makes the difference; None: none does, or it was expected and the rest differs

    @property
    def of_infrastructure(self) -> bool:
        return self.error is not None and self.error.domain in INFRASTRUCTURE


@dataclass(frozen=True, slots=True)
class Outcome:
    """Of one entry; of its last attempt where there were two."""

    entry: Entry
    kind: Kind
    reasons: tuple[str, ...] = ()  # why it is no other
    results: tuple[CallResult, ...] = ()  # of its calls, as far as they came
    wall_s: float = 0.0  # of all its attempts, with the session's opening
    attempts: int = 1
    retried: str = ""  # why there was a second one
    error: Failure | None = None  # that made it fail, where one did

    @property
    def refused(self) -> bool:
        """Whether it failed because profile, rule, guard or person said no."""
        return self.kind == "failed" and self.error is not None and self.error.domain == "policy"

    def as_json(self) -> dict[str, Json]:
        """The object that `stockade run --json` prints."""
        return {
            "name": self.entry.name,
            "file": self.entry.file,
            "line": self.entry.line,
            "outcome": self.kind,
            "refused": self.refused,
            "reasons": list(self.reasons),
            "wall_s": round(self.wall_s, 6),
            "attempts": self.attempts,
            "retried": self.retried,
            "calls": [each.as_json() for each in self.results],
        }
