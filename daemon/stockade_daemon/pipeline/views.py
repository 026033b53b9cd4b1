"""Cards of calls: pending, and completed. Pure: the same from live values and from recorded events.

A card is `{"title", "view", …}`. A view is a guess at what helps a reader; what does not fit it becomes `generic`,
which needs the title alone. Nothing here decides anything, and nothing fails.

    generic
    terminal   command, cwd; completed: exit_code, signal, timed_out
    diff       path; completed: difference
    read       path; completed: first, last, total, the numbers of the lines that were shown
    search     pattern; completed: total, truncated
"""

from collections.abc import Mapping
from typing import Any, Final

from stockade_daemon.values import Body, Json, Kind, Manifest

_LONGEST: Final = 32 * 1024  # characters of a text in a card; the event has the rest elsewhere


def pending(manifest: Manifest, title: str, arguments: Mapping[str, Json]) -> dict[str, Json]:
    """The card of a call that has no result yet."""
    card: dict[str, Json] = {"title": title}
    match _view(manifest, arguments):
        case "terminal":
            return {**card, "view": "terminal", **_texts(arguments, "command", "cwd")}
        case "search":
            return {**card, "view": "search", **_texts(arguments, "pattern")}
        case "diff" | "read" as view:
            return {**card, "view": view, **_texts(arguments, "path")}
    return {**card, "view": "generic"}


def completed(manifest: Manifest | None, card: Mapping[str, Json], result: Mapping[str, Json]) -> dict[str, Json]:
    """The card of a settled call, in the place of its pending one `card`. `result`: the body of tool/result.

    A failure is generic, except that a command's partial value stays a terminal's.
    """
    plain: dict[str, Json] = {"title": card.get("title", ""), "view": "generic", "ok": result.get("ok") is True}
    value = result.get("value")
    if manifest is None or not isinstance(value, Mapping):
        return plain
    facts: dict[str, Any] | None = None
    match card.get("view"):
        case "terminal":
            facts = _terminal(value)
        case "diff":
            facts = _diff(value)
        case "read":
            facts = _read(value)
        case "search":
            facts = _search(value)
    return plain if facts is None else {**card, "ok": plain["ok"], **facts}


def _view(manifest: Manifest, arguments: Mapping[str, Json]) -> str:
    if manifest.body is Body.COMMAND:
        return "terminal"
    if manifest.kind is Kind.WRITE and isinstance(arguments.get("path"), str):
        return "diff"
    if isinstance(arguments.get("pattern"), str):
        return "search"
    return "read" if manifest.observes and isinstance(arguments.get("path"), str) else "generic"


def _texts(arguments: Mapping[str, Json], *names: str) -> dict[str, Json]:
    return {name: text[:_LONGEST] for name in names if isinstance(text := arguments.get(name), str)}


def _terminal(value: Mapping[str, Json]) -> dict[str, Json] | None:
    code, signal, timed_out = value.get("exit_code"), value.get("signal"), value.get("timed_out", False)
    if not (_is_count(code) or code is None) or not (_is_count(signal) or signal is None):
        return None
    return {"exit_code": code, "signal": signal, "timed_out": timed_out} if isinstance(timed_out, bool) else None


def _diff(value: Mapping[str, Json]) -> dict[str, Json] | None:
    path, difference = value.get("path"), value.get("difference")
    if not isinstance(path, str) or not isinstance(difference, str):
        return None
    return {"path": path, "difference": difference[:_LONGEST], "cut": len(difference) > _LONGEST}


def _read(value: Mapping[str, Json]) -> dict[str, Json] | None:
    path = value.get("path")
    match [value.get(name) for name in ("first_line", "last_line", "total_lines")]:
        # An empty file has lines 1 to 0 of 0.
        case [int(first), int(last), int(total)] if isinstance(path, str) and 1 <= first <= last + 1 <= total + 1:
            return {"path": path, "first": first, "last": last, "total": total}
    return None


def _search(value: Mapping[str, Json]) -> dict[str, Json] | None:
    total, truncated = value.get("total"), value.get("truncated", False)
    return {"total": total, "truncated": truncated} if _is_count(total) and isinstance(truncated, bool) else None


def _is_count(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value >= 0
