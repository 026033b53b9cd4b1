"""Tools as data: the manifests that lie beside the tools' bodies, read strictly. No tool module is imported."""

import importlib.util
import re
import string
from collections.abc import Mapping
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
    return _Reading(path, text.decode(), value).manifest()


class _Reading:
    """One file being read; knows where it is for its errors."""

    def __init__(self, path: Path, text: str, value: Mapping[str, Json]) -> None:
        self._path = path
        self._text = text
        self._value = value

    def manifest(self) -> Manifest:
        for key in self._value:
            if key not in _FIELDS:
                near = get_close_matches(key, _FIELDS, n=1)
                hint = f"did you mean {near[0]!r}?" if near else f"the keys are {', '.join(_FIELDS)}"
                raise self._error(key, f"unknown key {key!r}; {hint}")
        missing = [key for key in _FIELDS if key not in self._value]
        if missing:
            raise self._error("", f"missing {', '.join(map(repr, missing))}; every key is written out")
        name = self._text_of("name")
        if not _NAME.fullmatch(name) or name != self._path.stem:
            raise self._error("name", f"the name {name!r} must be a-z 0-9 _ and the file's own name")
        return Manifest(
            name=name,
            description=self._text_of("description"),
            input_schema=self._schema(),
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

    def _schema(self) -> Mapping[str, Json]:
        schema = self._value["input_schema"]
        found = violations(schema)
        if found:
            raise self._error("input_schema", f"{'; '.join(found)}; correct the schema")
        frozen = freeze(schema)
        assert isinstance(frozen, Mapping)
        return frozen

    def _title(self) -> str:
        title = self._text_of("card_title")
        schema = self._value["input_schema"]
        properties = schema.get("properties") if isinstance(schema, Mapping) else None
        known = properties if isinstance(properties, Mapping) else {}
        try:
            parts = list(string.Formatter().parse(title))
        except ValueError as error:
            raise self._error("card_title", f"{title!r} is no template ({error}); use {{argument}}") from None
        for _, field, spec, conversion in parts:
            if field is not None and (field not in known or spec or conversion):
                raise self._error("card_title", f"{{{field}}} is no argument; use {{name}} of {', '.join(known)}")
        return title

    def _text_of(self, key: str) -> str:
        value = self._value[key]
        if not isinstance(value, str) or not value.strip():
            raise self._error(key, f"{key} must be text; write some")
        return value

    def _truth(self, key: str) -> bool:
        value = self._value[key]
        if not isinstance(value, bool):
            raise self._error(key, f"{key} must be true or false; it is {value!r}")
        return value

    def _number(self, key: str, most: int) -> float:
        value = self._value[key]
        if isinstance(value, bool) or not isinstance(value, int | float) or not 0 < value <= most:
            raise self._error(key, f"{key} must be a number above 0 and at most {most}; it is {value!r}")
        return float(value)

    def _count(self, key: str, most: int) -> int:
        value = self._value[key]
        if isinstance(value, bool) or not isinstance(value, int) or not 0 < value <= most:
            raise self._error(key, f"{key} must be an integer from 1 to {most}; it is {value!r}")
        return value

    def _choice(self, key: str, choices: type[E]) -> E:
        value = self._value[key]
        for choice in choices:
            if choice.value == value:
                return choice
        raise self._error(key, f"{key} must be one of {', '.join(choices)}; it is {value!r}")

    def _error(self, key: str, what: str) -> ConfigurationError:
        """Names the line where the key stands first; an object's own keys stand before their values."""
        start = self._text.find(f'"{key}"') if key else 0
        line = self._text.count("\n", 0, max(start, 0)) + 1
        return ConfigurationError(f"{self._path}:{line}: {what}")


_FIELDS: Final = tuple(Manifest.__dataclass_fields__)
