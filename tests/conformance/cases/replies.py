"""What a call came to, with what the runner measured of it; and all that was played of a case."""

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from stockade_client import CallResult
from tests.conformance.cases.filling import Places
from tests.conformance.cases.reading import Case


@dataclass(frozen=True, slots=True)
class Reply:
    tool: str
    arguments: Any  # as sent; bytes where they were raw
    result: CallResult
    seconds: float
    asked: tuple[dict[str, Any], ...] = ()  # the cards that were shown
    pending: bool = False  # it was left unanswered, and withdrawn
    told: tuple[str, str] = ("", "")  # what a yes and a no were told that were given at once: `taken`, or the error
    again: tuple[str, ...] = ()  # the same for each yes that was sent again after the call had run
    late: str = ""  # the error that a yes met which came after the ask had ended

    @property
    def ok(self) -> bool:
        return self.result.ok

    @property
    def code(self) -> str:
        return self.result.error.code if self.result.error else ""

    @property
    def message(self) -> str:
        return self.result.error.message if self.result.error else ""

    @property
    def text(self) -> str:
        """What the model is given."""
        return self.result.text

    @property
    def value(self) -> Any:
        return self.result.value

    def field(self, name: str) -> Any:
        return self.result.field(name)

    def __str__(self) -> str:
        state = "left pending" if self.pending else "ok" if self.ok else f"{self.code} ({self.message[:160]})"
        return f"{self.tool}: {state}"


@dataclass(slots=True)
class Played:
    """A case that was played. `replies` holds those of each item of `calls`, in its order; none for other items."""

    case: Case
    places: Places
    replies: list[list[Reply]] = field(default_factory=list)
    before: dict[bytes, bytes | None] = field(default_factory=dict)  # expected files, before the first call
    modified: dict[bytes, int] = field(default_factory=dict)  # their mtime, ns
    grown: int = 0  # bytes of resident memory that the daemon had more at its peak
    daemon_pid: int = 0

    def all(self) -> Iterator[Reply]:
        for group in self.replies:
            yield from group

    def last(self) -> list[Reply]:
        """The replies of the last item that has any; several where it is a group."""
        return next((group for group in reversed(self.replies) if group), [])

    def of(self, number: int) -> Reply:
        """The reply of item `number` of `calls`, from 0. Raises LookupError where it is no single call."""
        (reply,) = self.replies[number]
        return reply
