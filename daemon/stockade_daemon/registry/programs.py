"""Tools without Python: a TOML file that says which program to run, with which arguments.

The file is data, so it is read here, by the same rules as every other file of ours. A template becomes arguments of the
program one by one; no shell ever sees it.
"""

import string
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import Any, Final

from stockade_daemon import json_text, settings, toml_text
from stockade_daemon.errors import ConfigurationError
from stockade_daemon.registry import custom, manifests, outputs
from stockade_daemon.registry.dashes import Options
from stockade_daemon.registry.freezing import freeze
from stockade_daemon.registry.schemas import violations
from stockade_daemon.settings import Key, Unfit, number, one_of, several, text, whole
from stockade_daemon.toml_text import Document, Way
from stockade_daemon.values import Json, Manifest, Part, ProgramBody

_MOST_ARGUMENTS: Final = 64
_MOST_PARTS: Final = 256


@dataclass(frozen=True, slots=True)
class Element:
    """An element of argv as the file has it: a text, or texts that are there when an argument is given."""

    texts: tuple[str, ...]
    when: str | None = None


def _truth(value: object) -> bool:
    if not isinstance(value, bool):
        raise Unfit("must be true or false")
    return value


def _argv(value: object) -> tuple[Element, ...]:
    if not isinstance(value, list) or not 0 < len(value) <= _MOST_PARTS:
        raise Unfit(f"must be an array of 1 to {_MOST_PARTS} elements: the program, then its arguments")
    found = []
    for index, each in enumerate(value):
        if isinstance(each, str):
            found.append(Element((each,)))
        elif isinstance(each, dict) and set(each) == {"when", "argv"} and isinstance(each["when"], str):
            inner = each["argv"]
            if not isinstance(inner, list) or not inner or not all(isinstance(text, str) for text in inner):
                raise Unfit("has a `when` whose argv is not an array of texts; write [TEXT, …]", (index, "argv"))
            found.append(Element(tuple(inner), each["when"]))
        else:
            raise Unfit(
                'has an element that is neither a text nor {when = "ARGUMENT", argv = [TEXT, …]}',
                (index,),
            )
        if any("\0" in text for text in found[-1].texts):
            raise Unfit("has an element with a NUL character, which no argument can have; remove it", (index,))
    return tuple(found)


def _arguments(value: object) -> dict[str, dict[str, Any]]:
    if not isinstance(value, dict) or len(value) > _MOST_ARGUMENTS:
        raise Unfit(f"must be a table of at most {_MOST_ARGUMENTS} arguments")
    for name, schema in value.items():
        if not isinstance(schema, dict):
            raise Unfit(f'{name!r} must be a table such as {{type = "string", description = "…"}}', (name,))
        try:
            json_text.check(schema, max_depth=8)
        except json_text.NotLossless as error:
            raise Unfit(f"{name!r} holds what JSON does not have: {error}; write it as text", (name,)) from None
        if not isinstance(schema.get("optional", False), bool):
            raise Unfit(f"{name!r} has an `optional` that is neither true nor false; write one", (name, "optional"))
        if "default" in schema and "optional" in schema:
            raise Unfit(f"{name!r} has a default, so it may be left out already; remove `optional`", (name, "optional"))
    return value


