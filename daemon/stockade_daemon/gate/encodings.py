"""How the bytes of a file are text, as far as the bytes themselves say it; nobody's word is taken for it."""

import codecs
from dataclasses import dataclass
from typing import Final

from stockade_worker.frames import image_kind

_MARKS: Final = (
    # UTF-32's mark begins with that of UTF-16.
    (codecs.BOM_UTF32_LE, "utf-32-le"),
    (codecs.BOM_UTF32_BE, "utf-32-be"),
    (codecs.BOM_UTF16_LE, "utf-16-le"),
    (codecs.BOM_UTF16_BE, "utf-16-be"),
    (codecs.BOM_UTF8, "utf-8"),
)
_ENDS: Final = str.maketrans("", "", "\t\n\r\f")
OTHER: Final = "other"  # text in none of the encodings that can be known
NOT_UTF8: Final = ("utf-16", "utf-32", OTHER)


@dataclass(frozen=True, slots=True)
class Wide:
    """Text whose characters have two or four bytes each."""

    text: str  # without the mark
    encoding: str  # utf-16-le, utf-16-be, utf-32-le, utf-32-be
    marked: bool


def mark_of(content: bytes) -> str | None:
    """utf-8, utf-16 or utf-32, by the byte-order mark at the beginning."""
    return next(
        (name.removesuffix("-le").removesuffix("-be") for mark, name in _MARKS if content.startswith(mark)), None
    )


def encoding_of(content: bytes) -> str | None:
    """ascii, utf-8, utf-16, utf-32 or `OTHER`; None where it is empty or no text."""
    mark = mark_of(content)
    if mark in ("utf-16", "utf-32"):
        return mark
    if not content:
        return None
    if b"\0" in content:
        return "utf-16" if wide(content) else None
    if content.isascii():
        return "ascii"
    try:
        content.decode("utf-8")
    except UnicodeDecodeError:
        return OTHER if image_kind(content) is None else None
    return "utf-8"


def wide(content: bytes) -> Wide | None:
    """UTF-16 or UTF-32 with its byte-order mark, or UTF-16 without one that cannot be much else: all of it is printable
    characters, some of them of Latin-1, which have their NUL on one side. Decoded strictly, so nothing of the bytes is
    lost; None for everything else."""
    for mark, name in _MARKS[:-1]:
        if content.startswith(mark):
            text = _decoded(content[len(mark) :], name)
            return None if text is None else Wide(text, name, marked=True)
    even, odd = content[::2].count(0), content[1::2].count(0)
    if bool(even) == bool(odd):
        return None
    name = "utf-16-le" if odd else "utf-16-be"
    text = _decoded(content, name)
    if text is None or not text.translate(_ENDS).isprintable():
        return None
    return Wide(text, name, marked=False)


def _decoded(content: bytes, encoding: str) -> str | None:
    try:
        return content.decode(encoding)
    except UnicodeDecodeError:
        return None
