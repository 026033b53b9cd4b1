"""Entries: what a line of a file of calls says. docs/ci.md is the manual of the format."""

from dataclasses import dataclass, field
from typing import Literal, TypeAlias

from stockade_client.results import Json

Isolation: TypeAlias = Literal["entry", "run"]


@dataclass(frozen=True, slots=True)
class Fault:
    """Something that is wrong in a file of calls."""

    file: str
    line: int  # from 1; 0: the file as a whole
    column: int  # from 1, in characters
    reason: str  # what is wrong; what is right

    def __str__(self) -> str:
        where = f"{self.file}:{self.line}:{self.column}" if self.line else self.file
        return f"{where}: {self.reason}"


@dataclass(frozen=True, slots=True)
class Answer:
    """What is answered where the call is asked about."""

    allow: bool
    says: str = ""


@dataclass(frozen=True, slots=True)
class Expected:
    """What a call comes to. None expects nothing of that part; parts but `ok`, codes and `exit_code` are patterns."""

    ok: bool = True
    code: str | None = None
    domain: str | None = None
    exit_code: int | Literal["any"] = 0  # of a command that is ok
    parts: tuple[tuple[str, Json], ...] = ()  # name (message, stdout, stderr, text, value) and pattern


@dataclass(frozen=True, slots=True)
class EntryCall:
    tool: str
    arguments: bytes  # JSON text, as it will be sent
    expected: Expected
    answer: Answer | None
    line: int
    column: int  # of the tool's name


@dataclass(frozen=True, slots=True)
class Entry:
    """Calls that belong together, in their order, in one session."""

    name: str  # unique in its file
    file: str
    line: int
    calls: tuple[EntryCall, ...]
    files: tuple[tuple[str, Json], ...] = ()  # path and pattern, looked at when the calls are over
    timeout_s: float | None = None


@dataclass(frozen=True, slots=True)
class CallsFile:
    """A file of calls, as far as it can be read."""

    path: str
    isolation: Isolation | None  # None: it does not say
    entries: tuple[Entry, ...]
    faults: tuple[Fault, ...] = field(default=())
    unusable: tuple[Entry, ...] = field(default=())  # have faults; their tools and codes can be looked at all the same