DESCRIPTION: Final[Key[str]] = Key("description", text(4000), "", "text", "What the tool does, for the model.")
ACCESS: Final[Key[str]] = Key(
    "access",
    one_of("none", "read", "overlay"),
    "none",
    "none, read, overlay",
    "What the program sees of the workspace: nothing; the workspace, read-only; a private view that it may write, "
    "whose changes the result lists.",
)
KIND: Final[Key[str]] = Key(
    "kind",
    one_of("read", "command"),
    "command",
    "read, command",
    "What policy judges a call as. With access overlay: command.",
)
TIMEOUT: Final[Key[float]] = Key(
    "timeout_s", number(0.1, 86400), 30.0, "0.1 to 86400", "Seconds the program may take; the profile's may be fewer."
)
PARALLEL: Final[Key[bool]] = Key("parallel_safe", _truth, False, "true, false", "Calls of one turn may overlap.")
IDEMPOTENT: Final[Key[bool]] = Key("idempotent", _truth, False, "true, false", "Running it twice is the same as once.")
OUTPUT: Final[Key[int]] = Key(
    "output_bytes", whole(1, 1024 * 1024), 65536, "1 to 1048576", "Cap on the text for the model."
)
TITLE: Final[Key[str]] = Key(
    "title",
    text(200),
    "",
    "text",
    "What a card says of a call, {argument} replaced by its text. Default: the name and the arguments that have to be "
    "given.",
)
ARGV: Final[Key[tuple[Element, ...]]] = Key(
    "program.argv",
    _argv,
    (),
    "array of texts, or of {when, argv}",
    "The program and its arguments. {name} is replaced by the argument's text.",
)
STDIN: Final[Key[str]] = Key(
    "program.stdin", text(4000), "", "text", "What the program reads, {name} replaced. Default: nothing."
)
DASHES: Final[Key[tuple[str, ...]]] = Key(
    "program.dashes",
    several(text(64), most=_MOST_ARGUMENTS),
    (),
    "array of names",
    "Arguments whose text may begin with - where the program could take it for an option.",
)
ARGUMENTS: Final[Key[dict[str, dict[str, Any]]]] = Key(
    "arguments",
    _arguments,
    {},
    "table of tables",
    "What the model gives: for each a JSON Schema (type, description, default, enum, minimum …), and `optional`.",
)
KEYS: Final[tuple[Key[Any], ...]] = (
    DESCRIPTION, ACCESS, KIND, TIMEOUT, PARALLEL, IDEMPOTENT, OUTPUT, TITLE, ARGV, STDIN, DASHES, ARGUMENTS,
)  # fmt: skip


def read(contents: bytes, *, origin: str, stem: str, built_in: Iterable[str]) -> Manifest:
    """The tool that a file describes; its name is the file's. Raises ConfigurationError `ORIGIN:LINE…: …`."""
    document = toml_text.parse(contents, source=origin)
    at = settings.read(document, KEYS)
    given: dict[str, dict[str, Any]] = at[ARGUMENTS]
    if not at[ARGV]:
        document.refuse(("program",), "there is no [program] argv; name the program and its arguments")
    optional = {name for name, schema in given.items() if schema.get("optional")}
    required = [name for name, schema in given.items() if name not in optional and "default" not in schema]
    properties: dict[str, Json] = {
        name: {key: value for key, value in schema.items() if key != "optional"} for name, schema in given.items()
    }
    for name, each in properties.items():
        if found := violations({"type": "object", "properties": {name: each}, "additionalProperties": False}):
            reasons = "; ".join(each.replace("input_schema.properties", "arguments") for each in found)
            document.refuse(("arguments", name), reasons)
    schema: dict[str, Json] = {"type": "object", "properties": properties, "additionalProperties": False}
    if required:
        schema["required"] = required
    value: dict[str, Json] = {
        "name": stem,
        "description": at[DESCRIPTION],
        "input_schema": schema,
        "access": at[ACCESS],
        "kind": at[KIND],
        "body": "command",
        "timeout_s": at[TIMEOUT],
        "parallel_safe": at[PARALLEL],
        "idempotent": at[IDEMPOTENT],
        "output_bytes": at[OUTPUT],
        "card_title": at[TITLE] or " ".join([stem, *(f"{{{name}}}" for name in required)]),
        "observes": False,
    }
    manifest = manifests.judge(value, lambda key: _place(document, key))
    manifest = replace(manifest, origin=_place(document, ""), output_schema=outputs.of_command())
    custom.usable(manifest, lambda name: _place(document, "input_schema", name))
    custom.check_names([manifest], origin, stem, built_in)
    _check_defaults(manifest, given, document)
    return replace(manifest, custom=_program(document, at, given, optional))


def _place(document: Document, key: str, *within: str) -> str:
    """`ORIGIN:LINE` of a manifest's key in the file that it was made from."""
    ways: Mapping[str, Way] = {"input_schema": ("arguments",), "card_title": ("title",)}
    way = (*ways.get(key, (key,) if key else ()), *(each for each in within if each))
    try:
        document.refuse(way, "")
    except ConfigurationError as error:
        return str(error).removesuffix(": ")


