"""`edit`: replaces an exact piece of text; only the matched bytes change."""

import re
import unicodedata
from collections.abc import Mapping
from typing import Any

from stockade_toolkit import Answer, Files, Span, ToolError
from stockade_worker.tools import text


def run(arguments: Mapping[str, Any], files: Files) -> Answer:
    old, new = arguments["old_string"], arguments["new_string"]
    if old == new:
        raise ToolError("INVALID_ARGS", "old_string and new_string are the same; nothing would change")
    file = files.open(arguments["path"], for_edit=True)
    data = text.content(file)
    decoded = text.decode(data, file.path, arguments.get("encoding"))
    places = _places(decoded.characters, old)
    if not places:
        raise ToolError("FS_EDIT_NOT_FOUND", _not_found(decoded.characters, old, file.path))
    if len(places) > 1 and not arguments.get("replace_all", False):
        raise ToolError(
            "FS_AMBIGUOUS_EDIT",
            f"old_string occurs {len(places)} times in {file.path}; add surrounding lines until it occurs once, or set "
            "replace_all to true",
        )
    spans = [_span(decoded, start, end, new, file.path) for start, end in places]
    _check(data, decoded, places, spans, file.path)
    done = files.edit(file, spans)
    value = {
        "path": done.path,
        "replacements": len(spans),
        "digest": done.digest,
        "difference": done.difference,
    }
    if done.note:
        value["note"] = done.note
    times = "1 place" if len(spans) == 1 else f"{len(spans)} places"
    note = f" ({done.note})" if done.note else ""
    return Answer(value, f"Changed {done.path} in {times}{note}.\n{done.difference}")


def _places(characters: str, old: str) -> list[tuple[int, int]]:
    """Where `old` stands, as character positions that do not overlap. The one tolerance: LF in `old` matches the
    file's own CRLF, where nothing matches exactly."""
    exact = [(found.start(), found.end()) for found in re.finditer(re.escape(old), characters)]
    if exact or "\n" not in old or "\r\n" not in characters:
        return exact
    tolerant = "\r?\n".join(re.escape(part) for part in re.split("\r?\n", old))
    return [(found.start(), found.end()) for found in re.finditer(tolerant, characters)]


def _span(decoded: text.Text, start: int, end: int, new: str, path: str) -> Span:
    if _ending(decoded.characters, start, end) == "\r\n":
        new = re.sub("(?<!\r)\n", "\r\n", new)
    try:
        replacement = new.encode(decoded.encoding)
    except UnicodeEncodeError as error:
        raise ToolError(
            "INVALID_ARGS",
            f"new_string cannot be written as {decoded.encoding}, the encoding of {path}: {error}",
        ) from None
    return Span(decoded.offset(start), decoded.offset(end), replacement)


def _check(data: bytes, decoded: text.Text, places: list[tuple[int, int]], spans: list[Span], path: str) -> None:
    """Refuses where the bytes of a piece of text depend on what is before it: encodings with shift states (ISO-2022,
    HZ, UTF-7) or combining pairs. There the spans would change other characters than those that were matched."""
    changed, wanted, byte, character = b"", "", 0, 0
    for (start, end), span in zip(places, spans, strict=True):
        changed += data[byte : span.start] + span.replacement
        wanted += decoded.characters[character:start] + span.replacement.decode(decoded.encoding, "replace")
        byte, character = span.end, end
    changed += data[byte:]
    wanted += decoded.characters[character:]
    try:
        same = changed[len(decoded.mark) :].decode(decoded.encoding) == wanted
    except ValueError:
        same = False
    if not same:
        raise ToolError(
            "FS_NOT_TEXT",
            f"{path} cannot be edited piece by piece in {decoded.encoding}, whose bytes depend on context",
        )


def _ending(characters: str, start: int, end: int) -> str:
    """The line ending around a match: its own first one, else that of its last line, else that of the line before."""
    inside = characters.find("\n", start, end)
    after = characters.find("\n", end)
    before = characters.rfind("\n", 0, start)
    place = next((each for each in (inside, after, before) if each >= 0), -1)
    return "\r\n" if place > 0 and characters[place - 1] == "\r" else "\n"


def _not_found(characters: str, old: str, path: str) -> str:
    hint = "read the file again and copy the text exactly, white space included"
    if unicodedata.normalize("NFC", old) in unicodedata.normalize("NFC", characters):
        hint = "the file has it with other, canonically equivalent Unicode characters; copy the text as `read` shows it"
    elif " ".join(old.split()) and " ".join(old.split()) in " ".join(characters.split()):
        hint = "the file has it with other white space; copy the text as `read` shows it"
    return f"old_string does not occur in {path}; {hint}"
