"""What a body and the daemon say to each other, as a tool's author sees it."""

import os
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Protocol, TypeAlias

Json: TypeAlias = Any  # a value that JSON text can carry; the daemon checks it


class ToolError(Exception):
    """Ends the call with a stable error code and a message for the model, which should end with the remedy."""

    def __init__(self, code: str, message: str) -> None:
        super().__init__(message)
        self.code = code


@dataclass(frozen=True, slots=True)
class Answer:
    """What a tool returns: a value for programs, a text for the model."""

    value: Json
    text: str


@dataclass(frozen=True, slots=True)
class OpenedFile:
    """A file's content at one moment. `descriptor` is a sealed memory file: what is read is what was observed."""

    descriptor: int
    handle: str
    name: bytes  # relative to the workspace, links followed
    path: str  # the same as text, with escapes for what UTF-8 cannot carry
    digest: str  # SHA-256, lower-case hex
    size: int  # bytes

    def content(self) -> bytes:
        """All of its bytes."""
        data = bytearray()
        while len(data) < self.size and (part := os.pread(self.descriptor, self.size - len(data), len(data))):
            data += part
        return bytes(data)


@dataclass(frozen=True, slots=True)
class Place:
    """Where a path leads in the workspace."""

    path: bytes  # relative to the workspace's root, links followed; b"." is the root
    directory: bool  # else it is a regular file


@dataclass(frozen=True, slots=True)
class Span:
    """Bytes start to end (exclusive) of an opened file, and what replaces them, literally."""

    start: int
    end: int
    replacement: bytes


@dataclass(frozen=True, slots=True)
class Committed:
    """A change that has been made."""

    name: bytes  # relative to the workspace, links followed
    path: str  # the same as text, with escapes for what UTF-8 cannot carry
    digest: str  # of the file afterwards
    difference: str  # unified
    note: str  # anything worth saying, else empty
    operation: str  # "create" or "update"
    style: Mapping[str, Json]  # of what a write changed besides the text: {"line_endings": {"before": …, "after": …}}


@dataclass(frozen=True, slots=True)
class Entry:
    """A name in a directory."""

    name: bytes
    kind: str  # file, directory, link, FIFO, socket, device
    size: int | None  # bytes, of a file
    target: bytes | None  # what a link says, which need not be there


@dataclass(frozen=True, slots=True)
class Listing:
    """A window of a directory, in the order of the names' bytes."""

    name: bytes  # relative to the workspace, links followed
    path: str  # the same as text, with escapes for what UTF-8 cannot carry
    total: int  # names in the directory
    entries: tuple[Entry, ...]


class Files(Protocol):
    """The workspace, as far as a body can reach it: by asking. Each method raises ToolError with the gate's refusal."""

    def open(self, path: str, *, for_edit: bool = False) -> OpenedFile:
        """The file's content. With for_edit, refused at once where an edit would be (not read, changed since)."""

    def locate(self, path: str) -> Place:
        """Where a path leads, for a tool that then looks there itself (access "read"). Nothing is observed.

        Refused where nothing is there, where it leads out of the workspace, and for what is neither a directory nor a
        regular file.
        """

    def showed(self, file: OpenedFile, first: int, last: int) -> None:
        """States that lines `first` to `last` (from 1) are in the answer in full; counts when the call succeeds.

        Only for a tool that is declared with `observes=True`.
        """

    def edit(self, file: OpenedFile, spans: list[Span], *, places: int | list[int] | None = None) -> Committed:
        """States an edit intent; returns when it has been decided, perhaps asked about, and committed.

        places: of a built-in tool, how many places its result will tell of: for when the daemon ends while somebody is
        asked, and the next one makes the result.
        """

    def write(self, path: str, content: bytes) -> Committed:
        """States a write intent: these are the bytes of the file, or of a new one, from now on; returns as `edit` does.

        A file that is there must have been read to its end and be unchanged since. Directories are made as needed. The
        bytes are taken as they are: in which encoding, the tool decides, also over a file in another one.
        """

    def entries(self, path: str, *, first: int = 1, most: int = 1000) -> Listing:
        """The names in a directory from number `first` (from 1) on, `most` of them. Nothing is observed."""
