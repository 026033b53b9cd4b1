"""Replacing pieces of a text one after the other, and what that comes to in the bytes of the file.

Each replacement is looked for in the result of the one before. The outcome is spans of the original bytes: what no
replacement touched keeps its bytes, whatever the encoding.
"""

import re
import unicodedata
from collections.abc import Iterator
from dataclasses import dataclass

from stockade_toolkit import Span, ToolError
from stockade_worker.tools import text

_SHOWN = 200  # characters of a line in a message


@dataclass(frozen=True, slots=True)
class Replacement:
    """`old`, which is not empty, becomes `new`; it must stand in one place, or `everywhere` is true."""

    old: str
    new: str
    everywhere: bool


@dataclass(frozen=True, slots=True)
class _Kept:
    """Characters `start` to `end` (exclusive) of the original."""

    start: int
    end: int


class Text:
    """A decoded file under replacement. `path` is for messages."""

    def __init__(self, data: bytes, decoded: text.Text, path: str) -> None:
        self._data = data
        self._decoded = decoded
        self._path = path
        self._now = decoded.characters
        self._pieces: list[_Kept | str] = [_Kept(0, len(self._now))] if self._now else []

    def replace(self, each: Replacement) -> int:
        """Makes one replacement; returns in how many places.

        Raises ToolError: INVALID_ARGS (nothing would change, not of the encoding), FS_EDIT_NOT_FOUND,
        FS_AMBIGUOUS_EDIT.
        """
        if each.old == each.new:
            raise ToolError("INVALID_ARGS", "old_string and new_string are the same; nothing would change")
        places = _places(self._now, each.old)
        if not places:
            raise ToolError("FS_EDIT_NOT_FOUND", _not_found(self._now, each.old, self._path))
        if not each.everywhere and (len(places) > 1 or _overlapped(self._now, each.old, places[0])):
            times = f"{len(places)} times" if len(places) > 1 else "several times, overlapping itself,"
            raise ToolError(
                "FS_AMBIGUOUS_EDIT",
                f"old_string occurs {times} in {self._path}; add surrounding lines until it occurs once, "
                "or set replace_all to true",
            )
        news = [self._fitting(each.new, start, end) for start, end in places]
        self._pieces = list(_replaced(self._pieces, places, news))
        parts, reached = [], 0
        for (start, end), new in zip(places, news, strict=True):
            parts += [self._now[reached:start], new]
            reached = end
        self._now = "".join([*parts, self._now[reached:]])
        return len(places)

    def spans(self) -> list[Span]:
        """What has changed, as bytes of the original, in order.

        Raises ToolError FS_NOT_TEXT where the bytes of a piece of text depend on what is before it: encodings with
        shift states (ISO-2022, HZ, UTF-7) or combining pairs. There the spans would change other characters than those
        that were matched.
        """
        decoded = self._decoded
        spans = []
        character, byte = 0, len(decoded.mark)
        for start, end, new in self._gaps():
            first = byte + len(decoded.characters[character:start].encode(decoded.encoding))
            last = first + len(decoded.characters[start:end].encode(decoded.encoding))
            spans.append(Span(first, last, new.encode(decoded.encoding)))
            character, byte = end, last
        parts, reached = [], 0
        for span in spans:
            parts += [self._data[reached : span.start], span.replacement]
            reached = span.end
        changed = b"".join([*parts, self._data[reached:]])
        try:
            same = changed[len(decoded.mark) :].decode(decoded.encoding) == self._now
        except ValueError:
            same = False
        if not same:
            raise ToolError(
                "FS_NOT_TEXT",
                f"{self._path} cannot be edited piece by piece in {decoded.encoding}, whose bytes depend on context",
            )
        return spans

    def _fitting(self, new: str, start: int, end: int) -> str:
        """`new` with the line endings of the place where it goes."""
        # Only where it matters: looking for the end of a very long line, for each of very many places, takes for ever.
        if "\n" in new and _ending(self._now, start, end) == "\r\n":
            new = re.sub("(?<!\r)\n", "\r\n", new)
        try:
            new.encode(self._decoded.encoding)
        except UnicodeEncodeError as error:
            raise ToolError(
                "INVALID_ARGS",
                f"new_string cannot be written as {self._decoded.encoding}, the encoding of {self._path}: {error}",
            ) from None
        return new

    def _gaps(self) -> Iterator[tuple[int, int, str]]:
        """Characters of the original that are gone, and what stands in their place."""
        reached, new = 0, ""
        for piece in [*self._pieces, _Kept(len(self._decoded.characters), len(self._decoded.characters))]:
            if isinstance(piece, str):
                new += piece
                continue
            if piece.start > reached:
                yield reached, piece.start, new
            reached, new = piece.end, ""


