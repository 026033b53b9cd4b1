"""The broker's inner end: what a function body may ask of the daemon, over its one channel.

Every request is answered before the next is made; nothing here is trusted by the daemon.
"""

from stockade_toolkit import Committed, OpenedFile, Span, ToolError
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
            path=header["path"],
            digest=header["digest"],
            size=header["size"],
        )

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

    def edit(self, file: OpenedFile, spans: list[Span]) -> Committed:
        borders = [[span.start, span.end, len(span.replacement)] for span in spans]
        blob = b"".join(span.replacement for span in spans)
        header = self._ask({"type": "edit-intent", "handle": file.handle, "spans": borders}, blob).header
        return Committed(
            path=header["path"], digest=header["digest"], difference=header["difference"], note=header["note"]
        )

    def _ask(self, header: dict[str, object], blob: bytes = b"") -> Frame:
        self._channel.send(header, blob)
        frame = self._channel.receive()
        if frame is None:
            raise ToolError("ABORTED", "the daemon ended this call")
        if frame.type == "refused":
            raise ToolError(frame.header["code"], frame.header["message"])
        return frame
