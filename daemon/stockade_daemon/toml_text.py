"""TOML text with places: the tables that `tomllib` makes, and where each key and element stands.

The standard parser says what a file holds but not where. The text is therefore walked a second time, after
`tomllib` has accepted it: of text that is known to be valid only strings, brackets and comments have to be
told apart, so the walk is short and has no errors of its own. (TOML 1.0, https://toml.io/en/v1.0.0)
"""

import re
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final, NoReturn, TypeAlias

from stockade_daemon.errors import ConfigurationError, Mistake

# The way to a value from the top of the file: keys of tables, positions in arrays.
Way: TypeAlias = tuple[str | int, ...]

MAX_BYTES: Final = 64 * 1024  # the longest file of ours is a tenth of it; the parser is slow on hostile text

_BLANK = re.compile(r"(?:[ \t\n]|#[^\n]*)*")  # space, line ends and comments
_KEY = re.compile(
    r"""(?:"(?:[^"\\\n]|\\.)*"|'[^'\n]*'|[A-Za-z0-9_-]+)"""
    r"""(?:[ \t]*\.[ \t]*(?:"(?:[^"\\\n]|\\.)*"|'[^'\n]*'|[A-Za-z0-9_-]+))*"""
)
_STRING = re.compile(
    r'"""(?:[^\\]|\\.)*?"""(?:"{0,2})'  # up to two quotes may stand before the closing three
    r"|'''.*?'''(?:'{0,2})"
    r'|"(?:[^"\\\n]|\\.)*"'
    r"|'[^'\n]*'",
    re.DOTALL,
)
_MOST_PARTS: Final = 16  # of a dotted key: with their number the parser's work grows, and its square
_PART = r"""(?:"(?:[^"\\\n]|\\.)*+"|'[^'\n]*+'|[A-Za-z0-9_-]++)"""
# Whatever hides a key from a look at the text, and a key that is too long; said of any text, valid or not.
_TOKEN = re.compile(
    rf"(?P<long>{_PART}(?:[ \t]*+\.[ \t]*+{_PART}){{{_MOST_PARTS},}}+)"
    r'|#[^\n]*+|"""(?:[^\\]|\\.)*?"""|\'\'\'.*?\'\'\''
    rf"|{_PART}",
    re.DOTALL,
)
_SCALAR = re.compile(r"[^,\]}#\n]*")
_PLACE = re.compile(r"\(at line (\d+), column (\d+)\)$")


@dataclass(frozen=True, slots=True)
class Document:
    """A parsed file."""

    source: str  # what errors call it: a path, or the name that a client gave
    table: Mapping[str, Any]
    places: Mapping[Way, tuple[int, int]]  # line and column, from 1; the first mention of a table counts for it

    def place(self, way: Way) -> tuple[int, int]:
        """Line and column of `way`, or of the nearest thing around it; 1, 1 for the file as a whole."""
        while way and way not in self.places:
            way = way[:-1]
        return self.places.get(way, (1, 1))

    def mistake(self, way: Way, reason: str) -> Mistake:
        return Mistake(self.source, *self.place(way), reason)

    def refuse(self, way: Way, reason: str) -> NoReturn:
        """Raises ConfigurationError `source:line:column: reason`."""
        raise ConfigurationError(self.mistake(way, reason))


def parse(text: bytes, *, source: str) -> Document:
    """The tables of `text` and where everything stands. Raises ConfigurationError, naming the place."""
    if len(text) > MAX_BYTES:
        raise _mistake(source, "", f"the file has {len(text)} bytes; at most {MAX_BYTES} are read, so shorten it")
    try:
        decoded = text.decode("utf-8")
    except UnicodeDecodeError as error:
        before = text[: error.start].decode("utf-8", "replace")
        raise _mistake(source, before, "this is not UTF-8 text; save the file as UTF-8") from None
    if decoded.startswith("\ufeff"):
        raise _mistake(source, "", "the file begins with a byte order mark; save it as UTF-8 without one")
    decoded = decoded.replace("\r\n", "\n")  # what tomllib does first, so lines and places agree
    if "\0" in decoded:
        raise _mistake(source, decoded[: decoded.index("\0")], "a NUL character stands here; remove it")
    for token in _TOKEN.finditer(decoded):
        if token.lastgroup == "long":
            before = decoded[: token.start()]
            raise _mistake(source, before, f"a key of more than {_MOST_PARTS} parts; no table is nested so deeply")
    try:
        table = tomllib.loads(decoded)
        places = _Walk(decoded).places()
    except tomllib.TOMLDecodeError as error:
        raise ConfigurationError(_syntax(source, decoded, str(error))) from None
    except RecursionError:
        raise _mistake(source, "", "arrays or tables are nested too deeply; flatten them") from None
    except ValueError:  # Python's own limit for converting integers, which comes without a place
        found = re.search(r"[0-9_]{640,}", decoded)
        before = decoded[: found.start()] if found else ""
        raise _mistake(source, before, "an integer has too many digits; no key takes one") from None
    return Document(source=source, table=table, places=places)


