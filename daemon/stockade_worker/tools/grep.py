"""`grep`: the lines of files that match a regular expression. Observes nothing.

listing → candidates (include, kind, size) → ripgrep, some files at a time → lines, up to a limit
"""

import os
import stat
from collections.abc import Generator, Mapping
from contextlib import closing
from dataclasses import dataclass, field
from typing import Any

from stockade_toolkit import Answer, Files, Place, ToolError
from stockade_worker.tools import expression, globs, names
from stockade_worker.tools.found import Found, answer
from stockade_worker.tools.listing import Listing, walk
from stockade_worker.tools.matching import Matching

_LARGE = 64 * 1024 * 1024  # bytes of a file: a line may be as long, and ripgrep holds one whole, twice
_LOOKED_AT = 64 * 1024  # bytes of a large file, to see whether it is binary
_BY_NAME = ("--no-ignore", "--threads=1")  # one thread: in the order of the names
_FIRST_FILES, _MOST_FILES = 100, 4000  # of one run of ripgrep
_MOST_BYTES = 256 * 1024  # of their names: an eighth of what execve(2) takes


@dataclass(frozen=True, slots=True)
class _Search:
    """What a call asks for. `options`: ripgrep's, with the pattern."""

    options: tuple[str, ...]
    place: Place
    include: globs.Glob | None


def run(arguments: Mapping[str, Any], files: Files) -> Answer:
    case = ("--ignore-case",) if arguments.get("ignore_case", False) else ()
    # Small limits for what a pattern may become: one that needs more is refused, and takes no memory.
    sizes = ("--regex-size-limit=10M", "--dfa-size-limit=10M")
    pattern = (*case, "--crlf", *sizes, "-e", arguments["pattern"])
    include = globs.parse(arguments["include"]) if "include" in arguments else None
    expression.check(pattern, arguments["pattern"])
    context = int(arguments.get("context", 0))
    search = _Search((*pattern, f"--context={context}"), files.locate(arguments.get("path", ".")), include)
    found = Found(int(arguments.get("limit", 250)), context)
    if search.place.directory:
        _below(search, found)
    else:
        _one(search, found)
    return answer(found)


def _one(search: _Search, found: Found) -> None:
    path = search.place.path
    if search.include is not None and not search.include.matches(os.path.basename(path)):
        return
    try:
        large = os.lstat(path).st_size > _LARGE
        with open(path, "rb") as file:
            if large and b"\0" in file.read(_LOOKED_AT):
                shown = names.shown(path)
                raise ToolError(
                    "FS_NOT_TEXT", f"{shown} is a large binary file: it has NUL bytes; look at it with `shell`"
                )
    except OSError as error:
        raise ToolError("FS_IO_ERROR", f"cannot read {names.shown(path)}: {error.strerror}; check its mode") from None
    _run(_BY_NAME, search, [path], found)


def _below(search: _Search, found: Found) -> None:
    """All files below the place; those that are ignored where there are no others, since the place was named."""
    if search.include is None:
        _tree(search, found)
    else:
        _files(search, found, with_ignored=False)
    if not found.full and not found.searched and found.ignored and search.place.path != b".":
        found.only_ignored, found.ignored, found.unreadable = True, 0, 0
        _files(search, found, with_ignored=True)


def _tree(search: _Search, found: Found) -> None:
    """ripgrep walks by itself, which is faster; what it leaves out is looked for afterwards."""
    start = search.place.path
    _run((*walk(start), f"--max-filesize={_LARGE}"), search, [start], found)
    if found.full:
        return
    for path, ignored in Listing(start).files():
        if ignored:
            found.ignored += 1
        elif _size(path) > _LARGE:
            found.too_large += 1
        else:
            found.searched += 1


def _files(search: _Search, found: Found, *, with_ignored: bool) -> None:
    """ripgrep gets the files by name, some at a time."""
    with closing(_Candidates(search, found, with_ignored).batches()) as batches:
        for paths in batches:
            found.searched += len(paths)
            _run(_BY_NAME, search, paths, found)
            if found.full:
                return


def _run(options: tuple[str, ...], search: _Search, paths: list[bytes], found: Found) -> None:
    matching = Matching((*options, *search.options), paths)
    with closing(matching.found()) as lines:
        for line in lines:
            found.take(line)
            if found.full:
                return
    found.unreadable += matching.unreadable


def _size(path: bytes) -> int:
    """In bytes; 0 of what is gone since it was listed."""
    try:
        return os.lstat(path).st_size
    except OSError:
        return 0


@dataclass(slots=True)
class _Candidates:
    """The files to search; what is skipped is counted in `found`."""

    search: _Search
    found: Found
    with_ignored: bool  # take what is ignored, too
    _names: list[bytes] = field(default_factory=list)

    def batches(self) -> Generator[list[bytes], None, None]:
        """Files in their order, few at first, so that a full answer comes soon."""
        most, used = _FIRST_FILES, 0
        listing = Listing(self.search.place.path)
        with closing(listing.files()) as files:
            for path, ignored in files:
                include = self.search.include
                if include is not None and not include.matches(listing.below(path)):
                    continue
                if ignored and not self.with_ignored:
                    self.found.ignored += 1
                elif self._takes(path):
                    self._names.append(path)
                    used += len(path) + 1
                    if len(self._names) >= most or used > _MOST_BYTES:
                        yield self._taken()
                        most, used = _MOST_FILES, 0
        self.found.unreadable += listing.unreadable
        if self._names:
            yield self._taken()

    def _taken(self) -> list[bytes]:
        taken, self._names = self._names, []
        return taken

    def _takes(self, path: bytes) -> bool:
        try:
            status = os.lstat(path)
        except OSError:
            return False  # gone since it was listed
        if not stat.S_ISREG(status.st_mode):
            return False
        if status.st_size > _LARGE:
            self.found.too_large += 1
            return False
        if not os.access(path, os.R_OK):
            self.found.unreadable += 1
            return False
        return True
