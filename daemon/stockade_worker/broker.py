"""The broker's inner end: what a function body may ask of the daemon, over its one channel.

Every request is answered before the next is made; nothing here is trusted by the daemon.
"""

import base64
import json
import os
from typing import Any

from stockade_toolkit import Committed, Entry, Listing, OpenedFile, Place, Span, ToolError
from stockade_worker.frames import MAX_CONTEXT, MOST_CONTEXTS, Channel, Frame


class Broker:
    """Implements stockade_toolkit.Files."""

    def __init__(self, channel: Channel) -> None:
        self._channel = channel
        self._told = 0

    def open(self, path: str, *, for_edit: bool = False) -> OpenedFile:
        frame = self._ask({"type": "open", "path": path, "for_edit": for_edit})
        header = frame.header
        return OpenedFile(
            descriptor=frame.descriptors[0],
            handle=header["handle"],
            **_name(header),
            digest=header["digest"],
            size=header["size"],
        )

    def locate(self, path: str) -> Place:
        header = self._ask({"type": "locate", "path": path}).header
        return Place(_name(header)["name"], header["directory"])

    def tell(self, text: str) -> None:
        """What stockade_toolkit.tell does."""
        if not isinstance(text, str) or not text:
            raise ValueError("tell() takes a text that is not empty")
        try:
            blob = text.encode()
        except UnicodeEncodeError:
            raise ValueError("tell() takes a text that UTF-8 can carry; this one has half a character") from None
        if len(blob) > MAX_CONTEXT:
            raise ValueError(f"tell() takes at most {MAX_CONTEXT} bytes, not {len(blob)}; put the rest into the result")
        if self._told == MOST_CONTEXTS:
            raise ValueError(f"tell() can be called {MOST_CONTEXTS} times in a call; put the rest into the result")
        self._told += 1
        self._ask({"type": "context"}, blob)

    def showed(self, file: OpenedFile, first: int, last: int) -> None:
        self._ask({"type": "showed", "handle": file.handle, "first": first, "last": last})

    def edit(self, file: OpenedFile, spans: list[Span], *, places: int | list[int] | None = None) -> Committed:
        borders = [[span.start, span.end, len(span.replacement)] for span in spans]
        blob = b"".join(span.replacement for span in spans)
        header: dict[str, object] = {"type": "edit-intent", "handle": file.handle, "spans": borders, "places": places}
        return _committed(self._ask(header, blob).header)

    def write(self, path: str, content: bytes, *, encoding_chosen: bool = True) -> Committed:
        """`encoding_chosen` is false where the content is text that is UTF-8 only because nobody said otherwise: over
        text in another encoding that is refused. Bytes of a tool of one's own are what it has chosen."""
        header = {"type": "write-intent", "path": path, "encoding_chosen": encoding_chosen}
        return _committed(self._ask(header, content).header)

    def entries(self, path: str, *, first: int = 1, most: int = 1000) -> Listing:
        frame = self._ask({"type": "list", "path": path, "first": first, "most": most})
        with os.fdopen(frame.descriptors[0], "rb") as source:
            found = json.load(source)
        return Listing(**_name(frame.header), total=frame.header["total"], entries=tuple(map(_entry, found)))

    def image(self, data: bytes) -> None:
        """Makes an image a part of the answer; counts when the call succeeds. For `read` alone."""
        self._ask({"type": "image"}, data)

    def todos(self, todos: list[dict[str, str]]) -> None:
        """Writes the session's list of what is to be done; counts when the call succeeds. For `todo_write` alone."""
        self._ask({"type": "todos", "todos": todos})

    def job(self, action: str, **more: object) -> dict[str, Any]:
        """What the daemon answers about this session's background jobs. For `job` alone."""
        header = self._ask({"type": "job", "action": action, **more}).header
        return {name: value for name, value in header.items() if name != "type"}

    def _ask(self, header: dict[str, object], blob: bytes = b"") -> Frame:
        self._channel.send(header, blob)
        frame = self._channel.receive()
        if frame is None:
            raise ToolError("ABORTED", "the daemon ended this call")
        if frame.type == "refused":
            raise ToolError(frame.header["code"], frame.header["message"])
        return frame


def _name(header: dict[str, Any]) -> dict[str, Any]:
    """A path, as bytes and as text."""
    name = base64.b64decode(header["path_b64"])
    return {"name": name, "path": name.decode("utf-8", "backslashreplace")}


def _committed(header: dict[str, Any]) -> Committed:
    return Committed(
        **_name(header),
        digest=header["digest"],
        difference=header["difference"],
        note=header["note"],
        operation=header["operation"],
        style=header["style"],
    )


def _entry(found: dict[str, Any]) -> Entry:
    target = found["target"]
    return Entry(
        name=base64.b64decode(found["name"]),
        kind=found["kind"],
        size=found["size"],
        target=None if target is None else base64.b64decode(target),
    )
