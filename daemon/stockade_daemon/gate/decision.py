"""Observation × disk → decision: the whole table in one place, without any input or output.

| this session has seen  | on disk        | write                  | edit                                   |
|------------------------|----------------|------------------------|----------------------------------------|
| nothing                | nothing        | create                 | FS_NOT_FOUND                           |
| nothing                | a file         | FS_NOT_OBSERVED        | FS_NOT_OBSERVED                        |
| all of it              | same digest    | update                 | update                                 |
| a part                 | same digest    | FS_PARTIAL_OBSERVATION | update if the changed lines were seen  |
| any of it, or absence  | other bytes    | FS_STALE_VERSION       | FS_STALE_VERSION                       |
| any of it, or absence  | nothing        | create (says so)       | FS_NOT_FOUND                           |
| absence, or nothing    | appears¹       | FS_STALE_VERSION       | –                                      |
| any of it              | vanishes¹      | FS_STALE_VERSION       | FS_STALE_VERSION                       |

¹ between decision and commit, which publish.py finds under the file's lock.

A write replaces text that is not UTF-8 only where the call names an encoding, else it is FS_NOT_UTF8. Content decides,
never a clock or an inode number. Staleness is found before anything is matched or measured.
"""

import re
from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

from stockade_daemon.errors import GateRefusal
from stockade_daemon.gate import encodings, style
from stockade_daemon.gate import spans as spans_
from stockade_daemon.gate.content import MAX_FILE_BYTES, Snapshot, digest_of, lines_of
from stockade_daemon.gate.difference import difference
from stockade_daemon.gate.intents import EditIntent, Planned, WriteIntent
from stockade_daemon.gate.names import shown
from stockade_daemon.gate.observations import Observation, Ranges, covers
from stockade_daemon.gate.refusals import changed, not_observed, not_utf8, stale, too_large
from stockade_daemon.values import Json
from stockade_worker.frames import MAX_SHOWN

_TOO_LONG: Final = re.compile(rb"^[^\n]{%d,}" % (MAX_SHOWN + 1), re.MULTILINE)
_NOTHING: Final[Mapping[str, Json]] = MappingProxyType({})


def admit_edit(asked: bytes, seen: Observation | None, disk: Snapshot | None) -> Snapshot:
    """What of an edit can be judged before its spans are known: the file is there, was seen, and is unchanged."""
    if disk is None:
        raise GateRefusal(
            "FS_NOT_FOUND", f"{shown(asked)} does not exist. Check the path; an edit changes files that are there."
        )
    _same(asked, seen, disk)
    return disk


def plan_edit(
    intent: EditIntent, real: bytes, asked: bytes, seen: Observation | None, disk: Snapshot | None
) -> Planned:
    """Raises GateRefusal by the table; ToolFailure for spans that cannot be."""
    disk = admit_edit(asked, seen, disk)
    if intent.base != disk.digest:
        raise changed(asked, intent.base, disk.digest)
    spans_.check(intent.spans, len(disk.content))
    lines = seen.lines if seen else ()
    for first, last in spans_.touched(disk.content, intent.spans):
        if not covers(lines, first, last):
            what = f"Line {first}" if first == last else f"Lines {first}–{last}"
            raise GateRefusal(
                "FS_PARTIAL_OBSERVATION",
                f"{what} of {shown(asked)} would change, and this session has not seen all of that "
                f"whole. {_way_to_see(disk.content, lines, first, last)}",
            )
    content = spans_.apply(disk.content, intent.spans)
    whole = covers(lines, 1, disk.lines)
    after = None if whole else spans_.carried(disk.content, content, intent.spans, lines)
    return _planned(real, asked, disk, content, lines=after, spans=intent.spans)


def plan_write(
    intent: WriteIntent, real: bytes, asked: bytes, seen: Observation | None, disk: Snapshot | None
) -> Planned:
    """Raises GateRefusal by the table."""
    if disk is None:
        gone = seen is not None and seen.digest is not None
        note = "the file that this session had seen is gone; this makes it anew" if gone else ""
        return _planned(real, asked, None, intent.content, note=note)
    seen = _same(asked, seen, disk)
    if not seen.whole:
        raise GateRefusal(
            "FS_PARTIAL_OBSERVATION",
            f"{shown(asked)} has {_counted(disk.lines)}, and this session has not seen all of "
            f"{'it' if disk.lines == 1 else 'them'} whole. {_way_to_see(disk.content, seen.lines, 1, disk.lines)}"
            f"{' Or change the lines that were shown with `edit`.' if seen.lines else ''}",
        )
    if not intent.encoding_chosen and encodings.encoding_of(disk.content) in encodings.NOT_UTF8:
        raise not_utf8(asked, encodings.mark_of(disk.content))
    changed_style = style.changes(disk.content, intent.content)
    return _planned(real, asked, disk, intent.content, note=style.said(changed_style), changed_style=changed_style)


def _way_to_see(content: bytes, seen: Ranges, first: int, last: int) -> str:
    """What to do about lines `first` to `last`, of which some have not been seen: read them, where that can be."""
    number, reached = 1, 0
    for found in _TOO_LONG.finditer(content):
        number, reached = number + content.count(b"\n", reached, found.start()), found.start()
        if first <= number <= last and not covers(seen, number, number):
            return (
                f"Line {number} is longer than the {MAX_SHOWN} bytes that `read` shows, so a call like this cannot "
                "change it. Use a command in `shell`."
            )
    before = max((end for start, end in seen if start <= first), default=0)
    start = max(first, before + 1)
    end = min((begin - 1 for begin, _ in seen if begin > start), default=last)
    end = min(end, last)
    alone = "" if start == end else "; a line that is cut there is shown whole when it is read alone (limit 1)"
    return f"Read from there with `read` (offset {start}, limit {end - start + 1}){alone}, then repeat the call."


def _counted(lines: int) -> str:
    return "1 line" if lines == 1 else f"{lines} lines"


def _same(asked: bytes, seen: Observation | None, disk: Snapshot) -> Observation:
    if seen is None:
        raise not_observed(asked)
    if seen.digest is None:
        raise stale(asked, "did not exist when this session looked, and does now")
    if seen.digest != disk.digest:
        raise changed(asked, seen.digest, disk.digest)
    return seen


def _planned(
    real: bytes,
    asked: bytes,
    disk: Snapshot | None,
    content: bytes,
    *,
    lines: Ranges | None = None,
    spans: tuple[spans_.Span, ...] = (),
    note: str = "",
    changed_style: Mapping[str, Json] = _NOTHING,
) -> Planned:
    """`lines`: those known afterwards; None means all."""
    if len(content) > MAX_FILE_BYTES:
        raise too_large(asked, len(content), MAX_FILE_BYTES)
    after = digest_of(content)
    count = lines_of(content)
    if disk is not None and disk.status.st_nlink > 1:
        in_place = f"written in place: the file has {disk.status.st_nlink} hard links"
        note = f"{note}; {in_place}" if note else in_place
    if disk is not None and disk.digest == after:
        note = "the bytes stay as they are"
    return Planned(
        asked=asked,
        real=real,
        operation="create" if disk is None else "update",
        before=None if disk is None else disk.digest,
        after=after,
        content=content,
        difference=difference(real, None if disk is None else disk.content, content, spans),
        note=note,
        seen=Observation(real, asked, after, len(content), count, _all(count) if lines is None else lines),
        links=0 if disk is None else disk.status.st_nlink,
        style=changed_style,
    )


def _all(count: int) -> Ranges:
    return ((1, count),) if count else ()
