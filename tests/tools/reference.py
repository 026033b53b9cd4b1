"""What a change of a text comes to, worked out plainly: decode all, replace, encode all."""

import codecs
import re
from dataclasses import dataclass

_MARKS = {
    "utf-16": ((codecs.BOM_UTF16_LE, "utf-16-le"), (codecs.BOM_UTF16_BE, "utf-16-be")),
    "utf-32": ((codecs.BOM_UTF32_LE, "utf-32-le"), (codecs.BOM_UTF32_BE, "utf-32-be")),
    "utf-8": ((codecs.BOM_UTF8, "utf-8"),),
    "utf-8-sig": ((codecs.BOM_UTF8, "utf-8"),),
}


@dataclass(frozen=True, slots=True)
class Edit:
    old: str
    new: str
    everywhere: bool

    def arguments(self) -> dict[str, str | bool]:
        return {"old_string": self.old, "new_string": self.new, "replace_all": self.everywhere}


def text_of(data: bytes, encoding: str) -> tuple[bytes, str, str] | None:
    """A file's byte-order mark, its characters, and the encoding of these; None: it is no such text."""
    mark, name = next(
        ((mark, name) for mark, name in _MARKS.get(encoding, ()) if data.startswith(mark)),
        (b"", {"utf-16": "utf-16-le", "utf-32": "utf-32-le", "utf-8-sig": "utf-8"}.get(encoding, encoding)),
    )
    try:
        return mark, data[len(mark) :].decode(name), name
    except ValueError:
        return None


def edited(text: str, edits: list[Edit]) -> str | None:
    """The text after all edits, each on the result of the one before; None: one does not say where."""
    for edit in edits:
        pattern = re.compile(re.escape(edit.old))
        if "\n" in edit.old and "\r\n" in text:
            # The one tolerance: LF also stands for CRLF.
            pattern = re.compile("\r?\n".join(re.escape(part) for part in re.split("(?<!\r)\n", edit.old)))
        places = [found.span() for found in pattern.finditer(text)]
        # All places, also those within another; the LF of a CRLF at the beginning is the same one.
        begins = [at for at in range(len(text)) if pattern.match(text, at)]
        if edit.old.startswith("\n"):
            begins = [at for at in begins if text[at - 1 : at + 1] != "\r\n"]
        if not places or (len(begins) > 1 and not edit.everywhere):
            return None
        # Every place as it was when this edit began: what it writes at one says nothing about another.
        before = text
        for start, end in reversed(places):
            text = text[:start] + _like_there(edit.new, before, start, end) + text[end:]
    return text


def _like_there(new: str, text: str, start: int, end: int) -> str:
    """`new` with the line ending of what it replaces: that of its first line, or of the line where it ends, or of the
    line before."""
    at = text.find("\n", start, end)
    if at < 0:
        at = text.find("\n", end)
    if at < 0:
        at = text.rfind("\n", 0, start)
    if at > 0 and text[at - 1] == "\r":
        return new.replace("\r\n", "\n").replace("\n", "\r\n")
    return new
