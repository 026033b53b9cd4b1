"""A program's template and a call's arguments → the argument vector, and what the program reads.

What the model wrote never becomes more or fewer arguments than the template says, and never an option: a text that
begins with "-" is refused where the program could take it for one.
"""

from collections.abc import Iterator, Mapping

from stockade_daemon import json_text
from stockade_daemon.errors import ArgumentsRefusal
from stockade_daemon.values import Json, Part, ProgramBody


def expand(body: ProgramBody, arguments: Mapping[str, Json]) -> tuple[list[bytes], bytes | None]:
    """The vector, and the program's input or None. Raises ArgumentsRefusal INVALID_ARGS."""
    given = {**body.defaults, **arguments}
    vector = [each.encode() for part in body.argv for each in _texts(part, given, body.dashes)]
    if body.stdin is None:
        return vector, None
    return vector, "".join(_piece(kind, piece, given) for kind, piece in body.stdin.pieces).encode()


def _texts(part: Part, given: Mapping[str, Json], dashes: frozenset[str]) -> Iterator[str]:
    if part.given is not None and given.get(part.given, False) is False:
        return
    names = [piece for kind, piece in part.pieces if kind == "argument"]
    only = given.get(names[0]) if len(part.pieces) == 1 and names else None
    texts = (
        [_text(each) for each in only]
        if isinstance(only, tuple)
        else ["".join(_piece(kind, piece, given) for kind, piece in part.pieces)]
    )
    for text in texts:
        if "\0" in text:
            raise _refusal(f"the argument {names[0]!r} has a NUL character, which no program's argument can")
        first = names[0] if isinstance(only, tuple) else _first(part, given)
        if part.bare and text.startswith("-") and first is not None and first not in dashes:
            raise _refusal(
                f"the argument {first!r} begins with '-' and would be taken for an option; "
                "a path may be written ./-name"
            )
        yield text


def _first(part: Part, given: Mapping[str, Json]) -> str | None:
    """The argument that the text begins with; None where the template's own text comes first."""
    for kind, piece in part.pieces:
        if _piece(kind, piece, given):
            return piece if kind == "argument" else None
    return None


def _piece(kind: str, piece: str, given: Mapping[str, Json]) -> str:
    return piece if kind == "text" else _text(given[piece])


def _text(value: Json) -> str:
    """A text as it is; numbers, true and false as JSON writes them."""
    return value if isinstance(value, str) else json_text.dump(value).decode()


def _refusal(what: str) -> ArgumentsRefusal:
    return ArgumentsRefusal("INVALID_ARGS", f"{what}. Correct it and call the tool again.")
