"""Cases from files: one JSON object a line.

    id area source fault right_behaviour setup calls expect

What a line means is documented in docs/conformance.md; a line that has no id is nobody's, and ends the run before it
begins. Everything else that is wrong with a case is its own verdict.
"""

import hashlib
import json
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from tests.conformance.cases.shape import fault_of, with_listed_steps

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
ANYWHERE: Final = frozenset({"note"})  # on every item; says nothing to the runner
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
    fault: str = ""  # what makes its contents unusable, which then are empty

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


def label(case_id: str) -> str:
    """A name for files and profiles of a case: short, of small letters, digits and hyphens; no two cases share one."""
    plain = re.sub(r"[^a-z0-9]", "-", case_id.lower())
    if re.fullmatch(r"[A-Z0-9-]{1,40}", case_id):
        return plain
    return f"{plain[:32]}-{hashlib.sha256(case_id.encode('utf-8', 'surrogatepass')).hexdigest()[:8]}"


def _case(line: bytes, place: str) -> Case:
    try:
        value = json.loads(line)
    except (ValueError, RecursionError) as error:
        raise Malformed(f"{place}: the line is no JSON: {error}; write one object a line") from None
    if not isinstance(value, dict):
        raise Malformed(f"{place}: the line is no object; write {{'id': …}}")
    if not isinstance(value.get("id"), str):
        raise Malformed(f"{place}: `id` is {value.get('id')!r:.80}; it must be text")
    area = value.get("area")
    value["expect"] = with_listed_steps(value.get("expect"))
    fault = fault_of(value) if isinstance(area, str) else f"`area` must be text, and is {area!r:.80}"
    if fault:
        return Case(value["id"], area if isinstance(area, str) else "", (), (), {}, place, fault)
    return Case(value["id"], str(area), tuple(value["setup"]), tuple(value["calls"]), value["expect"], place)
