"""Names as bytes, and how they are shown.

The kernel's names are bytes without NUL and slash; nothing here trims, folds or normalises them. Text of ours that
holds one is safe to print: what a terminal would obey is written as an escape instead.
"""

import base64
import unicodedata
from collections.abc import Mapping
from typing import Final

from stockade_daemon.values import Json

# Categories that change how the text around them is displayed: controls, format characters (among them the
# bidirectional overrides), surrogates, line and paragraph separators.
_UNSAFE: Final = frozenset({"Cc", "Cf", "Cs", "Zl", "Zp"})


def encoded(path: str) -> bytes:
    """The bytes of a path that came as text; lone surrogates stand for the bytes that UTF-8 cannot."""
    return path.encode("utf-8", "surrogateescape")


def shown(name: bytes) -> str:
    """`name` as one line of printable text."""
    return visible(name.decode("utf-8", "backslashreplace"))


def told(name: bytes) -> str:
    """`name` as a word of a sentence that tells it from every other.

    Where it could be misread bare it stands in quotes, its own backslashes doubled.
    """
    try:
        text = name.decode("utf-8")
        plain = text == visible(text) == " ".join(text.split()) and not set(text) & {"\\", '"', ","}
    except UnicodeDecodeError:
        plain = False
    if plain:
        return text
    escaped = visible(name.replace(b"\\", b"\\\\").decode("utf-8", "backslashreplace")).replace('"', '\\"')
    blanks = {each for each in escaped if each != " " and each.isspace()}
    return '"' + "".join(_escape(each) if each in blanks else each for each in escaped) + '"'


def spelled_out(name: bytes) -> str:
    """`name` in quotes, in ASCII: what is composed of several characters shows each."""
    return '"' + name.decode("utf-8", "backslashreplace").encode("ascii", "backslashreplace").decode("ascii") + '"'


def visible(text: str, *, keep: str = "") -> str:
    """`text` with everything a terminal would obey as an escape, except the characters of `keep`."""
    if text.isascii() and text.isprintable():
        return text
    return "".join(
        character if character in keep or unicodedata.category(character) not in _UNSAFE else _escape(character)
        for character in text
    )


def _escape(character: str) -> str:
    return character.encode("unicode_escape").decode("ascii")


def joined(above: bytes, name: bytes) -> bytes:
    """A path below another one, which may be the root of the workspace: the empty path."""
    return above + b"/" + name if above else name


def body_of(key: str, name: bytes) -> dict[str, Json]:
    """`name` for an event's body: text under `key`, and under `key`_b64 its bytes where text cannot carry them."""
    try:
        return {key: name.decode("utf-8")}
    except UnicodeDecodeError:
        return {key: shown(name), f"{key}_b64": base64.b64encode(name).decode("ascii")}


def of_body(body: Mapping[str, Json], key: str) -> bytes | None:
    """The inverse of `body_of`; None where the body has no such name. Raises ValueError."""
    exact = body.get(f"{key}_b64")
    if isinstance(exact, str):
        return base64.b64decode(exact, validate=True)
    text = body.get(key)
    if text is None:
        return None
    if not isinstance(text, str):
        raise ValueError(f"{key} of a recorded event is {text!r}, not text")
    return text.encode("utf-8")
