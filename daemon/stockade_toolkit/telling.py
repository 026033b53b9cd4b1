"""`tell`: what a tool has to say to the agent beside its result."""

from collections.abc import Callable

_way: Callable[[str], None] | None = None


def tell(text: str) -> None:
    """Tells the agent `text`, after the results of its turn; also where the call then fails, or is taken back.

    At most 16 texts in a call, each of 1 to 4096 bytes of UTF-8. Raises ValueError for what is no such text or one too
    many, RuntimeError outside of a call.
    """
    if _way is None:
        raise RuntimeError("tell() is for a call: while the file is imported there is nobody to tell it to")
    _way(text)


def through(way: Callable[[str], None]) -> None:
    """Begins a call; for what runs the tool."""
    global _way
    _way = way
