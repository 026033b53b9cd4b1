"""Spans: an edit as byte ranges of the content it was made from, and what they do to lines and to what was seen.

Everything is counted in bytes of the raw content; a line ends with the byte 0x0A.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from stockade_daemon.errors import ToolFailure
from stockade_daemon.gate.content import lines_of
from stockade_daemon.gate.observations import Ranges, merged

_COUNTED_LINES: Final = 2_000_000


@dataclass(frozen=True, slots=True)
class Span:
    """The bytes `start` up to, not including, `end` of the base content, and what takes their place."""

    start: int
    end: int
    replacement: bytes


def check(spans: tuple[Span, ...], size: int) -> None:
    """Raises ToolFailure INVALID_TOOL_OUTPUT where spans are none, out of range, out of order or overlapping."""
    if not spans:
        raise _invalid("it has no spans")
    reached = 0
    for span in spans:
        if not 0 <= span.start <= span.end <= size:
            raise _invalid(f"span {span.start}–{span.end} does not lie in the file's {size} bytes")
        if span.start < reached:
            raise _invalid(f"span {span.start}–{span.end} begins before the one in front of it ends, at {reached}")
        reached = span.end


def apply(content: bytes, spans: tuple[Span, ...]) -> bytes:
    """`content` with the spans replaced; every other byte stands as it was."""
    pieces = []
    reached = 0
    for span in spans:
        pieces += [content[reached : span.start], span.replacement]
        reached = span.end
    return b"".join([*pieces, content[reached:]])


def touched(content: bytes, spans: tuple[Span, ...]) -> Iterator[tuple[int, int]]:
    """For each span the lines (first, last) it changes; an insertion changes the line that it stands in.

    Behind the last line means the last line; in an empty file there is none: (1, 0).
    """
    count = lines_of(content)
    line, reached = 1, 0
    for span in spans:
        line += content.count(b"\n", reached, span.start)
        last = line + content.count(b"\n", span.start, max(span.start, span.end - 1))
        reached = span.start
        yield (1, 0) if count == 0 else (min(line, count), min(last, count))


def carried(before: bytes, after: bytes, spans: tuple[Span, ...], seen: Ranges) -> Ranges:
    """The lines of `after` that are known to whoever saw the lines `seen` of `before` and wrote the spans.

    A line is known when each of its bytes is: a line that an edit joined to one never seen is not. In a file of very
    many lines nothing stays known: counting them would hold up everybody else.
    """
    if before.count(b"\n") + after.count(b"\n") > _COUNTED_LINES:
        return ()
    known: list[tuple[int, int]] = []
    old = _bytes_of(before, seen)
    at = 0
    reached = shift = 0
    for span in (*spans, Span(len(before), len(before), b"")):
        # What stands between the previous span and this one, as far as it was seen.
        while at < len(old) and old[at][0] < span.start:
            first, last = max(old[at][0], reached), min(old[at][1], span.start)
            if first < last:
                known.append((first + shift, last + shift))
            if old[at][1] > span.start:
                break
            at += 1
        while at < len(old) and old[at][1] <= span.end:
            at += 1
        known.append((span.start + shift, span.start + shift + len(span.replacement)))
        shift += len(span.replacement) - (span.end - span.start)
        reached = span.end
    # merged() joins neighbours of closed ranges; ours are half open.
    joined = merged((first, last - 1) for first, last in known)
    lines: list[tuple[int, int]] = []
    at = 0
    for number, (first, last) in enumerate(_lines(after), start=1):
        while at < len(joined) and joined[at][1] < first:
            at += 1
        if at < len(joined) and joined[at][0] <= first and last - 1 <= joined[at][1]:
            if lines and lines[-1][1] == number - 1:
                lines[-1] = (lines[-1][0], number)
            else:
                lines.append((number, number))
    return tuple(lines)


def _bytes_of(content: bytes, ranges: Ranges) -> list[tuple[int, int]]:
    """The bytes of each range of lines."""
    result: list[tuple[int, int]] = []
    begin = 0
    for number, (first, last) in enumerate(_lines(content), start=1):
        if len(result) == len(ranges):
            break
        if number == ranges[len(result)][0]:
            begin = first
        if number == ranges[len(result)][1]:
            result.append((begin, last))
    return result


def _lines(content: bytes) -> Iterator[tuple[int, int]]:
    """The byte range of each line, its end included."""
    reached = 0
    for found in re.finditer(b"\n", content):
        yield reached, found.end()
        reached = found.end()
    if reached < len(content):
        yield reached, len(content)


def _invalid(why: str) -> ToolFailure:
    return ToolFailure(
        "INVALID_TOOL_OUTPUT", f"The tool asked for an edit that cannot be made: {why}. This is a fault of the tool."
    )
