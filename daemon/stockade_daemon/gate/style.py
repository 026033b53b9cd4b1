"""What a rewrite of a file changes besides its text: line endings, newline at its end, byte-order mark, encoding.

A write is literal, so these change when the new text has others. Whoever approves it, and the agent, is told.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from stockade_daemon.gate import encodings
from stockade_daemon.values import Json

_NAMES: Final = {"lf": "LF", "crlf": "CRLF", "mixed": "a mixture of LF and CRLF"}
_WIDE: Final = ("utf-16", "utf-32")
_ENCODINGS: Final = {"utf-8": "UTF-8", "utf-16": "UTF-16", "utf-32": "UTF-32", encodings.OTHER: "one that is not UTF-8"}


@dataclass(frozen=True, slots=True)
class _Style:
    line_endings: str | None  # lf, crlf, mixed; None: it has no newline
    final_newline: bool | None  # None: it is empty
    byte_order_mark: str | None
    encoding: str | None  # ascii, utf-8, utf-16, utf-32, other; None: nothing can be said


def changes(before: bytes, after: bytes) -> dict[str, Json]:
    """`line_endings`, `final_newline`, `byte_order_mark`, `encoding`, as far as they differ, each with `before` and
    `after`.

    Content without a line has no line endings to change, and empty content no end. ASCII is the same text in UTF-8 and
    in nearly every other encoding but UTF-16 and UTF-32.
    """
    old, new = _style(before), _style(after)
    found: dict[str, Json] = {}
    if old.line_endings != new.line_endings and old.line_endings and new.line_endings:
        found["line_endings"] = {"before": old.line_endings, "after": new.line_endings}
    if old.final_newline != new.final_newline and None not in (old.final_newline, new.final_newline):
        found["final_newline"] = {"before": old.final_newline, "after": new.final_newline}
    if old.byte_order_mark != new.byte_order_mark:
        found["byte_order_mark"] = {"before": old.byte_order_mark, "after": new.byte_order_mark}
    if _are_others({old.encoding, new.encoding}):
        found["encoding"] = {"before": _unicode(old.encoding), "after": _unicode(new.encoding)}
    return found


def said(style: Mapping[str, Json]) -> str:
    """The same as clauses for people; empty where nothing differs."""
    clauses = []
    for key, value in style.items():
        assert isinstance(value, Mapping)
        before, after = value["before"], value["after"]
        match key:
            case "line_endings":
                clauses.append(f"line endings change from {_NAMES[str(before)]} to {_NAMES[str(after)]}")
            case "final_newline":
                clauses.append("a newline at the end is added" if after else "the newline at the end is removed")
            case "byte_order_mark" if before is None:
                clauses.append(f"a byte-order mark ({after}) is added")
            case "byte_order_mark" if after is None:
                clauses.append(f"the byte-order mark ({before}) is removed")
            case "byte_order_mark":
                clauses.append(f"the byte-order mark changes from {before} to {after}")
            case "encoding":
                names = _ENCODINGS[str(before)], _ENCODINGS[str(after)]
                clauses.append(f"the encoding changes from {names[0]} to {names[1]}")
    return "; ".join(clauses)


def _style(content: bytes) -> _Style:
    mark, encoding = encodings.mark_of(content), encodings.encoding_of(content)
    if encoding in _WIDE and (wide := encodings.wide(content)) is not None:
        # In these a newline has more bytes than one.
        content = wide.text.encode("utf-8")
    feeds, pairs = content.count(b"\n"), content.count(b"\r\n")
    endings = None if feeds == 0 else "lf" if pairs == 0 else "crlf" if pairs == feeds else "mixed"
    return _Style(endings, content.endswith(b"\n") if content else None, mark, encoding)


def _are_others(pair: set[str | None]) -> bool:
    """Whether two encodings are known to be different ones."""
    return len(pair) == 2 and None not in pair and ("ascii" not in pair or not pair.isdisjoint(_WIDE))


def _unicode(encoding: str | None) -> str | None:
    """ASCII beside UTF-16 or UTF-32 is UTF-8 of few characters."""
    return "utf-8" if encoding == "ascii" else encoding
