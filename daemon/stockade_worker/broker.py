"""The broker's inner end: what a function body may ask of the daemon, over its one channel.

Every request is answered before the next is made; nothing here is trusted by the daemon.
"""

import base64

from stockade_toolkit import Committed, OpenedFile, Place, Span, ToolError
from stockade_worker.frames import Channel, Frame


class Broker:
    """Implements stockade_toolkit.Files."""

    def __init__(self, channel: Channel) -> None:
        self._channel = channel

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

    def locate(self, path: str) -> Place:
        header = self._ask({"type": "locate", "path": path}).header
        return Place(base64.b64decode(header["path_b64"]), header["directory"])

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
