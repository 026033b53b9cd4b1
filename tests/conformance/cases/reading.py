"""Cases from files: one JSON object a line.

    id area source fault right_behaviour setup calls expect

What a line means is documented in docs/conformance.md; here is only checked that it can have a meaning at all.
"""

import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

_TEXTS: Final = ("id", "area", "source", "fault", "right_behaviour")
# Every key that an item of `calls` may have, by the one that says what it is.
ITEMS: Final[Mapping[str, frozenset[str]]] = {
    "tool": frozenset(
        {"args", "raw_args", "session", "then", "while_pending", "at_pause", "cancel_after_s", "inspect_approval"}
    ),
    "outside": frozenset(),
    "parallel": frozenset(),
    "batch_in_order": frozenset(),
    "repeat": frozenset({"call"}),
    "daemon": frozenset(),
    "daemon_event": frozenset(),
    "note": frozenset(),
}
KINDS: Final = frozenset(
    {"file", "dir", "symlink", "hardlink", "fifo", "socket", "sparse", "xattr", "outside_file", "config", "daemon_env"}
)


class Malformed(ValueError):
    """A line that is no case: FILE:LINE, what is wrong, what is right."""


@dataclass(frozen=True, slots=True)
class Case:
    id: str
    area: str
    setup: tuple[Mapping[str, Any], ...]
    calls: tuple[Mapping[str, Any], ...]
    expect: Mapping[str, Any]
    place: str  # FILE:LINE

    def config(self) -> dict[str, Any]:
        """What its config items say, together."""
        return {
            name: value
            for item in self.setup
            if item["kind"] == "config"
            for name, value in item.items()
            if name != "kind"
        }


def load(paths: Iterable[Path]) -> list[Case]:
    """Every case of the files, in order. Raises Malformed for a line or an id that cannot be used, OSError."""
    found: dict[str, Case] = {}
    for path in paths:
        for number, line in enumerate(path.read_bytes().split(b"\n"), 1):
            if not line.strip():
                continue
            case = _case(line, f"{path}:{number}")
            if case.id in found:
                raise Malformed(f"{case.place}: the id {case.id!r} stands at {found[case.id].place} already; rename it")
            found[case.id] = case
    return list(found.values())


def calls_of(item: Mapping[str, Any]) -> Iterator[Mapping[str, Any]]:
    """The tool calls of an item, those within groups included; a repeated one once."""
    if "tool" in item:
        yield item
    for group in ("parallel", "batch_in_order"):
        for inner in item.get(group, ()):
            yield from calls_of(inner)
    if "repeat" in item:
        yield from calls_of(item["call"])


def items_of(calls: Iterable[Mapping[str, Any]]) -> Iterator[Mapping[str, Any]]:
    """All items, groups and what is within them."""
    for item in calls:
        yield item
        for group in ("parallel", "batch_in_order"):
            yield from items_of(item.get(group, ()))
        if "repeat" in item:
            yield from items_of([item["call"]])


def _case(line: bytes, place: str) -> Case:
    try:
        value = json.loads(line)
    except ValueError as error:
        raise Malformed(f"{place}: the line is no JSON: {error}; write one object a line") from None
    if not isinstance(value, dict):
        raise Malformed(f"{place}: the line is no object; write {{'id': …}}")
    for name in _TEXTS:
        if name in ("id", "area") and not isinstance(value.get(name), str):
            raise Malformed(f"{place}: `{name}` is {value.get(name)!r}; it must be text")
    for name, kind, what in (("setup", list, "a list"), ("calls", list, "a list"), ("expect", dict, "an object")):
        if not isinstance(value.get(name), kind):
            raise Malformed(f"{place}: {value['id']}: `{name}` must be {what}")
    for item in value["setup"]:
        if not isinstance(item, dict) or not isinstance(item.get("kind"), str):
            raise Malformed(f"{place}: {value['id']}: an item of `setup` needs a `kind`: {str(item)[:80]}")
    for item in value["calls"]:
        _check_item(item, f"{place}: {value['id']}")
    return Case(value["id"], value["area"], tuple(value["setup"]), tuple(value["calls"]), value["expect"], place)


def _check_item(item: object, where: str) -> None:
    if not isinstance(item, dict):
        raise Malformed(f"{where}: an item of `calls` is no object: {str(item)[:80]}")
    for group in ("parallel", "batch_in_order"):
        inner = item.get(group, [])
        if not isinstance(inner, list):
            raise Malformed(f"{where}: `{group}` must be a list of items")
        for each in inner:
            _check_item(each, where)
    if "repeat" in item:
        if not isinstance(item["repeat"], int) or "call" not in item:
            raise Malformed(f"{where}: `repeat` needs a number and a `call`")
        _check_item(item["call"], where)
    if not any(kind in item for kind in ITEMS):
        raise Malformed(f"{where}: an item of `calls` is none of {', '.join(ITEMS)}: {str(item)[:80]}")
