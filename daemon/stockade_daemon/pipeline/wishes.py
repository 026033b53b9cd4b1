"""What a body wishes, read from its frames as if each were a lie.

    write-intent   path, encoding_chosen; the content is the blob
    edit-intent    a handle of an opened file, and spans of it
    locate         path
    list           path, first, most
    image          the blob
    todos          the whole list
    job            action, job, stream, offset, limit, signal, wait_s

A frame that is not so raises ToolFailure INVALID_TOOL_OUTPUT, which ends the call.
"""

import base64
from dataclasses import dataclass
from typing import Final

from stockade_daemon import json_text
from stockade_daemon.errors import ToolFailure
from stockade_daemon.gate.intents import Committed, Planned, WriteIntent
from stockade_daemon.gate.listing import Listed
from stockade_daemon.gate.locating import Located
from stockade_daemon.gate.spans import Span
from stockade_daemon.values import Image, Json, Manifest
from stockade_worker.frames import MAX_IMAGE, Frame, image_kind

_MOST_NAMES: Final = 2000  # of one answer
_MOST_TODOS: Final = 1000
_STATUSES: Final = ("pending", "in_progress", "completed")
_WRITES_TODOS: Final = "todo_write"
_ASKS_ABOUT_JOBS: Final = "job"
_LONGEST_WAIT_S: Final = 60
# Bytes. Each may be no UTF-8 and become U+FFFD, which is three; then all of it still fits into the tool's output_bytes,
# and the text for the model is not cut in its middle.
_LONGEST_READ: Final = 16 * 1024


@dataclass(frozen=True, slots=True)
class JobWish:
    """What is to be done with which job of the session."""

    action: str  # list | read | wait | signal | kill
    job: str
    stream: str  # stdout | stderr
    offset: int
    limit: int
    signal: str
    wait_s: float


def broken(what: str) -> ToolFailure:
    """The end of a call whose body broke the protocol."""
    return ToolFailure("INVALID_TOOL_OUTPUT", f"the tool's process sent {what}; its call was ended")


def path(frame: Frame) -> str:
    """The path that a frame names; text that bytes of a name can be made from."""
    text = frame.header.get("path")
    if not isinstance(text, str):
        raise broken(f"a malformed {frame.type}")
    try:
        json_text.check(text)
    except ValueError as error:
        raise broken(f"a path that is no text: {error}") from error
    return text


def located(place: Located) -> dict[str, Json]:
    """The answer to a locate frame."""
    return {"type": "located", "directory": place.directory, **name(place.real)}


def name(real: bytes) -> dict[str, Json]:
    """A path in an answer: its bytes, which the body may give back to us."""
    return {"path_b64": _base64(real)}


def write(frame: Frame) -> WriteIntent:
    chosen = frame.header.get("encoding_chosen")
    if not isinstance(chosen, bool):
        raise broken("a malformed write-intent")
    return WriteIntent(path=path(frame), content=frame.blob, encoding_chosen=chosen)


def spans(frame: Frame) -> tuple[Span, ...]:
    """Spans of an edit-intent frame: [start, end, length of the replacement] each, the replacements in the blob."""
    borders = frame.header.get("spans")
    if not isinstance(borders, list) or not borders:
        raise broken("an edit without spans")
    found = []
    position = 0
    for border in borders:
        match border:
            case [int(start), int(end), int(length)] if 0 <= start <= end and 0 <= length <= len(frame.blob) - position:
                found.append(Span(start, end, frame.blob[position : position + length]))
                position += length
            case _:
                raise broken("a malformed span")
    if position != len(frame.blob):
        raise broken("more replacement bytes than its spans have")
    return tuple(found)


def places(frame: Frame) -> Json:
    """In how many places an edit says that it replaces text: a number, a list of them, or None."""
    said = frame.header.get("places")
    numbers = said if isinstance(said, list) else [said]
    if said is not None and any(type(each) is not int or each < 0 for each in numbers):
        raise broken("a malformed number of places")
    return said


def window(frame: Frame) -> tuple[int, int]:
    """`first` and `most` of a list frame."""
    first, most = frame.header.get("first"), frame.header.get("most")
    if type(first) is not int or type(most) is not int or first < 1 or not 1 <= most <= _MOST_NAMES:
        raise broken("a malformed list")
    return first, most


def listed(found: Listed) -> bytes:
    """The answer to a list frame, for a sealed file: JSON, with names in base64."""
    return json_text.dump(
        [
            {
                "name": _base64(each.name),
                "kind": each.kind,
                "size": each.size,
                "target": None if each.target is None else _base64(each.target),
            }
            for each in found.entries
        ]
    )


def committed(done: Committed, planned: Planned) -> dict[str, Json]:
    """The answer to an intent that has been committed."""
    return {
        "type": "committed",
        "digest": done.after,
        "difference": planned.text,
        "note": done.note,
        "operation": done.operation,
        "style": dict(planned.style),
        **name(planned.real),
    }


def todos(frame: Frame, manifest: Manifest) -> dict[str, Json]:
    """The body of the event todo/write. Only the built-in tool writes the list."""
    if manifest.custom is not None or manifest.name != _WRITES_TODOS:
        raise broken("a list of what is to be done, which is not this tool's to write")
    found = frame.header.get("todos")
    if not isinstance(found, list) or len(found) > _MOST_TODOS:
        raise broken("a malformed todos")
    contents = []
    for each in found:
        match each:
            case {"content": str(content), "status": str(status), **rest} if status in _STATUSES and not rest:
                contents.append(content)
            case _:
                raise broken("a malformed todo")
    if any(not each or each != each.strip() for each in contents) or len(set(contents)) != len(contents):
        raise broken("todos that are empty, not trimmed, or the same")
    try:
        json_text.check(found)
    except ValueError as error:
        raise broken(f"todos that are no text: {error}") from error
    return {"todos": found}


def job(frame: Frame, manifest: Manifest) -> JobWish:
    """Only the built-in tool asks about jobs."""
    if manifest.custom is not None or manifest.name != _ASKS_ABOUT_JOBS:
        raise broken("a question about background jobs, which are not this tool's to ask about")
    match frame.header:
        case {
            "action": "list" | "read" | "wait" | "signal" | "kill" as action,
            "job": str(job),
            "stream": "stdout" | "stderr" as stream,
            "offset": int(offset),
            "limit": int(limit),
            "signal": str(signal),
            "wait_s": int(wait_s) | float(wait_s),
        } if offset >= 0 and 4 <= limit <= _LONGEST_READ and 0 <= wait_s <= _LONGEST_WAIT_S:
            return JobWish(action, job, stream, offset, limit, signal, float(wait_s))
    raise broken("a malformed job")


def image(frame: Frame, manifest: Manifest) -> Image:
    """A picture for the model; what it is, its bytes say. Only a built-in tool shows one."""
    kind = image_kind(frame.blob)
    if manifest.custom is not None or kind is None or len(frame.blob) > MAX_IMAGE:
        raise broken("an image that is none, too large, or not this tool's to show")
    return Image(kind, frame.blob)


def opened_for(frame: Frame) -> tuple[str, bool]:
    """Path and `for_edit` of an open frame."""
    for_edit = frame.header.get("for_edit")
    if not isinstance(for_edit, bool):
        raise broken("a malformed open")
    return path(frame), for_edit


def _base64(name: bytes) -> str:
    return base64.b64encode(name).decode("ascii")