def _check_defaults(manifest: Manifest, given: Mapping[str, Mapping[str, Any]], document: Document) -> None:
    """A default has to fit like an argument that was given."""
    validate = custom.fits(manifest)
    for name, schema in given.items():
        if "default" in schema and (fault := validate(name, schema["default"])):
            document.refuse(
                ("arguments", name, "default"), f"the default of {name!r} does not fit: {fault}; change one"
            )


def _program(
    document: Document, at: settings.Settings, given: Mapping[str, Mapping[str, Any]], optional: set[str]
) -> ProgramBody:
    elements: tuple[Element, ...] = at[ARGV]
    dashes: tuple[str, ...] = at[DASHES]
    parts: list[Part] = []
    options = Options(given, dashes)
    for index, element in enumerate(elements):
        way: Way = ("program", "argv", index)
        if element.when is not None and element.when not in given:
            document.refuse(way, f"`when` names {element.when!r}, which is no argument; {_known(given)}")
        sure = {*given} - optional | {element.when or ""}
        own = []
        for each in element.texts:
            pieces = _pieces(document, way, each, given, sure)
            listed = [name for kind, name in pieces if kind == "argument" and given[name].get("type") == "array"]
            if listed and len(pieces) > 1:
                document.refuse(
                    way, f"{listed[0]!r} is a list: let the element be {{{listed[0]}}} alone; each item is an argument"
                )
            bare = bool(pieces) and pieces[0][0] == "argument" and not options.over
            own.append(Part(pieces, element.when, bare))
        options.passes(own)
        parts += own
    first = parts[0]
    name = "".join(piece for _, piece in first.pieces)
    if first.given is not None or any(kind == "argument" for kind, _ in first.pieces) or not name:
        document.refuse(
            ("program", "argv", 0), "the program itself is a fixed text, which no argument chooses; write its name"
        )
    if "/" in name and not name.startswith("/"):
        document.refuse(
            ("program", "argv", 0), f"{name!r} is a relative path; give a program's name, or its absolute path"
        )
    stdin = None
    if at[STDIN]:
        way = ("program", "stdin")
        pieces = _pieces(document, way, at[STDIN], given, {*given} - optional)
        for kind, piece in pieces:
            if kind == "argument" and given[piece].get("type") == "array":
                document.refuse(way, f"{piece!r} is a list, which input cannot be made of; take it as a text")
        stdin = Part(pieces)
    for name in dashes:
        if name not in given:
            document.refuse(("program", "dashes"), f"{name!r} is no argument; {_known(given)}")
    defaults = freeze({name: schema["default"] for name, schema in given.items() if "default" in schema})
    assert isinstance(defaults, Mapping)
    return ProgramBody(tuple(parts), stdin, MappingProxyType(dict(defaults)), frozenset(dashes))


def _known(given: Iterable[str]) -> str:
    return f"there are {', '.join(given) or 'none: write it beneath [arguments]'}"


def _pieces(
    document: Document, way: Way, template: str, given: Mapping[str, Mapping[str, Any]], sure: set[str]
) -> tuple[tuple[Any, str], ...]:
    try:
        parsed = list(string.Formatter().parse(template))
    except ValueError as error:
        document.refuse(way, f"{template!r} is no template ({error}); braces that are meant are written {{{{ and }}}}")
    pieces: list[tuple[Any, str]] = []
    for literal, field, spec, conversion in parsed:
        if literal:
            pieces.append(("text", literal))
        if field is None:
            continue
        if field not in given:
            document.refuse(way, f"{{{field}}} is no argument; {_known(given)}")
        if spec or conversion:
            document.refuse(
                way, f"{{{field}}} has a format or a conversion, and none is taken; write {{{field}}} alone"
            )
        if field not in sure:
            document.refuse(
                way,
                f"{field!r} may be left out; let the elements that need it be "
                f'{{when = "{field}", argv = [{template!r}]}}, or give it a default',
            )
        pieces.append(("argument", field))
    return tuple(pieces)
