"""A call's arguments in its tool/call event: as they came, or beside it where they are long."""

import base64
from typing import Final

from stockade_daemon import json_text
from stockade_daemon.errors import ArgumentsRefusal
from stockade_daemon.values import Json

MAX_ARGUMENTS: Final = json_text.MAX_BYTES
INLINE_ARGUMENTS: Final = 256 * 1024  # bytes in an event; escaped again, they may be six times as many


def too_many(size: int) -> ArgumentsRefusal:
    """The refusal of arguments that were left out."""
    return ArgumentsRefusal(
        "INVALID_ARGS",
        f"The arguments have {size} bytes of JSON; {MAX_ARGUMENTS} are possible. Do it in several calls: "
        "write the beginning of a long file, then add to it.",
    )


def stand_in(size: int) -> bytes:
    """What the digest of a call is taken of where its arguments were left out."""
    return b"%d bytes left out" % size


def recorded_arguments(text: bytes, *, left_out: int = 0) -> dict[str, Json]:
    """Members of the event's body: as text where they are UTF-8, else in base 64; and their size.

    Long ones are kept beside the event, as the output part "arguments": an event has to fit a message. Of those that
    were left out nothing is kept but their size.
    """
    if left_out:
        return {"arguments": "", "arguments_size": left_out}
    size: dict[str, Json] = {"arguments_size": len(text)}
    if len(text) > INLINE_ARGUMENTS:
        return size
    try:
        return {"arguments": text.decode("utf-8"), **size}
    except UnicodeDecodeError:
        return {"arguments_base64": base64.b64encode(text).decode("ascii"), **size}
