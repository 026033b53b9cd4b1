"""Lossless JSON: text in, text out, nothing coerced, nothing silently dropped (RFC 8259 with the doubts removed).

Refused with the place: duplicate keys, NaN and infinities, -0, lone surrogates, numbers that are not finite as a
double, nesting deeper than a limit, anything that is not UTF-8. Big integers and key order survive.
"""

import json
import math
import re
import sys
from collections.abc import Mapping
from typing import NoReturn

from stockade_daemon.json_place import first_fault
from stockade_daemon.values import Json

MAX_DEPTH = 64
MAX_BYTES = 4 * 1024 * 1024 - 64 * 1024  # of one value's text: what a gRPC message holds beside its other fields
MAX_DIGITS = 4000  # of one integer: below Python's own limit for converting digits

_SURROGATE = re.compile("[\ud800-\udfff]")


class NotLossless(ValueError):
    """A text or value that JSON cannot carry without loss. The message says where and why."""


def parse(text: bytes, *, max_bytes: int = MAX_BYTES, max_depth: int = MAX_DEPTH) -> Json:
    """The value of `text`. Raises NotLossless, naming the place."""
    if len(text) > max_bytes:
        raise NotLossless(f"{len(text)} bytes of JSON are more than the {max_bytes} allowed")
    try:
        decoded = text.decode("utf-8")
    except UnicodeDecodeError as error:
        raise NotLossless(f"not UTF-8 at byte {error.start}") from None
    try:
        _check_depth(decoded, max_depth)
        value: Json = json.loads(
            decoded,
            object_pairs_hook=_object,
            parse_constant=_constant,
            parse_float=_float,
            parse_int=_int,
        )
        check(value, max_depth=max_depth)
    except json.JSONDecodeError as error:
        place = f"line {error.lineno} column {error.colno}, character {error.pos}"
        raise NotLossless(f"{error.msg} at {place}") from None
    except NotLossless as error:
        raise NotLossless(first_fault(decoded, max_depth=max_depth, max_digits=_digits()) or str(error)) from None
    return value


def check(value: object, *, max_depth: int = MAX_DEPTH) -> None:
    """Raises NotLossless where `value` holds something that JSON text cannot carry. Walks without recursion."""
    stack: list[tuple[object, str, int]] = [(value, "$", 0)]
    while stack:
        item, place, depth = stack.pop()
        if depth > max_depth:
            raise NotLossless(f"{place} is nested deeper than {max_depth} levels")
        if item is None or isinstance(item, bool | int):
            continue
        if isinstance(item, float):
            if not math.isfinite(item):
                raise NotLossless(f"{place} is {item}, which JSON does not have")
            if item == 0 and math.copysign(1, item) < 0:
                raise NotLossless(f"{place} is -0, which does not survive JSON")
        elif isinstance(item, str):
            _check_text(item, place)
        elif isinstance(item, Mapping):
            for key, child in item.items():
                if not isinstance(key, str):
                    raise NotLossless(f"{place} has a key that is not text: {key!r}")
                _check_text(key, place)
                stack.append((child, f"{place}.{key[:40]}", depth + 1))
        elif isinstance(item, list | tuple):
            stack.extend((child, f"{place}[{index}]", depth + 1) for index, child in enumerate(item))
        else:
            raise NotLossless(f"{place} is a {type(item).__name__}, which JSON does not have")


def dump(value: Json) -> bytes:
    """The compact JSON text of a value that `check` accepts; key order is kept."""
    return json.dumps(value, ensure_ascii=False, allow_nan=False, separators=(",", ":"), default=_plain).encode("utf-8")


def is_text(value: object) -> bool:
    """Whether it is a text that JSON can carry."""
    return isinstance(value, str) and not _SURROGATE.search(value)


def _plain(value: object) -> object:
    """json knows dict and list only; frozen mappings and tuples of ours are as good."""
    if isinstance(value, Mapping):
        return dict(value)
    raise TypeError(f"{type(value).__name__} is not a JSON value")


def _check_text(text: str, place: str) -> None:
    found = _SURROGATE.search(text)
    if found:
        raise NotLossless(f"{place} has a lone surrogate at character {found.start()}")


def _check_depth(text: str, max_depth: int) -> None:
    """Refuses deep nesting before the parser, which recurses, sees it."""
    depth = 0
    inside = False
    skip = False
    if text.count("[") + text.count("{") <= max_depth:
        return
    for position, character in enumerate(text):
        if skip:
            skip = False
        elif inside:
            if character == "\\":
                skip = True
            elif character == '"':
                inside = False
        elif character == '"':
            inside = True
        elif character in "[{":
            depth += 1
            if depth > max_depth:
                raise NotLossless(f"nested deeper than {max_depth} levels at character {position}")
        elif character in "]}":
            depth -= 1


def _object(pairs: list[tuple[str, Json]]) -> dict[str, Json]:
    result: dict[str, Json] = {}
    for key, value in pairs:
        if key in result:
            raise NotLossless(f"the key {key[:80]!r} stands twice in one object")
        result[key] = value
    return result


def _constant(name: str) -> NoReturn:
    raise NotLossless(f"{name} is not JSON")


def _float(text: str) -> float:
    value = float(text)
    if not math.isfinite(value):
        raise NotLossless(f"the number {text[:40]} is too large for a double")
    if value == 0 and text.startswith("-"):
        raise NotLossless(f"the number {text[:40]} is -0, which does not survive JSON")
    return value


def _digits() -> int:
    return min(MAX_DIGITS, sys.get_int_max_str_digits() or MAX_DIGITS)


def _int(text: str) -> int:
    if text == "-0":
        raise NotLossless("the number -0 does not survive JSON")
    if len(text) > _digits():
        raise NotLossless(f"an integer of {len(text)} digits is longer than the {MAX_DIGITS} allowed")
    return int(text)
