"""What ripgrep prints of some files, as lines: bounded, however long a line is.

    PATH NUL LINE : COLUMN : TEXT      a line that matches; columns count bytes from 1
    PATH NUL LINE - TEXT               a line around one
    PATH: binary file matches (…)      instead of lines

Names may hold anything but NUL, line breaks and such words too; where a line could be read in two ways, the one that
names a file is right.
"""

import codecs
import os
import re
from collections.abc import Generator, Sequence
from dataclasses import dataclass

from stockade_toolkit import ToolError
from stockade_worker.tools.listing import at
from stockade_worker.tools.ripgrep import Ripgrep

LONGEST = 500  # bytes of a line; of a longer one as many are shown, around its first match
_BEFORE = 150  # of those, in front of the match
_FLAGS = (
    "--null", "--no-heading", "--with-filename", "--line-number", "--column", "--no-context-separator",
    "--binary", "--no-mmap",
)  # fmt: skip
_BINARY = re.compile(rb'(.*?): binary file matches \(found "\\0" byte around offset [0-9]+\)\n', re.DOTALL)
_NUMBERS = re.compile(rb"([0-9]+)(?:-|:([0-9]+):)")


@dataclass(frozen=True, slots=True)
class Line:
    """A line of a file."""

    path: bytes
    number: int
    column: int | None  # of the first match, in bytes from 1; None: the line only stands near one
    text: str  # without its end
    escaped: bool  # it is not UTF-8: bytes that are none are written as \\xNN
    cut: bool  # it is longer: "…" stands where something is left out


@dataclass(frozen=True, slots=True)
class Binary:
    """A file that matches and is no text."""

    path: bytes


class Matching:
    """One run of ripgrep with these options, over files or a directory of the workspace."""

    def __init__(self, options: Sequence[str], paths: Sequence[bytes]) -> None:
        self._arguments: list[str | bytes] = [*_FLAGS, *options, "--", *(b"./" + at(path) for path in paths)]
        self._path = b""  # of the last line
        self._buffer = b""
        self.unreadable = 0  # files, at the end

    def found(self) -> Generator[Line | Binary, None, None]:
        """In the order of the paths. Whoever stops early ends the run by closing this."""
        with Ripgrep(self._arguments) as run:
            more = True
            while more:
                path, more = self._next(run)
                while binary := self._binary(path):
                    name, path = binary
                    yield Binary(name[2:])
                if more:
                    self._path = path
                    yield self._line(run, path[2:])
            run.end()
            self.unreadable = run.unreadable()

    def _binary(self, text: bytes) -> tuple[bytes, bytes] | None:
        """The name of a binary file in front of a path, and the path; None where there is none in front."""
        if self._names(text):
            return None
        ends = list(_BINARY.finditer(text))
        if not ends:
            return None
        # Where none of the names is there any more, it is the first.
        end = next((end for end in ends if self._names(text[: end.end(1)])), ends[0])
        return text[: end.end(1)], text[end.end() :]

    def _names(self, path: bytes) -> bool:
        return path == self._path or os.path.lexists(path)

    def _next(self, run: Ripgrep) -> tuple[bytes, bool]:
        """All up to the next NUL, which is taken away, and true; or all up to the end, and false."""
        start = 0
        while (end := self._buffer.find(b"\0", start)) < 0:
            start = len(self._buffer)
            if not self._more(run):
                rest, self._buffer = self._buffer, b""
                return rest, False
        path, self._buffer = self._buffer[:end], self._buffer[end + 1 :]
        return path, True

    def _line(self, run: Ripgrep, path: bytes) -> Line:
        while (found := _NUMBERS.match(self._buffer)) is None and self._more(run):
            pass
        if found is None:
            raise ToolError("TOOL_FAILED", "ripgrep printed a line without a number; please report this")
        self._buffer = self._buffer[found.end() :]
        column = int(found[2]) if found[2] else None
        first = max(0, (column or 1) - 1 - _BEFORE)
        head, window, size = b"", b"", 0
        while True:
            end = self._buffer.find(b"\n")
            part = self._buffer if end < 0 else self._buffer[:end]
            head += part[: max(0, LONGEST + 1 - len(head))]
            window += part[max(0, first - size) : max(0, first + LONGEST - size)]
            size += len(part)
            self._buffer = b"" if end < 0 else self._buffer[end + 1 :]
            if end >= 0 or not self._more(run):
                break
        if size <= LONGEST + 1 and head.endswith(b"\r"):
            head, size = head[:-1], size - 1
        if size <= LONGEST:
            return Line(path, int(found[1]), column, *_text(head, whole=True), cut=False)
        text, escaped = _text(_from_a_character(window) if first else window, whole=False)
        shown = f"{'…' if first else ''}{text}{'…' if first + LONGEST < size else ''}"
        return Line(path, int(found[1]), column, shown, escaped, cut=True)

    def _more(self, run: Ripgrep) -> bool:
        part = run.read()
        self._buffer += part
        return bool(part)


def _from_a_character(line: bytes) -> bytes:
    """Without the rest of a character that begins in front of it: at most three bytes (RFC 3629)."""
    start = 0
    while start < 3 and line[start : start + 1] and line[start] & 0xC0 == 0x80:
        start += 1
    return line[start:]


def _text(line: bytes, *, whole: bool) -> tuple[str, bool]:
    """The text, and whether bytes of it had to be escaped. Not `whole`: a character that the end cuts is left out."""
    try:
        return codecs.getincrementaldecoder("utf-8")().decode(line, whole), False
    except UnicodeDecodeError:
        return codecs.getincrementaldecoder("utf-8")("backslashreplace").decode(line, whole), True
