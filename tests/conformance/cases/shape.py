"""Whether the contents of a case have the types that the format gives them; where not, it is that case's fault alone.

docs/conformance.md describes the format. What the format does not know is no fault: it is skipped where it is met.
"""

from collections.abc import Iterator, Mapping
from typing import Any, Final, TypeAlias

Types: TypeAlias = tuple[type, ...]

_TEXT: Final[Types] = (str,)
_NUMBER: Final[Types] = (int, float)
_PARTS: Final[Mapping[str, Types]] = {"setup": (list,), "calls": (list,), "expect": (dict,)}
_SETUP: Final[Mapping[str, Types]] = {
    "kind": _TEXT, "path": _TEXT, "target": _TEXT, "name": _TEXT, "py": _TEXT, "b64": _TEXT, "head_b64": _TEXT,
    "mode": _TEXT, "size": (int,), "vars": (dict,),
}  # fmt: skip
_CONFIG: Final[Mapping[str, Types]] = {
    "kind": _TEXT,
    "deny": (list,),
    "allow": (list,),
    "allow_read": (str, list),
    "daemon_env": (dict,),
}
_NEEDS: Final[Mapping[str, tuple[str, ...]]] = {
    "file": ("path",), "outside_file": ("path",), "dir": ("path",), "fifo": ("path",), "socket": ("path",),
    "symlink": ("path", "target"), "hardlink": ("path", "target"), "sparse": ("path", "size"),
    "xattr": ("path", "name", "value"), "daemon_env": ("vars",),
}  # fmt: skip
_ITEM: Final[Mapping[str, Types]] = {
    "tool": _TEXT, "args": (dict,), "raw_args": _TEXT, "session": _TEXT, "then": _TEXT, "while_pending": _TEXT,
    "at_pause": _TEXT, "cancel_after_s": _NUMBER, "outside": _TEXT, "daemon": _TEXT, "daemon_event": _TEXT,
    "parallel": (list,), "batch_in_order": (list,), "repeat": (int,), "call": (dict,),
}  # fmt: skip
_EXPECT: Final[Mapping[str, Types]] = {
    "result": (str, list), "error_kind": (str, list), "state": _TEXT, "files": (list,), "absent": (list,),
    "present": (list,), "xattr": (dict,), "exit_code": (int,), "stdout": _TEXT, "stderr": _TEXT, "signal": (int, str),
    "max_seconds": _NUMBER, "max_rss_growth_mb": _NUMBER, "mtime_unchanged": (bool,), "steps": (list,),
    "any_of": (list,), "call": (int,),
}  # fmt: skip
_FILE: Final[Mapping[str, Types]] = {"path": _TEXT, "py": _TEXT, "b64": _TEXT, "mode": _TEXT}
_WORDS: Final[Mapping[type, str]] = {
    str: "text", int: "a whole number", float: "a number", list: "a list", dict: "an object", bool: "true or false"
}  # fmt: skip


def fault_of(case: Mapping[str, Any]) -> str:
    """What is wrong with the contents of a case, the first thing found; empty: nothing."""
    return next(_faults(case), "")


def with_listed_steps(expect: Any) -> Any:
    """An expectation whose `steps` are a list, where they were an object by the numbers of the calls."""
    if not isinstance(expect, dict) or not isinstance(steps := expect.get("steps"), dict):
        return expect
    listed = [
        {**step, "call": int(number)} if isinstance(step, dict) and number.isascii() and number.isdecimal() else number
        for number, step in steps.items()
    ]
    return {**expect, "steps": listed}


def _faults(case: Mapping[str, Any]) -> Iterator[str]:
    for name, types in _PARTS.items():
        if not _is(case.get(name), types):
            yield f"`{name}` must be {_said(types)}"
            return
    for item in case["setup"]:
        if not isinstance(item, dict) or "kind" not in item:
            yield f"an item of `setup` needs a `kind`: {_short(item)}"
            return
        known = _CONFIG if item["kind"] == "config" else _SETUP
        yield from _typed(item, known, "an item of `setup`")
        yield from (
            f"an item of `setup` of the kind {item['kind']} needs `{name}`"
            for name in _NEEDS.get(str(item["kind"]), ())
            if name not in item
        )
    for item in case["calls"]:
        yield from _item(item)
    yield from _expect(case["expect"], "`expect`")


def _item(item: object) -> Iterator[str]:
    if not isinstance(item, dict):
        yield f"an item of `calls` is no object: {_short(item)}"
        return
    yield from _typed(item, _ITEM, "an item of `calls`")
    for group in ("parallel", "batch_in_order"):
        for inner in item.get(group, ()):
            yield from _item(inner)
    if "repeat" in item:
        if "call" not in item:
            yield "`repeat` needs a `call`"
        else:
            yield from _item(item["call"])


def _expect(expect: object, where: str) -> Iterator[str]:
    if not isinstance(expect, dict):
        yield f"{where} must be an object, and is {_short(expect)}"
        return
    yield from _typed(expect, _EXPECT, where)
    for item in expect.get("files", ()):
        if not isinstance(item, dict) or "path" not in item:
            yield f"an item of `files` needs a `path`: {_short(item)}"
            return
        yield from _typed(item, _FILE, "an item of `files`")
    for name in ("absent", "present"):
        yield from (
            f"`{name}` must hold names: {_short(each)}" for each in expect.get(name, ()) if not _is(each, _TEXT)
        )
    yield from (
        f"`xattr` must hold texts: {_short(each)}" for each in expect.get("xattr", {}).values() if not _is(each, _TEXT)
    )
    if "xattr" in expect and not expect.get("files"):
        yield "`xattr` needs `files`, of which the first is meant"
    for step in expect.get("steps", ()):
        yield from _expect(step, "an item of `steps`")
        if isinstance(step, dict) and "call" not in step:
            yield f"an item of `steps` needs a `call`, the number of an item from 0: {_short(step)}"
    for choice in expect.get("any_of", ()):
        yield from _expect(choice, "an item of `any_of`")


def _typed(item: Mapping[str, Any], known: Mapping[str, Types], where: str) -> Iterator[str]:
    for name, types in known.items():
        if name in item and not _is(item[name], types):
            yield f"`{name}` of {where} must be {_said(types)}, and is {_short(item[name])}"
            return


def _is(value: object, types: Types) -> bool:
    return isinstance(value, types) and (not isinstance(value, bool) or bool in types)


def _said(types: Types) -> str:
    return " or ".join(_WORDS[each] for each in types if each is not int or float not in types)


def _short(value: object) -> str:
    return f"{value!r:.80}"
