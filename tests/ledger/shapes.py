"""Examples of event bodies: what each version of each type looks like, and whether a body looks so.

tests/ledger/golden/TYPE.VERSION.json, with a dot for the slash of the type, is a list of examples: `stored` is the body
as it was recorded, `read` as it is read today, left out where that is the same. Files of earlier versions stay.
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

GOLDEN = Path(__file__).parent / "golden"

# What tools and cards put there is theirs.
_ANY = {("tool/result", "value"), ("approval/asked", "card")}


@dataclass(frozen=True, slots=True)
class Example:
    stored: Mapping[str, Any]
    read: Mapping[str, Any]


def kept() -> dict[tuple[str, int], list[Example]]:
    """All examples, by type and version."""
    found = {}
    for path in sorted(GOLDEN.iterdir()):
        room, name, version, suffix = path.name.split(".")
        assert suffix == "json"
        found[f"{room}/{name}", int(version)] = [
            Example(each["stored"], each.get("read", each["stored"])) for each in json.loads(path.read_text())
        ]
    return found


def unlike(type: str, body: Mapping[str, Any], examples: Sequence[Mapping[str, Any]]) -> list[str]:
    """In which places `body` is not what the examples are: a key that none of them has, a missing one that all of them
    have, a value of a kind that none has there."""
    return _unlike(body, examples, type, ())


def _unlike(
    body: Mapping[str, Any], examples: Sequence[Mapping[str, Any]], type: str, at: tuple[str, ...]
) -> list[str]:
    always = set.intersection(*(set(each) for each in examples))
    faults = [f"{type}: {'.'.join((*at, key))} is missing" for key in sorted(always - set(body))]
    for key, value in body.items():
        place = (*at, key)
        if (type, *place) in _ANY:
            continue
        known = [each[key] for each in examples if key in each]
        if not known or _kind(value) not in {_kind(each) for each in known}:
            faults.append(f"{type}: {'.'.join(place)} is {_kind(value)}, and in no example")
            continue
        items = value if isinstance(value, list) else [value]
        inner = [each for one in known for each in (one if isinstance(one, list) else [one])]
        tables = [each for each in inner if isinstance(each, dict)]
        for item in items:
            if isinstance(item, dict) and tables:
                faults += _unlike(item, tables, type, place)
    return faults


def _kind(value: object) -> str:
    return "float" if isinstance(value, int) and not isinstance(value, bool) else value.__class__.__name__
