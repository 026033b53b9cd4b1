"""A call's arguments in its tool/call event: as they came, or beside it where they are long."""

import base64
from typing import Final

from stockade_daemon.values import Json

INLINE_ARGUMENTS: Final = 256 * 1024  # bytes in an event; escaped again, they may be six times as many


def recorded_arguments(text: bytes) -> dict[str, Json]:
    """Members of the event's body: as text where they are UTF-8, else in base 64; and their size.

    Long ones are kept beside the event, as the output part "arguments": an event has to fit a message.
    """
    size: dict[str, Json] = {"arguments_size": len(text)}
    if len(text) > INLINE_ARGUMENTS:
        return size
    try:
        return {"arguments": text.decode("utf-8"), **size}
    except UnicodeDecodeError:
        return {"arguments_base64": base64.b64encode(text).decode("ascii"), **size}
