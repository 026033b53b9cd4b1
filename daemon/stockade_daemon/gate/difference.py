"""The exact difference that a commit will make, as a unified difference that a person can judge.

Made from line-aligned blocks rather than by comparing whole files: an edit knows where it changed something. What a
terminal would obey is shown as an escape, and so is a byte that is no UTF-8. UTF-16 and UTF-32 are shown decoded, under
a line that says so. The text has a limit, and says when it reached it; the counts are exact.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from difflib import SequenceMatcher
from itertools import accumulate
from typing import Final

from stockade_daemon.gate.content import lines_of
from stockade_daemon.gate.encodings import mark_of, wide
from stockade_daemon.gate.names import shown, visible
from stockade_daemon.gate.spans import Span

MAX_DIFFERENCE_CHARS: Final = 256 * 1024

_CONTEXT: Final = 3
_COMPARED_LINES: Final = 4000  # beyond these a block is shown as replaced: comparing takes quadratic time
_SPLIT_LINES: Final = 200_000  # beyond these not even equal ends are looked for: each line costs memory
_LINE_BYTES: Final = 4000  # shown of one line
_MARKED: Final = {True: " with a byte-order mark", False: " without a byte-order mark"}


@dataclass(frozen=True, slots=True)
class Difference:
    text: str  # a unified difference, or one sentence where the content is binary
    added: int  # lines
    removed: int  # lines
    complete: bool  # false: the limit was reached, or the content is binary


@dataclass(frozen=True, slots=True)
class _Block:
    """Changed bytes, at line boundaries on both sides: old[start:end] became new[new_start:new_end]."""

    start: int
    end: int
    new_start: int
    new_end: int


def difference(path: bytes, before: bytes | None, after: bytes, spans: tuple[Span, ...] = ()) -> Difference:
    """The difference between two contents; `before` is None for a new file, `spans` say where an edit changed it."""
    if (decoded := _decoded(before, after)) is not None:
        note, before, after = decoded
        return _difference(path, before, after, (), note)
    if b"\0" in (before or b"")[:8192] or b"\0" in after[:8192]:
        text = f"Binary content: {len(before or b'')} bytes become {len(after)} bytes.\n"
        return Difference(text, lines_of(after), lines_of(before or b""), complete=False)
    return _difference(path, before, after, spans, "")


def _decoded(before: bytes | None, after: bytes) -> tuple[str, bytes | None, bytes] | None:
    """Both contents in UTF-8 and a line on what they are, where one of them is UTF-16 or UTF-32 and neither is binary.

    By the bytes alone: nobody's word could make an approver read other text than programs will.
    """
    contents = [each for each in (before, after) if each is not None]
    found = [wide(each) if mark_of(each) in ("utf-16", "utf-32") or b"\0" in each[:8192] else None for each in contents]
    if not any(found):
        return None
    names, texts = [], []
    for content, each in zip(contents, found, strict=True):
        if each is None and b"\0" in content:
            return None
        names.append("as its bytes are" if each is None else f"{each.encoding.upper()}{_MARKED[each.marked]}")
        texts.append(content if each is None else each.text.encode("utf-8"))
    note = names[-1] if len(set(names)) == 1 else f"before {names[0]}, after {names[1]}"
    return f"Shown decoded: {note}.\n", None if before is None else texts[0], texts[-1]


def _difference(path: bytes, before: bytes | None, after: bytes, spans: tuple[Span, ...], note: str) -> Difference:
    old = before or b""
    blocks = [
        part for block in (_of_spans(old, after, spans) if spans else [_Block(0, len(old), 0, len(after))])
        for part in _refined(old, after, block)
    ]  # fmt: skip
    added = sum(lines_of(after[block.new_start : block.new_end]) for block in blocks)
    removed = sum(lines_of(old[block.start : block.end]) for block in blocks)
    name = shown(path)
    head = [f"--- {'/dev/null' if before is None else 'a/' + name}\n", f"+++ b/{name}\n"] if blocks else []
    returns = _all_crlf(old) and _all_crlf(after)
    numbers = (_Lines(old), _Lines(after))
    text = note + "".join(head)
    for number, group in enumerate(groups := list(_grouped(old, blocks))):
        for line in _hunk(old, after, numbers, group, hide_returns=returns):
            if len(text) + len(line) > MAX_DIFFERENCE_CHARS:
                rest = len(groups) - number
                text += f"… the difference is longer than is shown here: {rest} hunks are cut or left out.\n"
                return Difference(text, added, removed, complete=False)
            text += line
    return Difference(text, added, removed, complete=True)


def _of_spans(old: bytes, new: bytes, spans: tuple[Span, ...]) -> list[_Block]:
    """The lines that the spans change, those of spans on common lines together.

    Looks at each byte once: a million spans may stand in one line.
    """
    blocks: list[_Block] = []
    shift = 0
    for span in spans:
        reached = blocks[-1].end if blocks else 0
        if blocks and (span.start < reached or old[reached - 1 : reached] != b"\n"):
            last = blocks.pop()
            start, new_start, end = last.start, last.new_start, last.end
        else:
            start = max(old.rfind(b"\n", reached, span.start) + 1, reached)
            new_start = start + shift
            end = start
        shift += len(span.replacement) - (span.end - span.start)
        if end < span.end or end == span.start:
            whole = span.end > span.start and old[span.end - 1 : span.end] == b"\n"
            end = span.end if whole else _line_end(old, span.end)
        # Where the new text swallowed the line's end, the next line became part of the changed one.
        while end < len(old) and end + shift > new_start and new[end + shift - 1 : end + shift] != b"\n":
            end = _line_end(old, end)
        blocks.append(_Block(start, end, new_start, end + shift))
    return blocks


def _refined(old: bytes, new: bytes, block: _Block) -> Iterator[_Block]:
    """The parts of a block that really differ."""
    if old.count(b"\n", block.start, block.end) + new.count(b"\n", block.new_start, block.new_end) > _SPLIT_LINES:
        yield block
        return
    ours, theirs = _split(old[block.start : block.end]), _split(new[block.new_start : block.new_end])
    head = 0
    while head < min(len(ours), len(theirs)) and ours[head] == theirs[head]:
        head += 1
    tail = 0
    while tail < min(len(ours), len(theirs)) - head and ours[-1 - tail] == theirs[-1 - tail]:
        tail += 1
    at = list(accumulate(map(len, ours), initial=block.start))
    new_at = list(accumulate(map(len, theirs), initial=block.new_start))
    middle, new_middle = ours[head : len(ours) - tail], theirs[head : len(theirs) - tail]
    if not middle and not new_middle:
        return
    codes = [("replace", 0, len(middle), 0, len(new_middle))]
    if len(middle) + len(new_middle) <= _COMPARED_LINES:
        codes = list(SequenceMatcher(None, middle, new_middle).get_opcodes())
    for tag, i1, i2, j1, j2 in codes:
        if tag != "equal":
            yield _Block(at[head + i1], at[head + i2], new_at[head + j1], new_at[head + j2])


def _grouped(old: bytes, blocks: Iterable[_Block]) -> Iterator[list[_Block]]:
    """Blocks whose context touches, together."""
    group: list[_Block] = []
    for block in blocks:
        if group and old.count(b"\n", group[-1].end, block.start) > 2 * _CONTEXT:
            yield group
            group = []
        group.append(block)
    if group:
        yield group


class _Lines:
    """Numbers the lines of a content, for offsets that ascend; counts each byte once."""

    def __init__(self, content: bytes) -> None:
        self._content = content
        self._reached = 0
        self._line = 1

    def place(self, first: int, last: int) -> str:
        """`line,count` of a hunk's head; an empty range counts as behind the line before it."""
        self._line += self._content.count(b"\n", self._reached, first)
        self._reached = first
        count = lines_of(self._content[first:last])
        return f"{self._line if count else self._line - 1},{count}"


