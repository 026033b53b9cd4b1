"""What a session was shown: per file a digest and the lines that were really returned, or that it was absent.

Windows add up while the digest stays the same; other bytes start anew. The table is keyed by the real path; the
spelling that a file was seen under is kept too, so that a name which now leads to another file is noticed.
Lines are counted from 1, both ends included. Only the event loop's thread touches a table.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeAlias

from stockade_daemon.errors import ToolFailure
from stockade_daemon.gate.names import body_of, of_body, shown
from stockade_daemon.values import Json

Ranges: TypeAlias = tuple[tuple[int, int], ...]  # (first, last), ascending, never touching


@dataclass(frozen=True, slots=True)
class Observation:
    """What was seen of one file at one time."""

    path: bytes  # real, relative to the workspace
    asked: bytes  # the spelling it was seen under, relative to the workspace
    digest: str | None  # SHA-256 of the raw bytes; None: it was absent
    size: int = 0
    line_count: int = 0  # of the whole file
    lines: Ranges = ()  # those shown

    @property
    def whole(self) -> bool:
        """Whether every line was shown. An empty file has none to show."""
        return self.digest is not None and covers(self.lines, 1, self.line_count)

    def body(self) -> dict[str, Json]:
        """The body of the `fs/observed` event: `path`, `state`, and for a present file `digest`, `size`,
        `line_count`, `lines` as [first, last] pairs; `asked` where it was spelled differently."""
        body = body_of("path", self.path)
        if self.asked != self.path:
            body |= body_of("asked", self.asked)
        if self.digest is None:
            return body | {"state": "absent"}
        return body | {
            "state": "present",
            "digest": self.digest,
            "size": self.size,
            "line_count": self.line_count,
            "lines": [list(pair) for pair in self.lines],
        }


class Observations:
    """One session's table."""

    __slots__ = ("_of", "_spelled")

    def __init__(self) -> None:
        self._of: dict[bytes, Observation] = {}
        self._spelled: dict[bytes, bytes] = {}  # spelling → real path it led to

    def add(self, seen: Observation) -> None:
        """Takes in something shown; at an unchanged digest the lines add up."""
        before = self._of.get(seen.path)
        if before is not None and seen.digest is not None and before.digest == seen.digest:
            seen = replace_lines(seen, merged((*before.lines, *seen.lines)))
        self.put(seen)

    def put(self, seen: Observation) -> None:
        """Replaces what was known of the file, as after an own commit."""
        self._of.pop(seen.path, None)
        self._of[seen.path] = seen  # at the end: the latest
        if seen.asked != seen.path:
            self._spelled[seen.asked] = seen.path
        else:
            self._spelled.pop(seen.asked, None)

    def of_content(self, digest: str | None) -> list[bytes]:
        """The files that the session knows to have this content."""
        return [path for path, seen in self._of.items() if seen.digest == digest]

    def follow(self, own: Observation, before: str | None, names: Iterable[bytes]) -> tuple[Observation, ...]:
        """After an own commit, what is known of the file under its other `names` that had the content `before`.

        Under one that was seen whole it still is: what is new the session wrote itself.
        """
        followed = []
        for path in names:
            known = self._of.get(path)
            if known is None or known.digest != before:
                continue
            lines = merged([(1, own.line_count)]) if known.whole else own.lines
            seen = Observation(path, known.asked, own.digest, own.size, own.line_count, lines)
            self.put(seen)
            followed.append(seen)
        return tuple(followed)

    def find(self, real: bytes, asked: bytes) -> Observation | None:
        """What was seen of the file, or failing that, of the file that this spelling led to before."""
        return self._of.get(real) or self._of.get(self._spelled.get(asked, asked))

    def digest(self, path: bytes) -> str | None:
        """Of the real path; None where it was absent, or is not known."""
        seen = self._of.get(path)
        return None if seen is None else seen.digest

    def latest(self, count: int) -> dict[bytes, str | None]:
        """Path and digest of the files that were seen last."""
        paths = list(self._of)[-count:]
        return {path: self._of[path].digest for path in paths}


def restored(body: Mapping[str, Json]) -> Observation:
    """The observation that a recorded body tells of. Raises ValueError where it tells none."""
    path = of_body(body, "path")
    if path is None:
        raise ValueError(f"a recorded observation names no path: {body!r}")
    asked = of_body(body, "asked") or path
    if body.get("state") == "absent":
        return Observation(path, asked, None)
    digest, size, count, lines = (body.get(key) for key in ("digest", "size", "line_count", "lines"))
    if not (isinstance(digest, str) and isinstance(size, int) and isinstance(count, int)):
        raise ValueError(f"a recorded observation is incomplete: {body!r}")
    return Observation(path, asked, digest, size, count, _pairs(lines))


def restored_names(body: Mapping[str, Json]) -> list[Observation]:
    """The observations under other names that a recorded commit tells of. Raises ValueError."""
    names = body.get("names_seen", ())
    if not isinstance(names, Sequence) or isinstance(names, str):
        raise ValueError(f"a recorded commit tells of the names {names!r}, which is no list")
    found = []
    for each in names:
        if not isinstance(each, Mapping):
            raise ValueError(f"a recorded commit tells of a name {each!r}, which is no observation")
        found.append(restored(each))
    return found


def part_of(opened: Observation, first: int, last: int) -> Observation:
    """Lines `first` to `last` of an opened file, as said by a tool; none whole where `last` = `first` - 1.

    Raises ToolFailure INVALID_TOOL_OUTPUT where the file has no such lines.
    """
    if not (1 <= first <= last + 1 and last <= opened.line_count):
        raise ToolFailure(
            "INVALID_TOOL_OUTPUT",
            f"The tool says that it showed lines {first}–{last} of {shown(opened.path)}, which has "
            f"{opened.line_count}. This is a fault of the tool.",
        )
    return replace_lines(opened, ((first, last),) if first <= last else ())


def replace_lines(seen: Observation, lines: Ranges) -> Observation:
    return Observation(seen.path, seen.asked, seen.digest, seen.size, seen.line_count, lines)


def merged(ranges: Iterable[tuple[int, int]]) -> Ranges:
    """The union: ascending, with neighbours joined and empty ranges left out."""
    result: list[tuple[int, int]] = []
    for first, last in sorted(pair for pair in ranges if pair[0] <= pair[1]):
        if result and first <= result[-1][1] + 1:
            result[-1] = (result[-1][0], max(result[-1][1], last))
        else:
            result.append((first, last))
    return tuple(result)


def covers(ranges: Ranges, first: int, last: int) -> bool:
    """Whether lines `first` to `last` are all in `ranges`; true for none at all."""
    return first > last or any(low <= first and last <= high for low, high in ranges)


def _pairs(value: Json) -> Ranges:
    if not isinstance(value, Sequence) or isinstance(value, str):
        raise ValueError(f"recorded lines are {value!r}, not pairs of numbers")
    pairs = []
    for pair in value:
        match pair:
            case [int(first), int(last)]:
                pairs.append((first, last))
            case _:
                raise ValueError(f"recorded lines hold {pair!r}, not a pair of numbers")
    return merged(pairs)
