"""Whether a value fits a schema, and every fault of one that does not, in plain words with its place.

Nothing is coerced: "5" is no number, true is no 1, and 5.0 is no integer (JSON Schema says it is one; who counts lines
wants an int). The one thing that is taken for another is null for a member that may be left out and cannot be null:
models and programs write it for "not there", and it is treated so.

What validates is jsonschema-rs. It judges integers of any size exactly; patterns run in its linear-time engine.
"""

from collections.abc import Iterator, Mapping
from difflib import get_close_matches
from itertools import chain, islice
from typing import Any, Final

import jsonschema_rs

from stockade_daemon import json_text
from stockade_daemon.registry.freezing import thaw
from stockade_daemon.values import Json

NO_NUL: Final = "^[^\\u0000]*$"  # the pattern of paths and commands: the kernel ends them at a NUL

_MAX_FAULTS: Final = 20  # a message is for a model, and stays under the 4 KiB of an error's details
_MAX_ITEMS_LISTED: Final = 1000

_NAMES: Final = {
    "string": "text",
    "integer": "an integer",
    "number": "a number",
    "boolean": "true or false",
    "array": "a list",
    "object": "an object",
    "null": "null",
}


class Fitting:
    """One schema of the part that schemas.py admits, compiled once."""

    def __init__(self, schema: Mapping[str, Json], noun: str) -> None:
        """`noun`: what a member of the value is called. Raises ValueError where the schema cannot be compiled, for
        example for a pattern that is none."""
        self._schema = schema
        self._noun = noun
        thawed = thaw(schema)
        assert isinstance(thawed, dict)
        try:
            self._validator = jsonschema_rs.Draft202012Validator(
                thawed, pattern_options=jsonschema_rs.RegexOptions(), offline=True
            )
        except jsonschema_rs.ValidationError as error:
            raise ValueError(str(error)) from error

    def faults(self, value: Json) -> list[str]:
        """Why a value of dicts and lists, without what `without_absent` takes out, does not fit: at most _MAX_FAULTS
        reasons. None: it does."""
        found = chain.from_iterable(
            _sentences(error, self._schema, value, self._noun) for error in self._violations(value)
        )
        faults = list(islice(chain(found, _floats(value, self._schema, "$")), _MAX_FAULTS + 1))
        if len(faults) > _MAX_FAULTS:
            faults[_MAX_FAULTS] = "and more"
        return faults

    def _violations(self, value: Json) -> list[jsonschema_rs.ValidationError]:
        """All of them; of a value with very many items the first, since the library lists a million one by one
        (24 us each) before it gives any.
        """
        if self._validator.is_valid(value):
            return []
        if _has_more_items(value, _MAX_ITEMS_LISTED):
            try:
                self._validator.validate(value)
            except jsonschema_rs.ValidationError as error:
                return [error]
        return list(self._validator.iter_errors(value))


def without_absent(value: Json, schema: Json) -> Json:
    """The value without the optional members that are null though their schema has no null."""
    if not isinstance(schema, Mapping):
        return value
    if isinstance(value, list):
        return [without_absent(child, schema.get("items")) for child in value]
    properties = schema.get("properties")
    if not isinstance(value, dict) or not isinstance(properties, Mapping):
        return value
    required = schema.get("required")
    needed = required if isinstance(required, tuple) else ()
    kept: dict[str, Json] = {}
    for name, child in value.items():
        own = properties.get(name)
        if child is None and isinstance(own, Mapping) and own.get("type") != "null" and name not in needed:
            continue
        kept[name] = without_absent(child, own)
    return kept


def _has_more_items(value: Json, most: int) -> bool:
    stack = [value]
    while stack and most > 0:
        item = stack.pop()
        if isinstance(item, dict):
            stack.extend(item.values())
        elif isinstance(item, list):
            stack.extend(item)
        most -= 1
    return bool(stack)


def _floats(value: Json, schema: Json, place: str) -> Iterator[str]:
    """Finds integral floats where the schema wants an integer; other floats the validator has found."""
    if not isinstance(schema, Mapping):
        return
    if isinstance(value, float) and value.is_integer() and schema.get("type") == "integer":
        yield f"{place} is {value!r}: write an integer without a fraction or exponent"
    elif isinstance(value, list):
        for index, child in enumerate(value):
            yield from _floats(child, schema.get("items"), f"{place}[{index}]")
    elif isinstance(value, dict):
        properties = schema.get("properties")
        if isinstance(properties, Mapping):
            for name, child in value.items():
                yield from _floats(child, properties.get(name), f"{place}.{name}")