def _hunk(
    old: bytes, new: bytes, numbers: tuple[_Lines, _Lines], group: list[_Block], *, hide_returns: bool
) -> Iterator[str]:
    first = group[0].start
    for _ in range(_CONTEXT):
        first = old.rfind(b"\n", 0, max(first - 1, 0)) + 1 if first else 0
    last = group[-1].end
    for _ in range(_CONTEXT):
        last = _line_end(old, last)
    new_first = first + group[0].new_start - group[0].start
    new_last = last + group[-1].new_end - group[-1].end
    yield f"@@ -{numbers[0].place(first, last)} +{numbers[1].place(new_first, new_last)} @@\n"
    reached = first
    for block in group:
        ours, theirs = old[block.start : block.end], new[block.new_start : block.new_end]
        begin = _first_difference(ours, theirs)
        yield from _marked(" ", old[reached : block.start], hide_returns)
        yield from _marked("-", ours, hide_returns, begin)
        yield from _marked("+", theirs, hide_returns, begin)
        reached = block.end
    yield from _marked(" ", old[reached:last], hide_returns)


def _first_difference(one: bytes, other: bytes) -> int:
    """How far two first lines agree, where they are too long to be shown whole."""
    end = min(len(one), len(other), max(_line_end(one, 0), _line_end(other, 0)))
    if end <= _LINE_BYTES:
        return 0
    low, high = 0, end  # the common length lies between; halving compares long stretches at once
    while low < high:
        middle = (low + high + 1) // 2
        low, high = (middle, high) if one[low:middle] == other[low:middle] else (low, middle - 1)
    return low


def _marked(mark: str, content: bytes, hide_returns: bool, begin: int = 0) -> Iterator[str]:
    """The lines of `content` behind their mark. Of a line that is too long a window is shown, around `begin`."""
    start = 0
    while start < len(content):
        end = _line_end(content, start)
        ended = content[end - 1 : end] == b"\n"
        stop = end - ended
        if hide_returns and content[stop - 1 : stop] == b"\r":
            stop -= 1
        left = max(0, begin - _LINE_BYTES // 4) if stop - start > _LINE_BYTES else 0
        window = content[start + left : min(stop, start + left + _LINE_BYTES)]
        text = visible(window.decode("utf-8", "backslashreplace"), keep="\t")
        if len(window) < stop - start:
            text = f"{'…' if left else ''}{text}… ({len(window)} of the line's {stop - start} bytes, from {left})"
        yield f"{mark}{text}\n"
        if not ended:
            yield "\\ No newline at end of file\n"
        start, begin = end, 0


def _split(content: bytes) -> list[bytes]:
    lines = [line + b"\n" for line in content.split(b"\n")]
    lines[-1] = lines[-1][:-1]
    return lines if lines[-1] else lines[:-1]


def _line_end(content: bytes, at: int) -> int:
    """Just behind the end of the line that `at` stands in."""
    found = content.find(b"\n", at)
    return len(content) if found < 0 else found + 1


def _all_crlf(content: bytes) -> bool:
    return content.count(b"\n") == content.count(b"\r\n") == content.count(b"\r")
