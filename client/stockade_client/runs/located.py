"""JSON that says where each of its values stands: a fault in a line is told with its column.

Stricter than the json module: no key twice in an object, no NaN or Infinity, nothing nested deeper than DEEPEST.
"""

import json
from dataclasses import dataclass
from typing import Final, NoReturn, TypeAlias

from stockade_client.results import Json

DEEPEST: Final = 100
_SPACE: Final = " \t\r\n"

Path: TypeAlias = tuple[str | int, ...]


class Misread(ValueError):
    """`column` counts characters from 1."""

    def __init__(self, column: int, reason: str) -> None:
        super().__init__(reason)
        self.column = column
        self.reason = reason


@dataclass(frozen=True, slots=True)
class Located:
    """A value, and by path the column of each value in it; of a member that of its key."""

    value: Json
    columns: dict[Path, int]


def parse(text: str) -> Located:
    """Raises Misread."""
    reader = _Reader(text)
    value = reader.value(())
    if reader.at < len(text):
        reader.fault("something follows the JSON value; put each entry on a line of its own")
    return Located(value, reader.columns)


def _constant(name: str) -> NoReturn:
    raise ValueError(f"{name} is not JSON")


class _Reader:
    def __init__(self, text: str) -> None:
        self._text = text
        self._scalars = json.JSONDecoder(parse_constant=_constant)
        self.at = 0
        self.columns: dict[Path, int] = {}

    def fault(self, reason: str, at: int | None = None) -> NoReturn:
        raise Misread((self.at if at is None else at) + 1, reason)

    def value(self, path: Path) -> Json:
        self._skip()
        self.columns.setdefault(path, self.at + 1)
        if len(path) > DEEPEST:
            self.fault(f"nested deeper than {DEEPEST} levels")
        begins = self._text[self.at : self.at + 1]
        if begins == "{":
            found = self._object(path)
        elif begins == "[":
            found = self._array(path)
        else:
            found = self._scalar()
        self._skip()
        return found

    def _object(self, path: Path) -> Json:
        self.at += 1
        found: dict[str, Json] = {}
        self._skip()
        if self._taken("}"):
            return found
        while True:
            self._skip()
            begins = self.at
            if not self._text.startswith('"', begins):
                self.fault("a key in double quotes should stand here")
            key = self._scalar()
            assert isinstance(key, str)  # it begins with a quote
            if key in found:
                self.fault(f"the key {key!r} stands twice in one object", begins)
            self._skip()
            if not self._taken(":"):
                self.fault("a colon should stand here")
            self.columns[*path, key] = begins + 1
            found[key] = self.value((*path, key))
            if self._taken("}"):
                return found
            if not self._taken(","):
                self.fault("a comma or } should stand here")

    def _array(self, path: Path) -> Json:
        self.at += 1
        found: list[Json] = []
        self._skip()
        if self._taken("]"):
            return found
        while True:
            found.append(self.value((*path, len(found))))
            if self._taken("]"):
                return found
            if not self._taken(","):
                self.fault("a comma or ] should stand here")

    def _scalar(self) -> Json:
        try:
            found: Json
            found, self.at = self._scalars.raw_decode(self._text, self.at)
        except json.JSONDecodeError as error:
            self.fault(f"this is not JSON: {error.msg}", error.pos)
        except ValueError as error:
            self.fault(str(error))
        return found

    def _taken(self, mark: str) -> bool:
        taken = self._text.startswith(mark, self.at)
        self.at += taken
        return taken

    def _skip(self) -> None:
        while self._text[self.at : self.at + 1] and self._text[self.at] in _SPACE:
            self.at += 1