def _sentences(error: jsonschema_rs.ValidationError, schema: Json, given: Json, noun: str) -> Iterator[str]:
    """One violation in words, or one for each unknown member."""
    if error.kind.name == "additionalProperties":
        own = _within(schema, error.schema_path[:-1])
        known = own.get("properties") if isinstance(own, Mapping) else None
        names = list(known) if isinstance(known, Mapping) else []
        for name in error.kind.as_dict()["unexpected"]:
            yield _unknown(name, names, _place(error), noun)
    else:
        yield _sentence(error, schema, given, noun)


def _place(error: jsonschema_rs.ValidationError) -> str:
    return "$" + "".join(f"[{part}]" if isinstance(part, int) else f".{part}" for part in error.instance_path)


def _sentence(error: jsonschema_rs.ValidationError, schema: Json, given: Json, noun: str) -> str:
    """The instance is shown cut, since it may be megabytes."""
    place = _place(error)
    at = _within(given, error.instance_path)
    own = _within(schema, error.schema_path[:-1])
    facts: dict[str, Any] = error.kind.as_dict()
    match error.kind.name:
        case "required":
            return f"{_member(facts['property'], place, noun)} is missing"
        case "oneOf":
            return _exactly_one(own, at, place)
        case "type":
            wanted = " or ".join(_NAMES[name] for name in facts["types"])
            return f"{place} must be {wanted}, not {shown(at)}"
        case "pattern" if facts["pattern"] == NO_NUL:
            return f"{place} must not contain a NUL character"
        case "pattern":
            return f"{place} must match the pattern {facts['pattern']}"
        case "enum":
            return f"{place} must be one of {json_text.dump(facts['options']).decode()}, not {shown(at)}"
        case "minimum" | "maximum" | "exclusiveMinimum" | "exclusiveMaximum" as bound:
            word = {
                "minimum": "at least",
                "maximum": "at most",
                "exclusiveMinimum": "more than",
                "exclusiveMaximum": "less than",
            }[bound]
            return f"{place} must be {word} {facts['limit']}, not {shown(at)}"
        case "minLength":
            return f"{place} must {_at_least(facts['limit'], 'characters')}"
        case "maxLength":
            return f"{place} must have at most {facts['limit']} characters"
        case "minItems":
            return f"{place} must {_at_least(facts['limit'], 'items')}"
        case "maxItems":
            return f"{place} must have at most {facts['limit']} items"
        case other:  # registry/schemas.py admits no other keyword
            return f"{place} breaks the rule {other!r} of its schema"


def _at_least(count: int, what: str) -> str:
    return "not be empty" if count == 1 else f"have at least {count} {what}"


def _unknown(name: str, known: list[str], place: str, noun: str) -> str:
    near = get_close_matches(name[:80], known, n=1)
    hint = f"did you mean {near[0]!r}?" if near else f"there are {', '.join(map(repr, known)) or 'none'}"
    where = "" if place == "$" else f" in {place}"
    return f"unknown {noun} {name[:80]!r}{where}: {hint}"


def _member(name: str, place: str, noun: str) -> str:
    return f"the {noun} {name!r}" if place == "$" else f"{place}.{name}"


def _exactly_one(schema: Json, given: Json, place: str) -> str:
    """The subset of schemas has oneOf only for names, one in each choice."""
    choices = schema.get("oneOf") if isinstance(schema, Mapping) else None
    names: list[str] = []
    for choice in choices if isinstance(choices, tuple) else ():
        required = choice.get("required") if isinstance(choice, Mapping) else None
        names += [str(name) for name in required] if isinstance(required, tuple) else []
    there = [name for name in names if isinstance(given, Mapping) and name in given]
    where = "" if place == "$" else f" in {place}"
    which = " and ".join(map(repr, there)) + " were given" if there else "none was given"
    return f"give exactly one of {', '.join(map(repr, names))}{where}: {which}"


def _within(value: Json, path: list[str | int]) -> Json:
    for part in path:
        if isinstance(value, Mapping) and isinstance(part, str):
            value = value.get(part)
        elif isinstance(value, list | tuple) and isinstance(part, int):
            value = value[part]
    return value


def shown(value: Json) -> str:
    """Its JSON text, or what it is where that is long."""
    if isinstance(value, dict):
        return "an object"
    if isinstance(value, list | tuple):
        return "a list"
    text = json_text.dump(value).decode()
    return text if len(text) <= 40 else f"{text[:40]}…"
