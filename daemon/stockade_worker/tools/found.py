"""What a search has found so far, within its limits, and the answer that it makes."""

from typing import Any

from stockade_toolkit import Answer
from stockade_worker.tools import names
from stockade_worker.tools.listing import counted
from stockade_worker.tools.matching import LONGEST, Binary, Line

_MOST_BYTES = 50 * 1024  # of lines and names: below what the model is given of a result
_MOST_LIMIT = 2000  # that a call can ask for
_NAMED = 20  # binary files


class Found:
    """`limit`: how many matching lines are taken."""

    def __init__(self, limit: int, context: int) -> None:
        self.lines: list[Line] = []
        self.matches = 0  # lines that match, one more than were taken where it is full
        self.binary: list[bytes] = []
        self.binary_files = 0
        self.searched = 0
        self.ignored = 0
        self.too_large = 0
        self.unreadable = 0
        self.only_ignored = False
        self.full = False
        self._limit = limit
        self._context = context
        self._bytes = 0

    def take(self, each: Line | Binary) -> None:
        """Takes a line, or notes that nothing more fits."""
        if isinstance(each, Binary):
            self.binary_files += 1
            if len(self.binary) < _NAMED:
                self.binary.append(each.path)
            return
        self._bytes += len(each.text.encode()) + 8
        if not self.lines or self.lines[-1].path != each.path:
            self._bytes += len(each.path) + 1
        if each.column is not None:
            self.matches += 1
        if self.matches > self._limit or (self._bytes > _MOST_BYTES and self.lines):
            self.full = True
            if each.column is None:
                self.matches += 1
            self._forget_what_comes_before()
        else:
            self.lines.append(each)

    def _forget_what_comes_before(self) -> None:
        """Lines that were printed for a match which is not taken."""
        last = next((line for line in reversed(self.lines) if line.column is not None), None)
        while self.lines and (last is None or not self._is_around(self.lines[-1], last)):
            self.lines.pop()

    def _is_around(self, line: Line, match: Line) -> bool:
        return line.path == match.path and line.number <= match.number + self._context


def answer(found: Found) -> Answer:
    matching = [line for line in found.lines if line.column is not None]
    value: dict[str, Any] = {
        "matches": [{**_value(line), "column": line.column} for line in matching],
        "total": found.matches,
        "truncated": found.full,
        "binary_matches": [names.entry(path) for path in found.binary],
        # Who stops early has not seen all that there is to skip.
        "skipped": None
        if found.full
        else {"ignored": found.ignored, "too_large": found.too_large, "unreadable": found.unreadable},
        "only_ignored": found.only_ignored,
    }
    if len(matching) < len(found.lines):
        value["context"] = [_value(line) for line in found.lines if line.column is None]
    return Answer(value, "\n".join([*_shown(found.lines), f"[{'; '.join(_notes(found, matching))}]"]))


def _value(line: Line) -> dict[str, Any]:
    marks = {name: True for name, there in (("cut", line.cut), ("escaped", line.escaped)) if there}
    return {**names.entry(line.path), "line": line.number, "text": line.text, **marks}


def _shown(lines: list[Line]) -> list[str]:
    """Lines below the names of their files; `:` stands behind the number of a line that matches."""
    shown: list[str] = []
    before: Line | None = None
    for line in lines:
        if before is None or before.path != line.path:
            shown += [*([""] if before else []), names.shown(line.path)]
        elif line.number > before.number + 1 and any(each.column is None for each in lines):
            shown.append("  …")
        shown.append(f"  {line.number}{':' if line.column is not None else '-'} {line.text}")
        before = line
    return shown


def _notes(found: Found, matching: list[Line]) -> list[str]:
    files = counted(len({line.path for line in matching}), "file")
    if found.full:
        notes = [
            f"the first {len(matching)} matching lines, in {files}, of at least {found.matches}: for the others narrow "
            f"pattern, path or include, or give a limit of up to {_MOST_LIMIT}; {_MOST_BYTES // 1024} KiB are shown "
            "at most"
        ]
    elif matching:
        notes = [f"{counted(len(matching), 'matching line')} in {files}"]
    else:
        notes = ["no line matches"]
    if found.binary_files:
        some = ", ".join(map(names.shown, found.binary)) + (" …" if found.binary_files > len(found.binary) else "")
        notes.append(f"{counted(found.binary_files, 'binary file')} matching, not shown: {some}")
    if found.only_ignored:
        notes.append("ignored by rule, and searched because the directory was named")
    if found.full:
        return [*notes, "what would be skipped is not counted"]
    if found.ignored:
        notes.append(f"{counted(found.ignored, 'file')} skipped, ignored by rule: name a path to search there")
    if found.too_large:
        notes.append(f"{counted(found.too_large, 'file')} above 64 MiB skipped: name one as path to search it")
    if found.unreadable:
        notes.append(f"{counted(found.unreadable, 'place')} could not be read")
    if any(line.cut for line in found.lines):
        notes.append(f"lines of more than {LONGEST} bytes are cut")
    if any(line.escaped for line in found.lines):
        notes.append("bytes that are not UTF-8 are shown as \\xNN")
    return notes
