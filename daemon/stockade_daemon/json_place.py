"""Where in a JSON text the first thing stands that cannot be carried without loss: its path and its offset.

Only for texts that were refused already: the parser is fast and does not say where, this walk is slow and does.
"""

import json
import math
import re
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Final

_TOKEN: Final = re.compile(
    r'[ \t\n\r]*(?:(?P<text>"(?:[^"\\]|\\.)*")|(?P<number>-?\d+(?:\.\d+)?(?:[eE][+-]?\d+)?)'
    r"|(?P<constant>NaN|-?Infinity)|(?P<word>true|false|null)|(?P<mark>[\[\]{},:]))"
)
_SURROGATE: Final = re.compile("[\ud800-\udfff]")
_LONGEST_KEY: Final = 40


@dataclass(slots=True)
class _Level:
    """An object or array that is open."""

    opened: str
    keys: set[str] = field(default_factory=set)
    key: str = ""
    index: int = 0
    wants_key: bool = True

    def step(self) -> str:
        return f".{self.key[:_LONGEST_KEY]}" if self.opened == "{" else f"[{self.index}]"


def first_fault(text: str, *, max_depth: int, max_digits: int) -> str:
    """`what is wrong at $.path, character N`; empty where nothing is found, or the text is no JSON before that."""
    levels: list[_Level] = []
    position = 0

    def at(what: str, start: int) -> str:
        return f"{what} at ${''.join(level.step() for level in levels)}, character {start}"

    while (token := _TOKEN.match(text, position)) is not None:
        position = token.end()
        kind = token.lastgroup or ""
        said, start = token[kind], token.start(kind)
        top = levels[-1] if levels else None
        what = _CHECKS[kind](said, max_digits) if kind in _CHECKS else ""
        if kind == "text" and top is not None and top.opened == "{" and top.wants_key:
            key = json.loads(said, strict=False)
            if key in top.keys and not what:
                what = f"the key {key[:80]!r} stands twice in one object"
            top.keys.add(key)
            top.key, top.wants_key = key.encode("utf-8", "backslashreplace").decode(), False
        if what:
            return at(what, start)
        if kind != "mark":
            continue
        if said in "[{":
            if len(levels) == max_depth:
                return at(f"nested deeper than {max_depth} levels", start)
            levels.append(_Level(said))
        elif said in "]}":
            if levels:
                levels.pop()
        elif said == "," and top is not None:
            top.index, top.wants_key = top.index + 1, True
    return ""


def _text(said: str, _: int) -> str:
    try:
        return "a lone surrogate" if _SURROGATE.search(json.loads(said, strict=False)) else ""
    except ValueError:
        return ""


def _number(said: str, max_digits: int) -> str:
    if said.lstrip("-").isdigit():
        if said == "-0":
            return "the number -0, which does not survive JSON,"
        return (
            f"an integer of {len(said)} digits, more than the {max_digits} allowed," if len(said) > max_digits else ""
        )
    value = float(said)
    if not math.isfinite(value):
        return f"the number {said[:40]}, too large for a double,"
    return f"the number {said[:40]}, which is -0 and does not survive JSON," if value == 0 and said[0] == "-" else ""


def _constant(said: str, _: int) -> str:
    return f"{said}, which is not JSON,"


_CHECKS: Final[dict[str, Callable[[str, int], str]]] = {"text": _text, "number": _number, "constant": _constant}
