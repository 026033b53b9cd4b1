"""What a body asks for, what was decided about it, and what came of it."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal, TypeAlias

from stockade_daemon.gate.difference import Difference
from stockade_daemon.gate.names import body_of, shown
from stockade_daemon.gate.observations import Observation
from stockade_daemon.gate.spans import Span
from stockade_daemon.values import Json

Operation: TypeAlias = Literal["create", "update"]


@dataclass(frozen=True, slots=True)
class EditIntent:
    """`fs/edit-intent`: replace spans of a file that is there."""

    path: str  # as it was asked for
    real: bytes  # relative to the workspace: the file that the spans were made from; where the path led then
    base: str  # digest of the content that the spans were made from
    spans: tuple[Span, ...]  # ascending, not overlapping


@dataclass(frozen=True, slots=True)
class WriteIntent:
    """`fs/write-intent`: these are the file's bytes from now on."""

    path: str
    content: bytes
    encoding_chosen: bool = True  # false: the content is text, and UTF-8 only because the call names no encoding


@dataclass(frozen=True, slots=True)
class Planned:
    """An intent that was decided and not yet committed. Nothing on the disk has changed."""

    asked: bytes  # as spelled, relative to the workspace
    real: bytes  # the file itself, relative to the workspace; another one at commit is refused
    operation: Operation
    before: str | None  # digest on the disk; None: nothing is there
    after: str  # digest of `content`
    content: bytes = field(repr=False)  # exactly what will be committed
    difference: Difference = field(repr=False)
    note: str  # what a person should know besides, one clause; may be empty
    seen: Observation = field(repr=False)  # what the session will know of the file afterwards
    links: int  # names that the file has on the disk; 0: nothing is there
    style: Mapping[str, Json] = field(default_factory=dict)  # what a write changes besides the text, as in style.py

    @property
    def path(self) -> str:
        """The real path as printable text."""
        return shown(self.real)

    @property
    def size(self) -> int:
        return len(self.content)

    @property
    def text(self) -> str:
        """The unified difference."""
        return self.difference.text

    @property
    def added(self) -> int:
        return self.difference.added

    @property
    def removed(self) -> int:
        return self.difference.removed

    def body(self) -> dict[str, Json]:
        """`path`, `asked` where spelled differently, `operation`, `before`, `after`, `size`."""
        body = body_of("path", self.real)
        if self.asked != self.real:
            body |= body_of("asked", self.asked)
        return body | {
            "operation": self.operation,
            "before": self.before,
            "after": self.after,
            "size": len(self.content),
        }


@dataclass(frozen=True, slots=True)
class Committed:
    """A change that was made and is on the disk."""

    path: str  # real, relative to the workspace, as printable text
    operation: Operation
    before: str | None
    after: str
    size: int
    note: str
    seen: Observation = field(repr=False)
    names_seen: tuple[Observation, ...] = field(default=(), repr=False)  # under other names of the file

    def body(self) -> dict[str, Json]:
        """The body of the `fs/committed` event: the fields above, and what the session knows of the file now.

        `names_seen`, where the session had seen it under other names too, is what it knows under these.
        """
        names = {"names_seen": [each.body() for each in self.names_seen]} if self.names_seen else {}
        return (
            self.seen.body()
            | names
            | {
                "operation": self.operation,
                "before": self.before,
                "after": self.after,
                "note": self.note,
            }
        )