def _mistake(source: str, before: str, reason: str) -> ConfigurationError:
    """A mistake that stands behind the text `before`."""
    return ConfigurationError(Mistake(source, *_behind(before), reason))


def _behind(text: str) -> tuple[int, int]:
    """Line and column of what follows `text`."""
    return text.count("\n") + 1, len(text) - text.rfind("\n")


def _syntax(source: str, text: str, message: str) -> Mistake:
    """`tomllib`'s complaint with its place; "at end of document" is behind the last text."""
    found = _PLACE.search(message)
    if found:
        line, column, message = int(found[1]), int(found[2]), message[: found.start()].rstrip()
    else:
        (line, column), message = _behind(text.rstrip()), message.replace(" (at end of document)", "")
    return Mistake(source, line, column, f"not valid TOML: {message}; see https://toml.io for how values are written")


class _Walk:
    """One pass over valid TOML text. Line ends are `\\n` alone."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._at = 0
        self._line = 1
        self._counted = 0  # up to here line ends are in _line
        self._places: dict[Way, tuple[int, int]] = {}
        self._arrays: dict[Way, int] = {}  # arrays of tables: how many elements so far

    def places(self) -> dict[Way, tuple[int, int]]:
        table: Way = ()
        self._skip(_BLANK)
        while self._at < len(self._text):
            if self._text.startswith("[[", self._at):
                table = self._header(width=2)
            elif self._text.startswith("[", self._at):
                table = self._header(width=1)
            else:
                self._pair(table)
            self._skip(_BLANK)
        return self._places

    def _skip(self, pattern: re.Pattern[str]) -> str:
        found = pattern.match(self._text, self._at)
        if found is None:  # only where this walk and tomllib disagree about what is valid
            raise AssertionError(f"no {pattern.pattern!r} at character {self._at}")
        self._at = found.end()
        return found[0]

    def _note(self, way: Way, start: int) -> None:
        self._line += self._text.count("\n", self._counted, start)
        self._counted = start
        self._places.setdefault(way, (self._line, start - self._text.rfind("\n", 0, start)))

    def _header(self, *, width: int) -> Way:
        start = self._at
        self._at += width
        self._skip(_BLANK)
        names = _names(self._skip(_KEY))
        self._skip(_BLANK)
        self._at += width
        way: Way = ()
        for name in names[:-1]:
            way = (*way, name)
            self._note(way, start)
            if way in self._arrays:  # [hooks.match] beneath [[hooks]] belongs to the newest element
                way = (*way, self._arrays[way] - 1)
        way = (*way, names[-1])
        self._note(way, start)
        if width == 2:
            index = self._arrays.get(way, 0)
            self._arrays[way] = index + 1
            way = (*way, index)
            self._note(way, start)
        return way

    def _pair(self, table: Way) -> None:
        start = self._at
        way = table
        for name in _names(self._skip(_KEY)):
            way = (*way, name)
            self._note(way, start)
        self._skip(_BLANK)
        self._at += 1  # the equals sign
        self._skip(_BLANK)
        self._value(way)

    def _value(self, way: Way) -> None:
        first = self._text[self._at]
        if first == "[":
            self._at += 1
            index = 0
            while not self._closed("]"):
                self._note((*way, index), self._at)
                self._value((*way, index))
                index += 1
        elif first == "{":
            self._at += 1
            while not self._closed("}"):
                self._pair(way)
        elif first in "\"'":
            self._skip(_STRING)
        else:
            self._skip(_SCALAR)

    def _closed(self, bracket: str) -> bool:
        """Steps over what stands between two elements; true, and past it, at the closing bracket."""
        self._skip(_BLANK)
        if self._text[self._at] == ",":
            self._at += 1
            self._skip(_BLANK)
        if self._text[self._at] == bracket:
            self._at += 1
            return True
        return False


def _names(key: str) -> list[str]:
    """The parts of a dotted key, quotes and escapes resolved: tomllib reads it once more, alone."""
    names: list[str] = []
    table: Any = tomllib.loads(f"{key} = 0")
    while isinstance(table, dict):
        (name, table), *_ = table.items()
        names.append(name)
    return names