def _replaced(pieces: list[_Kept | str], places: list[tuple[int, int]], news: list[str]) -> Iterator[_Kept | str]:
    """The pieces after each place, counted in characters of the text that they make up, has become its new text.

    New text only ever stands where characters of the original are gone, since a place is never empty.
    """
    coming = iter([*zip(places, news, strict=True), ((-1, -1), "")])
    (start, end), new = next(coming)
    at = 0
    for piece in pieces:
        length = len(piece) if isinstance(piece, str) else piece.end - piece.start
        low = 0
        while start >= 0 and start < at + length:
            if start - at > low:
                yield _part(piece, low, start - at)
            if start >= at:
                yield new  # a place is replaced where it begins
            if end > at + length:
                low = length
                break  # the rest of the place is in the pieces that follow
            low = end - at
            (start, end), new = next(coming)
        if low < length:
            yield _part(piece, low, length)
        at += length


def _part(piece: _Kept | str, low: int, high: int) -> _Kept | str:
    return piece[low:high] if isinstance(piece, str) else _Kept(piece.start + low, piece.start + high)


def _places(characters: str, old: str) -> list[tuple[int, int]]:
    """Where `old` stands, as character positions that do not overlap. The one tolerance: LF in `old` matches the
    file's own CRLF too, since a text that was read shows no difference between the two."""
    pattern = _tolerant(old) if "\n" in old and "\r\n" in characters else re.compile(re.escape(old))
    return [(found.start(), found.end()) for found in pattern.finditer(characters)]


def _tolerant(old: str) -> re.Pattern[str]:
    return re.compile("\r?\n".join(re.escape(part) for part in re.split("(?<!\r)\n", old)))


def _overlapped(characters: str, old: str, place: tuple[int, int]) -> bool:
    """Whether `old` begins again within its only place: which of the two was meant nobody knows."""
    start, end = place
    if characters[start:end] == old:
        return characters.find(old, start + 1) >= 0
    # Of a CRLF that LF in `old` stands for at its beginning, the LF alone is the same place.
    further = start + (2 if old.startswith("\n") and characters.startswith("\r\n", start) else 1)
    return _tolerant(old).search(characters, further) is not None


def _ending(characters: str, start: int, end: int) -> str:
    """The line ending around a match: its own first one, else that of its last line, else that of the line before."""
    inside = characters.find("\n", start, end)
    after = characters.find("\n", end)
    before = characters.rfind("\n", 0, start)
    place = next((each for each in (inside, after, before) if each >= 0), -1)
    return "\r\n" if place > 0 and characters[place - 1] == "\r" else "\n"


def _not_found(characters: str, old: str, path: str) -> str:
    hint = "read the file again and copy the text exactly, white space included"
    if _only_lacks_its_end(characters, old):
        hint = "the file has it at its end, where there is no newline; leave the newline at the end of old_string out"
    elif unicodedata.normalize("NFC", old) in unicodedata.normalize("NFC", characters):
        hint = "the file has it with other, canonically equivalent Unicode characters; copy the text as `read` shows it"
    elif " ".join(old.split()) and " ".join(old.split()) in " ".join(characters.split()):
        hint = f"the file has it with other white space{_nearest(characters, old)}; copy the text as `read` shows it"
    return f"old_string does not occur in {path}; {hint}"


def _only_lacks_its_end(characters: str, old: str) -> bool:
    text, wanted = characters.replace("\r\n", "\n"), old.replace("\r\n", "\n")
    return wanted.endswith("\n") and wanted != "\n" and text.endswith(wanted[:-1])


def _nearest(characters: str, old: str) -> str:
    """The line with the first words of `old`, its white space made visible; empty where it is not to be found."""
    words = next((line.split() for line in old.split("\n") if line.strip()), [])
    for number, line in enumerate(characters.split("\n"), start=1):
        if words and " ".join(words) in " ".join(line.split()):
            return f" (line {number} is {line[:_SHOWN]!r}{'…' if len(line) > _SHOWN else ''})"
    return ""
