"""`read`: a window of a text file, exactly as it is, and what was shown of it; or an image."""

from collections.abc import Mapping
from itertools import accumulate
from typing import Any

from stockade_toolkit import Answer, OpenedFile, ToolError
from stockade_worker import kinds
from stockade_worker.broker import Broker
from stockade_worker.frames import MAX_IMAGE, MAX_SHOWN, image_kind
from stockade_worker.tools import names, text

# Characters; a longer line is cut unless it alone is asked for, and then does not count as seen.
_LONGEST_LINE = 2000


def run(arguments: Mapping[str, Any], files: Broker) -> Answer:
    file = files.open(arguments["path"])
    data = text.content(file)
    kind = image_kind(data) if arguments.get("encoding") is None else None
    if kind is not None:
        return _image(file, data, kind, files)
    path = names.shown(file.name)
    decoded = text.decode(data, path, arguments.get("encoding"))
    lines = _lines(decoded.characters)
    offset = int(arguments.get("offset", 1))
    limit = int(arguments.get("limit", 2000))
    if offset > max(len(lines), 1):
        raise ToolError(
            "INVALID_ARGS",
            f"{path} has {len(lines)} lines, so there is no line {offset}; repeat with a smaller offset",
        )
    shown, cut, whole = _window(lines, offset, limit)
    starts = list(accumulate(map(len, lines), initial=0))
    for first, last in whole:
        shown_first, shown_last = decoded.byte_lines(data, starts[first - 1], starts[last])
        files.showed(file, shown_first, max(shown_last, shown_first - 1))
    if not lines:
        files.showed(file, 1, 1 if data else 0)  # nothing but a byte-order mark, or nothing at all
    elif not whole:
        files.showed(file, 1, 0)
    last = offset + len(shown) - 1
    value = {
        **names.entry(file.name),
        "content": "".join(shown),
        "first_line": offset,
        "last_line": last,
        "total_lines": len(lines),
        "size": file.size,
        "digest": file.digest,
        "encoding": decoded.encoding,
        "cut_lines": cut,
    }
    return Answer(value, _for_model(path, value, lines))


def _image(file: OpenedFile, data: bytes, kind: str, files: Broker) -> Answer:
    """The image itself. None of its lines is shown, so it does not count as read."""
    name, path = kinds.image_name(kind), names.shown(file.name)
    if len(data) > MAX_IMAGE:
        raise ToolError(
            "FS_NOT_TEXT",
            f"{path} is no text: it is a {name} image of {len(data)} bytes, and images of up to "
            f"{MAX_IMAGE} bytes are shown; make a smaller one of it with a command in `shell`",
        )
    files.image(data)
    value = {**names.entry(file.name), "mime": kind, "size": file.size, "digest": file.digest}
    return Answer(value, f"[{path}: a {name} image of {file.size} bytes]")


def _lines(characters: str) -> list[str]:
    """Lines with their endings; only LF ends a line, and there is no empty line after the last LF."""
    parts = characters.split("\n")
    lines = [f"{part}\n" for part in parts[:-1]]
    return [*lines, parts[-1]] if parts[-1] else lines


def _window(lines: list[str], offset: int, limit: int) -> tuple[list[str], list[int], list[tuple[int, int]]]:
    """The lines to show, the numbers of those that had to be cut, and the ranges shown in full."""
    shown: list[str] = []
    cut: list[int] = []
    whole: list[tuple[int, int]] = []
    used = 0
    for number, line in enumerate(lines[offset - 1 : offset - 1 + limit], start=offset):
        text_of_it = line.removesuffix("\n")
        if len(text_of_it) > _LONGEST_LINE and not (limit == 1 and _fits(line)):
            left_out = f"… [{len(text_of_it) - _LONGEST_LINE} characters of this line left out]"
            line = f"{line[:_LONGEST_LINE]}{left_out}{line[len(text_of_it) :]}"
            cut.append(number)
        size = _size(line)
        if used + size > MAX_SHOWN and shown:
            break
        used += size
        shown.append(line)
        if cut and cut[-1] == number:
            continue
        if whole and whole[-1][1] == number - 1:
            whole[-1] = (whole[-1][0], number)
        else:
            whole.append((number, number))
    return shown, cut, whole


def _size(line: str) -> int:
    return len(line.encode("utf-8", "surrogatepass"))


def _fits(line: str) -> bool:
    """Whether a line can be shown whole, by itself."""
    return _size(line.removesuffix("\n")) <= MAX_SHOWN


def _for_model(path: str, value: dict[str, Any], lines: list[str]) -> str:
    if not lines:
        return f"{path} is empty{' but for its byte-order mark' if value['size'] else ''}."
    body = str(value["content"])
    notes = []
    if value["last_line"] < len(lines):
        notes.append(f"continue with offset={value['last_line'] + 1}")
    if value["cut_lines"]:
        cut = len(value["cut_lines"])
        notes.append(f"{cut} long lines are cut and do not" if cut > 1 else "1 long line is cut and does not")
        notes[-1] += f" count as read; {_remedy(value['cut_lines'], lines)}"
    if lines[-1][-1] != "\n" and value["last_line"] == len(lines):
        notes.append("no newline at the end of the file")
    end = "" if body.endswith("\n") else "\n"
    note = "".join(f"; {each}" for each in notes)
    return f"{body}{end}[{path}: lines {value['first_line']}-{value['last_line']} of {len(lines)}{note}]"


def _remedy(cut: list[int], lines: list[str]) -> str:
    """How to see, or else to change, the lines that were cut."""
    shown_alone = [number for number in cut if _fits(lines[number - 1])]
    advice = []
    if shown_alone:
        which = "it" if len(cut) == 1 else "each" if shown_alone == cut else "those that are shorter"
        advice.append(f"read {which} whole with limit=1 (offset={shown_alone[0]})")
    if len(shown_alone) < len(cut):
        longest = next(number for number in cut if number not in shown_alone)
        which = f"line {longest} is longer than {MAX_SHOWN} bytes, so"
        advice.append(f"{which} look at it and change it with a command in `shell`")
    return "; ".join(advice)
