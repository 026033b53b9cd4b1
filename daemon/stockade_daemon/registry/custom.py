"""What a worker said of a tool file, judged: it comes from code that nobody has looked at.

The answer is bounded before it is parsed, parsed without loss, and every manifest in it has to pass what the built-in
ones pass. Its tools are named after the file, so that no file can take a name that another one has.
"""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from typing import Final

from stockade_daemon import json_text
from stockade_daemon.errors import ConfigurationError
from stockade_daemon.registry import manifests
from stockade_daemon.registry.arguments import Arguments
from stockade_daemon.registry.freezing import thaw
from stockade_daemon.registry.outputs import Output, with_effects
from stockade_daemon.values import Access, Body, Code, Json, Manifest, PythonBody

MAX_ANSWER: Final = 512 * 1024  # bytes of JSON
_MAX_DEPTH: Final = 32
_MOST_REASON: Final = 1000  # characters
_MAX_TOOLS: Final = 32  # of one file
_FORGED: Final = (
    "what it says of its tools is no list of manifests; declare them with @tool, and let nothing else answer"
)
_RESERVED: Final = {"timeout_s"}  # as an argument it is the call's own time, for every tool


def judge(answer: bytes, code: Code, built_in: Iterable[str]) -> tuple[Manifest, ...]:
    """The manifests in a worker's answer about `code`. Raises ConfigurationError `ORIGIN:LINE: …`."""
    try:
        value = json_text.parse(answer, max_bytes=MAX_ANSWER, max_depth=_MAX_DEPTH)
    except json_text.NotLossless as error:
        raise ConfigurationError(f"{code.origin}:1: {_FORGED} ({error})") from None
    if not isinstance(value, list):
        raise ConfigurationError(f"{code.origin}:1: {_FORGED}")
    if not value:
        raise ConfigurationError(f"{code.origin}:1: it declares no tool; put @tool over a function")
    if len(value) > _MAX_TOOLS:
        raise ConfigurationError(
            f"{code.origin}:1: it declares {len(value)} tools, and a file may have {_MAX_TOOLS}; split it"
        )
    found = [_one(each, code) for each in value]
    check_names(found, code.origin, code.stem, built_in)
    return tuple(found)


def line_within(line: object, text: bytes) -> int:
    """A line that a worker named, or 1 where the file has no such line."""
    return line if type(line) is int and 1 <= line <= text.count(b"\n") + 1 else 1


def _one(item: Json, code: Code) -> Manifest:
    entry = next(each for each in code.modules if each.name == code.entry)
    if not isinstance(item, Mapping) or set(item) != {"line", "files", "index", "manifest"}:
        raise ConfigurationError(f"{code.origin}:1: {_FORGED}")
    origin = f"{code.origin}:{line_within(item['line'], entry.text)}"
    files, index, manifest = item["files"], item["index"], item["manifest"]
    if not isinstance(manifest, Mapping) or type(index) is not int or not 0 <= index < _MAX_TOOLS:
        raise ConfigurationError(f"{origin}: {_FORGED}")
    if files is not None and not (isinstance(files, str) and files.isidentifier()):
        raise ConfigurationError(f"{origin}: {_FORGED}")
    judged = manifests.judge(manifest, lambda _: origin)
    if judged.body is not Body.FUNCTION:
        raise ConfigurationError(f"{origin}: body must be function; let @tool make the manifest")
    if judged.access is Access.OVERLAY and judged.output_schema is not None:
        judged = replace(judged, output_schema=with_effects(judged.output_schema))
    usable(judged, lambda _: origin)
    check = fits(judged)
    for name, schema in _properties(judged).items():
        if isinstance(schema, Mapping) and "default" in schema and (fault := check(name, schema["default"])):
            raise ConfigurationError(f"{origin}: the default of {name!r} does not fit its type: {fault}; change one")
    return replace(judged, origin=origin, custom=PythonBody(code, index, files))


def one_line(text: str) -> str:
    """What can be shown of a text that may come from anybody: one line, of bounded length."""
    shown = " ".join("".join(each if each.isprintable() else " " for each in text[: 4 * _MOST_REASON]).split())
    return shown if len(shown) <= _MOST_REASON else f"{shown[:_MOST_REASON]}…"


def usable(manifest: Manifest, place: Callable[[str], str]) -> None:
    """Refuses a schema that cannot be compiled, and an argument whose name has a meaning for every tool.

    `place` says where an argument stands; "" is the tool.
    """
    for name in _properties(manifest):
        if not name.isidentifier() or len(name) > 64:
            raise ConfigurationError(
                f"{place(name)}: the argument {name[:80]!r} must be named as a variable is: letters, digits and _, at "
                "most 64; rename it"
            )
        if name in _RESERVED:
            raise ConfigurationError(
                f"{place(name)}: {name} is the call's own time, for every tool; rename the argument"
            )
    try:
        Arguments(manifest)
        Output(manifest)
    except ConfigurationError as error:
        raise ConfigurationError(f"{place('')}: {error}") from None


def fits(manifest: Manifest) -> Callable[[str, Json], str]:
    """A check of single arguments: what is wrong with a value, empty where it fits."""
    required = manifest.input_schema.get("required")
    alone = {**manifest.input_schema, "required": ()} if required else manifest.input_schema
    arguments = Arguments(replace(manifest, input_schema=alone))

    def check(name: str, value: Json) -> str:
        return "; ".join(arguments.faults({name: thaw(value)}))

    return check


def _properties(manifest: Manifest) -> Mapping[str, Json]:
    properties = manifest.input_schema["properties"]
    assert isinstance(properties, Mapping)
    return properties


def is_name_of(stem: str, name: str) -> bool:
    """Whether a file of that stem may give a tool this name."""
    return name == stem or name.startswith(f"{stem}_")


def check_names(found: Iterable[Manifest], origin: str, stem: str, built_in: Iterable[str]) -> None:
    """Refuses names that are not the file's to give: a tool is called as its file is, or that and `_` and more."""
    names: set[str] = set()
    for each in found:
        if each.name in built_in:
            raise ConfigurationError(f"{each.origin}: {each.name} is a built-in tool; choose another name")
        if not is_name_of(stem, each.name):
            raise ConfigurationError(
                f"{each.origin}: the tools of this file are named {stem} or {stem}_…, so {each.name!r} is not its to "
                "give; rename the tool or the file"
            )
        if each.name in names:
            raise ConfigurationError(f"{each.origin}: a second tool is named {each.name}; rename one")
        names.add(each.name)
