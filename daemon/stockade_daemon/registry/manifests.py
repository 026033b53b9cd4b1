"""Tools as data: manifests, read strictly. No tool module is imported.

Those of the built-in tools lie beside their bodies. A custom tool's is what a worker, or a file, says of it, and is
judged by the same rules.
"""

import importlib.util
import re
import string
from collections.abc import Callable, Iterator, Mapping
from difflib import get_close_matches
from enum import StrEnum
from pathlib import Path
from typing import Final, TypeVar

from stockade_daemon import json_text
from stockade_daemon.errors import ConfigurationError
from stockade_daemon.registry.freezing import freeze
from stockade_daemon.registry.schemas import violations
from stockade_daemon.values import Access, Body, Json, Kind, Manifest

_NAME: Final = re.compile(r"[a-z][a-z0-9_]{0,63}", re.ASCII)
_MAX_TIMEOUT_S: Final = 86_400
_MAX_OUTPUT_BYTES: Final = 1024 * 1024  # a message is 4 MiB, and a result is more than its content
_MAX_DESCRIPTION: Final = 4000  # characters; every model call pays for it
_MAX_TITLE: Final = 200
_MAX_SCHEMA: Final = 64 * 1024  # bytes of its JSON text
# What a terminal or a reader could be led astray by: controls, and marks that turn the direction of writing.
_UNSHOWN: Final = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069\ud800-\udfff]")

E = TypeVar("E", bound=StrEnum)


def built_in() -> Path:
    """The directory of the built-in tools. Finding the package does not import it."""
    spec = importlib.util.find_spec("stockade_worker")
    if spec is None or not spec.submodule_search_locations:
        raise ConfigurationError(
            "stockade_worker: the built-in tools are not installed; install the whole distribution again"
        )
    return Path(next(iter(spec.submodule_search_locations))) / "tools"


def load(directory: Path | None = None) -> dict[str, Manifest]:
    """The manifests of `directory` (`*.json`; the built-in tools' where it is None) by tool name, in name order.

    Raises ConfigurationError naming file, line and key.
    """
    place = built_in() if directory is None else directory
    try:
        paths = sorted(path for path in place.iterdir() if path.suffix == ".json")
    except OSError as error:
        raise ConfigurationError(
            f"{place}: the tools' manifests cannot be read: {error.strerror}; install the distribution again"
        ) from error
    if not paths:
        raise ConfigurationError(f"{place}: holds no tool manifest (*.json); name a directory that does")
    return {path.stem: read(path) for path in paths}


def read(path: Path) -> Manifest:
    """The manifest in one file. Raises ConfigurationError naming file, line and key."""
    try:
        text = path.read_bytes()
    except OSError as error:
        raise ConfigurationError(f"{path}: cannot be read: {error.strerror}; check its rights") from error
    try:
        value = json_text.parse(text)
    except json_text.NotLossless as error:
        raise ConfigurationError(f"{path}: is not a manifest: {error}; correct the JSON") from error
    if not isinstance(value, Mapping):
        raise ConfigurationError(f"{path}:1: a manifest is a JSON object; write one")
    decoded = text.decode()

    def place(key: str) -> str:
        """The line where the key stands first; an object's own keys stand before their values."""
        start = decoded.find(f'"{key}"') if key else 0
        return f"{path}:{decoded.count(chr(10), 0, max(start, 0)) + 1}"

    manifest = judge(value, place)
    if manifest.name != path.stem:
        raise ConfigurationError(f"{place('name')}: the name {manifest.name!r} must be the file's own name; rename one")
    return manifest


def judge(value: Mapping[str, Json], place: Callable[[str], str]) -> Manifest:
    """The manifest that `value` is, whoever made it. `place` says where a key stands, for errors.

    Raises ConfigurationError.
    """
    return _Reading(value, place).manifest()


