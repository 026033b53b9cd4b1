"""What a command printed, where its value leaves out the middle."""

from typing import Final

from stockade_client.calls import Call, Part
from stockade_client.results import CallResult

STREAMS: Final[tuple[Part, ...]] = ("stdout", "stderr")
_SHOWN: Final = 64 * 1024  # bytes of a stream that are whole in a value


def cut(result: CallResult, stream: Part) -> bool:
    """Whether the value of a command leaves out the middle of a stream."""
    shown, printed = result.field(stream), result.field(f"{stream}_bytes")
    return isinstance(shown, str) and isinstance(printed, int) and printed > _SHOWN


def kept(result: CallResult, stream: Part) -> bool:
    """Whether all of it can be asked for."""
    return result.field(f"{stream}_kept") == result.field(f"{stream}_bytes")


async def whole(call: Call, stream: Part) -> str:
    """All that was kept of it. Raises NotFound, NoAnswer."""
    async with call.output(part=stream, follow=False) as pieces:
        return b"".join([piece async for piece in pieces]).decode("utf-8", "replace")
