"""A decided change as bytes, so that it can be committed by a daemon that did not decide it.

4 bytes, big-endian: the length of what follows · JSON object, JSON text · the content to commit
"""

import struct
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from stockade_daemon import json_text
from stockade_daemon.gate.difference import Difference
from stockade_daemon.gate.intents import Planned
from stockade_daemon.gate.names import body_of, of_body
from stockade_daemon.gate.observations import restored
from stockade_daemon.values import Json

_LENGTH: Final = struct.Struct(">I")


@dataclass(frozen=True, slots=True)
class Staged:
    """A change that somebody is asked about."""

    planned: Planned
    point: str  # the name of the intent: fs/edit-intent, fs/write-intent
    places: Json  # in how many places an edit replaces text, of several edits for each; None: nobody said


def pack(staged: Staged) -> bytes:
    planned = staged.planned
    difference = planned.difference
    head: dict[str, Json] = {
        **body_of("asked", planned.asked),
        **body_of("real", planned.real),
        "operation": planned.operation,
        "before": planned.before,
        "after": planned.after,
        "note": planned.note,
        "links": planned.links,
        "style": planned.style,
        "seen": planned.seen.body(),
        "difference": {
            "text": difference.text,
            "added": difference.added,
            "removed": difference.removed,
            "complete": difference.complete,
        },
        "point": staged.point,
        "places": staged.places,
    }
    text = json_text.dump(head)
    return _LENGTH.pack(len(text)) + text + planned.content


def unpack(data: bytes) -> Staged:
    """Raises ValueError, KeyError or TypeError for bytes that are no `pack`'s."""
    if len(data) < _LENGTH.size:
        raise ValueError("what was staged is cut off")
    (length,) = _LENGTH.unpack_from(data)
    border = _LENGTH.size + length
    head: Any = json_text.parse(data[_LENGTH.size : border], max_bytes=length)
    if not isinstance(head, Mapping):
        raise ValueError("what was staged has no description")
    asked, real = of_body(head, "asked"), of_body(head, "real")
    if asked is None or real is None:
        raise ValueError("what was staged names no file")
    planned = Planned(
        asked=asked,
        real=real,
        operation=head["operation"],
        before=head["before"],
        after=head["after"],
        content=data[border:],
        difference=Difference(**head["difference"]),
        note=head["note"],
        seen=restored(head["seen"]),
        links=head["links"],
        style=head["style"],
    )
    return Staged(planned, head["point"], head["places"])
