"""`glob`: the files whose paths fit a pattern. Observes nothing."""

from collections.abc import Mapping
from typing import Any

from stockade_toolkit import Answer, Files, Place, ToolError
from stockade_worker.tools import globs, names
from stockade_worker.tools.listing import Listing, counted

_MOST_FILES = 1000
_MOST_BYTES = 50 * 1024  # of their names
_NOTHING_THERE = ("FS_NOT_FOUND", "FS_NOT_DIRECTORY")


def run(arguments: Mapping[str, Any], files: Files) -> Answer:
    pattern, path = arguments["pattern"], arguments.get("path", ".")
    place = files.locate(f"{path.rstrip('/')}/")  # as a directory: anything else is refused
    found = _Found()
    try:
        place, wanted = _where(pattern, path, place, files)
    except ToolError as error:
        if error.code not in _NOTHING_THERE:
            raise
        return _answer(found, place, str(error))
    if wanted is not None and place.directory:
        _search(found, place, wanted)
        return _answer(found, place, "")
    if not place.directory:
        found.take(place.path)
        return _answer(found, place, "")
    return _answer(found, place, f"{names.shown(place.path)} is a directory; for its files write {pattern}/**")


class _Found:
    def __init__(self) -> None:
        self.files: list[bytes] = []
        self.total = 0
        self.ignored = 0
        self.unreadable = 0
        self.only_ignored = False
        self._bytes = 0

    def take(self, path: bytes) -> None:
        self.total += 1
        self._bytes += len(path) + 1
        if len(self.files) == self.total - 1 and len(self.files) < _MOST_FILES and self._bytes <= _MOST_BYTES:
            self.files.append(path)


def _where(pattern: str, path: str, base: Place, files: Files) -> tuple[Place, globs.Glob | None]:
    """The place that the pattern's plain beginning names, and the rest of it; None where it names one place.

    So what a pattern names is found, whatever rules leave out, and it is the gate that says what is not in the
    workspace. Raises ToolError.
    """
    if "/" not in pattern:
        return base, globs.parse(pattern)
    if pattern.startswith("~/") and not path.strip("./"):
        files.locate("~/")  # the gate says what it says of every path that begins so
    known, rest = globs.fixed(pattern)
    if ".." in rest.split("/"):
        _refuse_upwards(pattern, path, files)
    wanted = globs.parse(rest) if rest else None
    if not known and not pattern.startswith("/"):
        return base, wanted
    place = files.locate(known or "/") if pattern.startswith("/") else files.locate(f"{path}/{known}")
    return place, globs.parse("**") if wanted is None and pattern.endswith("/") else wanted


def _refuse_upwards(pattern: str, path: str, files: Files) -> None:
    """Raises ToolError for `..` behind a name that is not plain: the gate's where it leads out of the workspace."""
    above, _, _ = pattern.rpartition("..")
    try:
        files.locate(f"{path}/{above}..")
    except ToolError as error:
        if error.code == "FS_OUTSIDE_WORKSPACE":
            raise
    raise ToolError("SEARCH_INVALID_PATTERN", f"the glob {pattern!r} goes up with ..; give a directory as path instead")


def _search(found: _Found, place: Place, wanted: globs.Glob) -> None:
    listing = Listing(place.path)
    for path, ignored in listing.files():
        if wanted.matches(listing.below(path)):
            if ignored:
                found.ignored += 1
            else:
                found.take(path)
    found.unreadable = listing.unreadable
    if not found.total and found.ignored and place.path != b".":
        # What fits is ignored, and its directory was named.
        found.only_ignored, found.ignored = True, 0
        for path, _ in listing.files():
            if wanted.matches(listing.below(path)):
                found.take(path)


def _answer(found: _Found, place: Place, hint: str) -> Answer:
    truncated = len(found.files) < found.total
    value = {
        **{f"below{key.removeprefix('path')}": text for key, text in names.entry(place.path).items()},
        "files": [names.entry(path) for path in found.files],
        "total": found.total,
        "truncated": truncated,
        "skipped": {"ignored": found.ignored, "unreadable": found.unreadable},
        "only_ignored": found.only_ignored,
    }
    notes = [f"{counted(found.total, 'file')} found" if found.total else "no file found"]
    if truncated:
        notes.append(
            f"the first {len(found.files)} are listed: for the others narrow the pattern, or give a directory as path"
        )
    if found.only_ignored:
        notes.append("ignored by rule, and listed because their directory was named")
    if found.ignored:
        notes.append(f"{counted(found.ignored, 'more file')} ignored by rule: name their directory to find them")
    if found.unreadable:
        notes.append(f"{counted(found.unreadable, 'place')} could not be read")
    if hint:
        notes.append(hint)
    return Answer(value, "\n".join([*map(names.shown, found.files), f"[{'; '.join(notes)}]"]))
