"""Frames between the daemon and the processes inside: a JSON header, optional bytes, optional descriptors.

    !II   length of the header, length of the blob
    header: one JSON object with a "type"
    blob: raw bytes
    descriptors: SCM_RIGHTS with the first byte; the header's "descriptors" says how many

The daemon decodes what workers send with `Decoder`, which bounds everything before it buffers it.
"""

import array
import json
import socket
import struct
from typing import Any, Final, NamedTuple

PREFIX: Final = struct.Struct("!II")
MAX_CONTEXT: Final = 4096  # bytes of one text for the agent beside the result: it becomes a part of its conversation
MOST_CONTEXTS: Final = 16  # of one call
MAX_HEADER: Final = 1024 * 1024
MAX_BLOB: Final = 72 * 1024 * 1024
MAX_DESCRIPTORS: Final = 16
# Of the lines that one `read` shows, as UTF-8: below what the model is given of a result, so nothing is cut afterwards.
MAX_SHOWN: Final = 50 * 1024
MAX_IMAGE: Final = 1024 * 1024  # of an image: it is a part of the recorded result, and of one message to a client

# ISO/IEC 15948, ISO/IEC 10918, GIF89a.
_IMAGES: Final = (
    (b"\x89PNG\r\n\x1a\n", "image/png"),
    (b"\xff\xd8\xff", "image/jpeg"),
    (b"GIF87a", "image/gif"),
    (b"GIF89a", "image/gif"),
)


class BrokenFrame(Exception):
    """Bytes that are no frame, or a frame over its limit. Says which; `before` are the good frames ahead of it."""

    before: "tuple[Frame, ...]" = ()


class Frame(NamedTuple):
    header: dict[str, Any]
    blob: bytes = b""
    descriptors: tuple[int, ...] = ()

    @property
    def type(self) -> str:
        return str(self.header["type"])


def image_kind(data: bytes) -> str | None:
    """The media type of what an image frame may carry, by its first bytes; None for anything else."""
    if data.startswith(b"RIFF") and data[8:12] == b"WEBP":
        return "image/webp"
    return next((kind for signature, kind in _IMAGES if data.startswith(signature)), None)


def encode(header: dict[str, Any], blob: bytes = b"") -> bytes:
    text = json.dumps(header, separators=(",", ":")).encode()
    return PREFIX.pack(len(text), len(blob)) + text + blob


class Decoder:
    """Turns a stream of bytes into frames; refuses a frame as soon as its lengths are known."""

    def __init__(self, *, max_header: int = MAX_HEADER, max_blob: int = MAX_BLOB) -> None:
        self._buffer = bytearray()
        self._max_header = max_header
        self._max_blob = max_blob

    def feed(self, data: bytes) -> list[Frame]:
        """The frames completed by `data`. Raises BrokenFrame; the stream is unusable afterwards."""
        self._buffer += data
        frames: list[Frame] = []
        try:
            self._complete(frames)
        except BrokenFrame as error:
            error.before = tuple(frames)
            raise
        return frames

    def _complete(self, frames: list[Frame]) -> None:
        while len(self._buffer) >= PREFIX.size:
            header_length, blob_length = PREFIX.unpack_from(self._buffer)
            if header_length > self._max_header or blob_length > self._max_blob:
                raise BrokenFrame(f"a frame of {header_length} + {blob_length} bytes is over its limit")
            end = PREFIX.size + header_length + blob_length
            if len(self._buffer) < end:
                break
            text = bytes(self._buffer[PREFIX.size : PREFIX.size + header_length])
            blob = bytes(self._buffer[PREFIX.size + header_length : end])
            del self._buffer[:end]
            frames.append(Frame(_header(text), blob))

    @property
    def pending(self) -> int:
        """Bytes of a frame that has begun and not ended."""
        return len(self._buffer)


def _header(text: bytes) -> dict[str, Any]:
    try:
        header = json.loads(text, object_pairs_hook=_unique)
    except (ValueError, RecursionError) as error:
        raise BrokenFrame(f"a frame's header is not JSON: {error}") from None
    if not isinstance(header, dict) or not isinstance(header.get("type"), str):
        raise BrokenFrame("a frame's header is not an object with a type")
    return header


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    result = dict(pairs)
    if len(result) != len(pairs):
        raise ValueError("a key stands twice")
    return result


class Channel:
    """The inner, blocking end of a frame stream."""

    def __init__(self, end: socket.socket) -> None:
        self.socket = end
        self._decoder = Decoder()
        self._frames: list[Frame] = []
        self._descriptors: list[int] = []

    def fileno(self) -> int:
        return self.socket.fileno()

    def send(self, header: dict[str, Any], blob: bytes = b"", descriptors: tuple[int, ...] = ()) -> None:
        if descriptors:
            header = {**header, "descriptors": len(descriptors)}
        data = encode(header, blob)
        if descriptors:
            rights = (socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", descriptors))
            sent = self.socket.sendmsg([data], [rights])
            data = data[sent:]
        if data:
            self.socket.sendall(data)

    def receive(self) -> Frame | None:
        """The next frame, or None when the other end is gone."""
        while not self._frames:
            size = socket.CMSG_SPACE(MAX_DESCRIPTORS * 4)
            data, ancillary, _, _ = self.socket.recvmsg(1 << 18, size, socket.MSG_CMSG_CLOEXEC)
            for level, kind, rights in ancillary:
                if level == socket.SOL_SOCKET and kind == socket.SCM_RIGHTS:
                    numbers = array.array("i")
                    numbers.frombytes(rights[: len(rights) - len(rights) % numbers.itemsize])
                    self._descriptors.extend(numbers)
            if not data:
                return None
            self._frames.extend(self._decoder.feed(data))
        frame = self._frames.pop(0)
        count = int(frame.header.get("descriptors", 0))
        given, self._descriptors = tuple(self._descriptors[:count]), self._descriptors[count:]
        return frame._replace(descriptors=given)

    def close(self) -> None:
        self.socket.close()
