"""`list`: the names in one directory, with what each is."""

import base64
from collections.abc import Mapping
from typing import Any

from stockade_toolkit import Answer, Entry, Files, ToolError
from stockade_worker.tools import names

_MOST_BYTES = 50 * 1024  # of lines: below what the model is given of a result, so that nothing is cut afterwards


def run(arguments: Mapping[str, Any], files: Files) -> Answer:
    offset = int(arguments.get("offset") or 1)
    listing = files.entries(arguments["path"], first=offset, most=int(arguments.get("limit") or 1000))
    if offset > max(listing.total, 1):
        raise ToolError(
            "INVALID_ARGS",
            f"{names.shown(listing.name)} has {listing.total} names, so there is no name {offset}; "
            "repeat with a smaller offset",
        )
    shown: list[Entry] = []
    lines: list[str] = []
    used = 0
    for each in listing.entries:
        line = _line(each)
        used += len(line.encode()) + 1
        if used > _MOST_BYTES and shown:
            break
        shown.append(each)
        lines.append(line)
    last = offset + len(shown) - 1
    value = {
        **names.entry(listing.name),
        "entries": [_value(each) for each in shown],
        "first": offset,
        "last": last,
        "total": listing.total,
        "truncated": last < listing.total,
    }
    return Answer(value, "\n".join([*lines, f"[{_note(names.shown(listing.name), value)}]"]))


def _note(path: str, value: dict[str, Any]) -> str:
    total = value["total"]
    if total == 0:
        return f"{path} is empty"
    if value["first"] == 1 and not value["truncated"]:
        return f"{path}: {total} {'name' if total == 1 else 'names'}"
    more = f"; continue with offset={value['last'] + 1}" if value["truncated"] else ""
    return f"{path}: names {value['first']}-{value['last']} of {total}{more}"


def _value(each: Entry) -> dict[str, Any]:
    value = {**_bytes("name", each.name), "kind": each.kind}
    if each.size is not None:
        value["size"] = each.size
    if each.target is not None:
        value |= _bytes("target", each.target)
    return value


def _bytes(key: str, name: bytes) -> dict[str, Any]:
    """`name` under `key`, and where UTF-8 cannot carry it its bytes under `key`_b64."""
    try:
        return {key: name.decode("utf-8")}
    except UnicodeDecodeError:
        return {key: names.shown(name), f"{key}_b64": base64.b64encode(name).decode("ascii")}


def _line(each: Entry) -> str:
    name = names.shown(each.name)
    match each.kind:
        case "directory":
            return f"{name}/"
        case "file":
            return f"{name}  {each.size}"
        case "link":
            return f"{name} -> {names.shown(each.target or b'')}"
    return f"{name}  ({each.kind})"
