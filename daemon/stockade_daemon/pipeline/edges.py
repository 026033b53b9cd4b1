"""Where a text may be cut: between two characters of UTF-8, so that no cut makes a replacement character."""

import codecs
from typing import Final

LONGEST: Final = 3  # bytes of a character before an edge that lies within it
_DECODER: Final = codecs.getincrementaldecoder("utf-8")


def head(data: bytes) -> bytes:
    """`data` without a character at its end that has only begun."""
    decoder = _DECODER("replace")
    decoder.decode(data)
    begun, _ = decoder.getstate()
    return data[: len(data) - len(begun)]


def tail(data: bytes, before: int) -> bytes:
    """`data` from `before` on, without the rest of a character that began earlier. `before` is up to LONGEST bytes, as
    many as there are."""
    for begin in range(max(0, before - LONGEST), before):
        for end in range(before + 1, min(len(data), begin + 4) + 1):
            try:
                character = data[begin:end].decode()
            except UnicodeDecodeError:
                continue
            if len(character) == 1:
                return data[end:]
    return data[before:]
