"""Bytes of a file as text, strictly: what cannot be decoded is refused, never replaced."""

import codecs
import os
from dataclasses import dataclass

from stockade_toolkit import OpenedFile, ToolError
from stockade_worker import kinds

_MARKS = (
    (codecs.BOM_UTF32_LE, "utf-32"),
    (codecs.BOM_UTF32_BE, "utf-32"),
    (codecs.BOM_UTF16_LE, "utf-16"),
    (codecs.BOM_UTF16_BE, "utf-16"),
)


@dataclass(frozen=True, slots=True)
class Text:
    """Decoded content: `mark` is the byte-order mark that was left out, `encoding` what decodes the rest."""

    characters: str
    mark: bytes
    encoding: str

    def offset(self, position: int) -> int:
        """The byte offset in the file of a character position."""
        return len(self.mark) + len(self.characters[:position].encode(self.encoding))

    def byte_lines(self, data: bytes, start: int, end: int) -> tuple[int, int]:
        """The lines of the file's bytes, which end with 0x0A, that lie within characters `start` to `end`: first, last.

        What the gate counts. In most encodings these are the lines of the text; in UTF-16 and UTF-32 a newline has
        more bytes, the rest of which begins the next line of bytes, and 0x0A may stand inside a character.
        """
        low = self.offset(start) if start else 0
        high = self.offset(end) if end < len(self.characters) else len(data)
        if start and self.characters[start - 1] == "\n":
            # Up to the 0x0A of the newline before: the bytes after it belong to a character that is known.
            low = data.rindex(b"\n", 0, low) + 1
        whole = low == 0 or data[low - 1] == 0x0A
        first = data.count(b"\n", 0, low) + (1 if whole else 2)
        ends = high == len(data) and not data.endswith(b"\n")
        return first, data.count(b"\n", 0, high) + (1 if ends else 0)


def content(file: OpenedFile) -> bytes:
    """All bytes of an opened file."""
    with os.fdopen(file.descriptor, "rb") as source:
        return source.read()


def decode(data: bytes, path: str, encoding: str | None) -> Text:
    """Raises ToolError: FS_NOT_TEXT (binary), FS_NOT_UTF8 (names a likely one), INVALID_ARGS (no such encoding)."""
    if encoding is None:
        marked = next((name for mark, name in _MARKS if data.startswith(mark)), None)
        if marked:
            raise ToolError("FS_NOT_UTF8", f"{path} is {marked.upper()}, not UTF-8; repeat with encoding={marked!r}")
        if b"\0" in data:
            raise _binary(data, path, kinds.described(data) or "a binary file")
    name = known(encoding or "utf-8")
    mark, name = _mark(data, name)
    try:
        characters = data[len(mark) :].decode(name)
    except (UnicodeDecodeError, ValueError) as error:
        if encoding is None and (what := kinds.described(data)):
            raise _binary(data, path, what) from None
        if encoding is None:
            raise ToolError("FS_NOT_UTF8", f"{path} is not UTF-8; repeat with encoding={_likely(data)!r}") from None
        raise ToolError("FS_NOT_UTF8", f"{path} is not {encoding}: {error}; name another encoding") from None
    if characters.encode(name) != data[len(mark) :]:
        # A stateful or lenient codec would write back other bytes than it read.
        raise ToolError("FS_NOT_TEXT", f"{path} does not survive decoding and encoding as {encoding}; use another")
    return Text(characters, mark, name)


def _binary(data: bytes, path: str, what: str) -> ToolError:
    size = f"{len(data)} byte" if len(data) == 1 else f"{len(data)} bytes"
    return ToolError("FS_NOT_TEXT", f"{path} is no text: it is {what} of {size}; look at it with a command in `shell`")


def known(encoding: str) -> str:
    """Python's name of an encoding. Raises ToolError INVALID_ARGS where there is none, or it is none of text."""
    try:
        found = codecs.lookup(encoding)
        "".encode(found.name)
    except (LookupError, ValueError):
        raise ToolError("INVALID_ARGS", f"there is no encoding {encoding!r}; name one such as 'latin-1'") from None
    if not found._is_text_encoding:
        raise ToolError("INVALID_ARGS", f"{encoding!r} is not a text encoding; name one such as 'latin-1'")
    return found.name


def _mark(data: bytes, name: str) -> tuple[bytes, str]:
    if name in ("utf-8", "utf-8-sig"):
        return (codecs.BOM_UTF8 if data.startswith(codecs.BOM_UTF8) else b""), "utf-8"
    for mark, kind in _MARKS:
        if name == kind and data.startswith(mark):
            return mark, f"{kind}-{'le' if mark in (codecs.BOM_UTF32_LE, codecs.BOM_UTF16_LE) else 'be'}"
    return b"", f"{name}-le" if name in ("utf-16", "utf-32") else name


def _likely(data: bytes) -> str:
    """A guess for the error text: a multi-byte encoding that decodes without loss, else a Windows one, else Latin-1."""
    for name in ("shift_jis", "euc_jp", "gb18030", "big5", "euc_kr"):
        high = sum(byte >= 0x80 for byte in data)
        try:
            if high > 3 and sum(ord(each) > 0x2E80 for each in data.decode(name)) * 2 >= high * 0.9:
                return name
        except UnicodeDecodeError:
            continue
    try:
        data.decode("cp1252")
        return "cp1252"
    except UnicodeDecodeError:
        return "latin-1"
