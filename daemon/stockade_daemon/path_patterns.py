"""Patterns for names of a workspace: what they match.

A pattern is a path from the workspace's root. `*` stands for any characters of one name, `**` as a whole name for any
number of directories, none included; everything else is itself, so names with `?` or `[` need no quoting. What matches
includes all that lies below it. Names are compared as bytes: upper and lower case differ.
"""

from typing import Final, TypeAlias

# One name's pattern, as the pieces between its stars.
Part: TypeAlias = tuple[bytes, ...]
ANY_DEPTH: Final[Part] = (b"", b"", b"")  # "**"


def parts_of(pattern: bytes) -> tuple[Part, ...]:
    """Without a `**` right behind another: any number of directories is any number of directories."""
    parts = [tuple(part.split(b"*")) for part in pattern.split(b"/")]
    return tuple(part for at, part in enumerate(parts) if part != ANY_DEPTH or parts[at - 1 : at] != [ANY_DEPTH])


def matches(names: list[bytes], parts: tuple[Part, ...]) -> bool:
    """Whether the names, or the first few of them, fit the parts."""
    return _led_to(names, parts) is None


def leads_below(names: list[bytes], parts: tuple[Part, ...]) -> bool:
    """Whether the names fit a beginning of the parts only, so that something below them may fit all."""
    return bool(_led_to(names, parts))


def _led_to(names: list[bytes], parts: tuple[Part, ...]) -> set[int] | None:
    """The places in the pattern at which the name after these would have to go on; None where some of them fit it all.

    All places that the names so far may lead to are kept, so no name is looked at twice: a regular expression would try
    every way that its stars can share the names, and pattern and names may both be an agent's.
    """
    places = after(0, parts)
    for name in names:
        found: set[int] = set()
        for place in places:
            if parts[place] == ANY_DEPTH:
                found.add(place if place < len(parts) - 1 else len(parts))
            elif fits(name, parts[place]):
                found.add(place + 1)
        if len(parts) in found:
            return None
        places = {each for place in found for each in after(place, parts)}
    return places


def after(place: int, parts: tuple[Part, ...]) -> set[int]:
    """A place in the pattern, and the next one where this one may stand for no directory."""
    return {place, place + 1} if parts[place] == ANY_DEPTH and place < len(parts) - 1 else {place}


def fits(name: bytes, pieces: Part) -> bool:
    """Whether one name is the pieces with anything between them. The first fit of each piece is as good as any other,
    so there is no going back."""
    if len(pieces) == 1:
        return name == pieces[0]
    first, *between, last = pieces
    if not name.startswith(first) or not name.endswith(last) or len(name) < len(first) + len(last):
        return False
    at, end = len(first), len(name) - len(last)
    for piece in between:
        found = name.find(piece, at, end)
        if found < 0:
            return False
        at = found + len(piece)
    return True
