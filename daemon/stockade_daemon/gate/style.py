"""What a rewrite of a file changes besides its text: line endings, the newline at its end, its byte-order mark.

A write is literal, so these change when the new text has others. Whoever approves it, and the agent, is told.
"""

import codecs
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from stockade_daemon.values import Json

_MARKS: Final = (
    # UTF-32's mark begins with that of UTF-16.
    (codecs.BOM_UTF32_LE, "utf-32"),
    (codecs.BOM_UTF32_BE, "utf-32"),
    (codecs.BOM_UTF16_LE, "utf-16"),
    (codecs.BOM_UTF16_BE, "utf-16"),
    (codecs.BOM_UTF8, "utf-8"),
)
_NAMES: Final = {"lf": "LF", "crlf": "CRLF", "mixed": "a mixture of LF and CRLF"}


@dataclass(frozen=True, slots=True)
class _Style:
    line_endings: str | None  # lf, crlf, mixed; None: it has no newline
    final_newline: bool | None  # None: it is empty
    byte_order_mark: str | None


def changes(before: bytes, after: bytes) -> dict[str, Json]:
    """`line_endings`, `final_newline`, `byte_order_mark`, as far as they differ, each with `before` and `after`.

    Content without a line has no line endings to change, and empty content no end.
    """
    old, new = _style(before), _style(after)
    found: dict[str, Json] = {}
    if old.line_endings != new.line_endings and old.line_endings and new.line_endings:
        found["line_endings"] = {"before": old.line_endings, "after": new.line_endings}
    if old.final_newline != new.final_newline and None not in (old.final_newline, new.final_newline):
        found["final_newline"] = {"before": old.final_newline, "after": new.final_newline}
    if old.byte_order_mark != new.byte_order_mark:
        found["byte_order_mark"] = {"before": old.byte_order_mark, "after": new.byte_order_mark}
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
    return "; ".join(clauses)


def _style(content: bytes) -> _Style:
    mark = next((name for each, name in _MARKS if content.startswith(each)), None)
    if mark in ("utf-16", "utf-32"):
        # In these a newline has more bytes than one.
        content = content.decode(mark, "replace").encode("utf-8", "replace")
    feeds, pairs = content.count(b"\n"), content.count(b"\r\n")
    endings = None if feeds == 0 else "lf" if pairs == 0 else "crlf" if pairs == feeds else "mixed"
    return _Style(endings, content.endswith(b"\n") if content else None, mark)