class _Reading:
    """One manifest being read; knows where it is for its errors."""

    def __init__(self, value: Mapping[str, Json], place: Callable[[str], str]) -> None:
        self._place = place
        self._value = value

    def manifest(self) -> Manifest:
        for key in self._value:
            if key not in FIELDS:
                near = get_close_matches(key, FIELDS, n=1)
                hint = f"did you mean {near[0]!r}?" if near else f"the keys are {', '.join(FIELDS)}"
                raise self._error(key, f"unknown key {key[:80]!r}; {hint}")
        missing = [key for key in FIELDS if key not in self._value and key not in _OPTIONAL]
        if missing:
            raise self._error("", f"missing {', '.join(map(repr, missing))}; every key is written out")
        name = self._text_of("name", 64)
        if not _NAME.fullmatch(name):
            raise self._error("name", f"the name {name!r} must be of a-z 0-9 _ and begin with a letter; rename it")
        manifest = Manifest(
            name=name,
            description=self._text_of("description", _MAX_DESCRIPTION),
            input_schema=self._schema("input_schema"),
            output_schema=self._schema("output_schema") if "output_schema" in self._value else None,
            access=self._choice("access", Access),
            kind=self._choice("kind", Kind),
            body=self._choice("body", Body),
            timeout_s=self._number("timeout_s", _MAX_TIMEOUT_S),
            parallel_safe=self._truth("parallel_safe"),
            idempotent=self._truth("idempotent"),
            output_bytes=self._count("output_bytes", _MAX_OUTPUT_BYTES),
            card_title=self._title(),
            observes=self._truth("observes"),
        )
        if manifest.access is Access.OVERLAY and manifest.kind is not Kind.COMMAND:
            # Its changes are judged as a command's are: by what the profile says of commands and effects.
            raise self._error("kind", "kind must be command where access is overlay; change one of the two")
        return manifest

    def _schema(self, key: str) -> Mapping[str, Json]:
        schema = self._value[key]
        found = violations(schema, key)
        if found:
            raise self._error(key, f"{'; '.join(found[:20])}; correct the schema")
        if len(json_text.dump(schema)) > _MAX_SCHEMA:
            raise self._error(key, f"{key} has more than {_MAX_SCHEMA} bytes; shorten it")
        for text in _texts(schema):
            if found_mark := _UNSHOWN.search(text):
                mark = ord(found_mark[0])
                raise self._error(key, f"it has the character U+{mark:04X}, which does not show; remove it")
        frozen = freeze(schema)
        assert isinstance(frozen, Mapping)
        return frozen

    def _title(self) -> str:
        title = self._text_of("card_title", _MAX_TITLE)
        schema = self._value["input_schema"]
        properties = schema.get("properties") if isinstance(schema, Mapping) else None
        known = properties if isinstance(properties, Mapping) else {}
        try:
            parts = list(string.Formatter().parse(title))
        except ValueError as error:
            raise self._error("card_title", f"{title!r} is no template ({error}); use {{argument}}") from None
        for _, field, spec, conversion in parts:
            if field is not None and (field not in known or spec or conversion):
                use = f"use {{name}} of {', '.join(known)}" if known else "there is none, so take it out"
                raise self._error("card_title", f"{{{field}}} is no argument; {use}")
        return title

    def _text_of(self, key: str, most: int) -> str:
        value = self._value[key]
        if not isinstance(value, str) or not value.strip():
            raise self._error(key, f"{key} must be text; write some")
        if len(value) > most:
            raise self._error(key, f"{key} has {len(value)} characters; at most {most} are taken, so shorten it")
        if found := _UNSHOWN.search(value):
            raise self._error(key, f"{key} has the character U+{ord(found[0]):04X}, which does not show; remove it")
        return value

    def _truth(self, key: str) -> bool:
        value = self._value[key]
        if not isinstance(value, bool):
            raise self._error(key, f"{key} must be true or false; it is {_shown(value)}")
        return value

    def _number(self, key: str, most: int) -> float:
        value = self._value[key]
        if isinstance(value, bool) or not isinstance(value, int | float) or not 0 < value <= most:
            raise self._error(key, f"{key} must be a number above 0 and at most {most}; it is {_shown(value)}")
        return float(value)

    def _count(self, key: str, most: int) -> int:
        value = self._value[key]
        if isinstance(value, bool) or not isinstance(value, int) or not 0 < value <= most:
            raise self._error(key, f"{key} must be an integer from 1 to {most}; it is {_shown(value)}")
        return value

    def _choice(self, key: str, choices: type[E]) -> E:
        value = self._value[key]
        for choice in choices:
            if choice.value == value:
                return choice
        raise self._error(key, f"{key} must be one of {', '.join(choices)}; it is {_shown(value)}")

    def _error(self, key: str, what: str) -> ConfigurationError:
        return ConfigurationError(f"{self._place(key)}: {what}")


# What a manifest says; where it comes from and what runs, it does not say itself.
FIELDS: Final = tuple(name for name in Manifest.__dataclass_fields__ if name not in ("origin", "custom"))
_OPTIONAL: Final = frozenset({"output_schema"})


def _texts(value: Json) -> Iterator[str]:
    """Every text in a value whose depth is bounded, keys included."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, Mapping):
        yield from value
        for child in value.values():
            yield from _texts(child)
    elif isinstance(value, list | tuple):
        for child in value:
            yield from _texts(child)


def _shown(value: Json) -> str:
    text = repr(value)
    return text if len(text) <= 80 else f"{text[:80]}…"
