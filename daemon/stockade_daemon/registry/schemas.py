"""The part of JSON Schema (draft 2020-12) that tools may use, and nothing beside it.

A keyword that nobody checks is worse than none, so what stands outside this part is refused when the tool is loaded,
every fault in one message. Two rules are stricter than JSON Schema: an object says `additionalProperties: false`, so
a misspelt argument, or member of a value, is never silently dropped; and `oneOf` only stands for "exactly one of these
arguments", so its failure can be told in one plain sentence. References are not in it: a schema never makes the
validator fetch anything.
"""

from collections.abc import Iterator, Mapping
from typing import Final

from stockade_daemon.values import Json

_NUMBERS: Final = frozenset({"minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum"})
_COUNTS: Final = frozenset({"minLength", "maxLength", "minItems", "maxItems"})

# Keywords of each type, beside the annotations that every schema may have.
_KEYWORDS: Final[Mapping[str, frozenset[str]]] = {
    "object": frozenset({"properties", "required", "additionalProperties", "oneOf"}),
    "array": frozenset({"items", "minItems", "maxItems"}),
    "string": frozenset({"minLength", "maxLength", "pattern", "enum"}),
    "integer": _NUMBERS | {"enum"},
    "number": _NUMBERS | {"enum"},
    "boolean": frozenset(),
    "null": frozenset(),
}
_ANNOTATIONS: Final = frozenset({"type", "title", "description", "default", "examples"})


def violations(schema: Json, key: str = "input_schema") -> list[str]:
    """What is wrong with a tool's schema, `key` of its manifest, each with its place; empty where it is fine."""
    found = list(_check(schema, key))
    if key == "input_schema" and isinstance(schema, Mapping) and schema.get("type") != "object":
        found.append("input_schema.type must be 'object', since arguments have names")
    return found


def _check(schema: Json, place: str) -> Iterator[str]:
    if not isinstance(schema, Mapping):
        yield f"{place} must be an object"
        return
    kind = schema.get("type")
    if not isinstance(kind, str) or kind not in _KEYWORDS:
        yield f"{place}.type must be one of {', '.join(_KEYWORDS)}"
        return
    for keyword, value in schema.items():
        if keyword not in _KEYWORDS[kind] | _ANNOTATIONS:
            allowed = ", ".join(sorted(_KEYWORDS[kind] | _ANNOTATIONS))
            yield f"{place}.{keyword} is not supported for type {kind}: use {allowed}"
        elif keyword in ("description", "title") and not (isinstance(value, str) and value.strip()):
            yield f"{place}.{keyword} must be text"
        elif keyword in _NUMBERS and (isinstance(value, bool) or not isinstance(value, int | float)):
            yield f"{place}.{keyword} must be a number"
        elif keyword in _COUNTS and (isinstance(value, bool) or not isinstance(value, int) or not 0 <= value < 2**31):
            yield f"{place}.{keyword} must be a count, 0 to {2**31 - 1}"
        elif keyword == "enum" and not (isinstance(value, list | tuple) and value):
            yield f"{place}.enum must list its values"
        elif keyword == "pattern" and not isinstance(value, str):
            yield f"{place}.pattern must be text"  # whether it is an expression, the validator says
    if kind == "object":
        yield from _check_object(schema, place)
    elif kind == "array":
        yield from _check(schema.get("items"), f"{place}.items")


def _check_object(schema: Mapping[str, Json], place: str) -> Iterator[str]:
    properties = schema.get("properties")
    if not isinstance(properties, Mapping):
        yield f"{place}.properties must be an object"
        return
    if schema.get("additionalProperties") is not False:
        yield f"{place}.additionalProperties must be false: what the schema does not name is always refused"
    for name, child in properties.items():
        if isinstance(child, Mapping) and "description" not in child:
            yield f"{place}.properties.{name} has no description: add one"
        yield from _check(child, f"{place}.properties.{name}")
    if "required" in schema:
        yield from _check_names(schema["required"], properties, f"{place}.required")
    if "oneOf" not in schema:
        return
    choices = schema["oneOf"]
    if not isinstance(choices, list | tuple) or len(choices) < 2:
        yield f"{place}.oneOf must list two or more choices"
        return
    for index, choice in enumerate(choices):
        if not isinstance(choice, Mapping) or set(choice) != {"required"}:
            yield f'{place}.oneOf[{index}] must be of the form {{"required": [NAME]}}'
            continue
        names = choice["required"]
        yield from _check_names(names, properties, f"{place}.oneOf[{index}].required")
        if isinstance(names, list | tuple) and len(names) != 1:
            yield f"{place}.oneOf[{index}].required must hold one name"


def _check_names(names: Json, properties: Mapping[str, Json], place: str) -> Iterator[str]:
    if not isinstance(names, list | tuple):
        yield f"{place} must be a list of names"
        return
    for name in names:
        if not isinstance(name, str) or name not in properties:
            yield f"{place} names {name!r}, which is not one of the properties"
