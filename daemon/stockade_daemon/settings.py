"""The keys that a TOML file of ours may hold, each with its check, its default and its meaning.

A file is described by a list of `Key`s. Reading it against that list answers every mistake with
`file:line:column: what is wrong; what is right`: a key nobody knows (with the nearest one that is known), a value of
the wrong type, one out of range. Nothing is coerced: `"60"` is not 60, and 1 is not true.
"""

import difflib
import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, Generic, TypeVar, cast

from stockade_daemon.errors import ConfigurationError, Mistake
from stockade_daemon.toml_text import Document, Way

T = TypeVar("T")
Item = TypeVar("Item")
Word = TypeVar("Word", bound=str)
Check = Callable[[object], T]


class Unfit(ValueError):
    """A value does not fit its key. `within` leads from the value to the part at fault; `more`: further parts."""

    def __init__(self, reason: str, within: Way = (), more: "Sequence[Unfit]" = ()) -> None:
        super().__init__(reason)
        self.within = within
        self.more = more


@dataclass(frozen=True, slots=True)
class Key(Generic[T]):
    """A key of a file."""

    name: str  # dotted: limits.wall_s
    check: Check[T]  # gives the value back as the daemon uses it, or raises Unfit
    default: T  # taken when the file does not name the key
    allowed: str  # values and unit, for people
    meaning: str

    @property
    def way(self) -> Way:
        return tuple(self.name.split("."))


@dataclass(frozen=True, slots=True)
class Settings:
    """The values that a file sets, checked; the rest come from the keys' defaults."""

    document: Document
    values: Mapping[str, Any]  # by the key's dotted name

    def __getitem__(self, key: Key[T]) -> T:
        # What is stored under a key's name is what its own check returned.
        return cast("T", self.values.get(key.name, key.default))


# Keys that are told of as unknown; a text from a client may have thousands, and each takes a search for the nearest.
_MOST_UNKNOWN: Final = 50


def read(document: Document, keys: Sequence[Key[Any]]) -> Settings:
    """Checks a file against its keys. Raises ConfigurationError with every mistake in it."""
    found, mistakes = examine(document, keys)
    if mistakes:
        raise ConfigurationError(*mistakes)
    return found


def examine(document: Document, keys: Sequence[Key[Any]]) -> tuple[Settings, list[Mistake]]:
    """What a file sets that fits, and every mistake in it, in the file's order."""
    mistakes = _unknown_keys(document, keys)
    values: dict[str, Any] = {}
    for key in keys:
        found = _find(document, key.way)
        if found is None:
            continue
        try:
            values[key.name] = key.check(found[0])
        except Unfit as unfit:
            mistakes += [
                document.mistake((*key.way, *each.within), f"`{key.name}` {each}") for each in (unfit, *unfit.more)
            ]
    mistakes.sort(key=lambda mistake: (mistake.line, mistake.column))
    return Settings(document=document, values=values), mistakes


def nearest(word: str, words: Iterable[str]) -> str | None:
    """The one of `words` that was probably meant."""
    close = difflib.get_close_matches(word, list(words), n=1, cutoff=0.6)
    return close[0] if close else None


def _find(document: Document, way: Way) -> tuple[object] | None:
    value: Any = document.table
    for name in way:
        if not isinstance(value, dict) or name not in value:
            return None
        value = value[name]
    return (value,)


def _unknown_keys(document: Document, keys: Sequence[Key[Any]]) -> list[Mistake]:
    """Walks the tables that the keys form; what is neither a table of theirs nor a key is a mistake."""
    leaves = {key.way for key in keys}
    tables = {way[:depth] for way in leaves for depth in range(1, len(way))}
    mistakes: list[Mistake] = []

    def walk(table: Mapping[str, Any], way: Way) -> None:
        siblings = [str(known[-1]) for known in (*leaves, *tables) if known[:-1] == way]
        for name, value in table.items():
            inner = (*way, name)
            if inner in leaves:
                continue
            if len(mistakes) >= _MOST_UNKNOWN:
                return
            if inner not in tables:
                mistakes.append(document.mistake(inner, _unknown(name, way, siblings, keys)))
            elif isinstance(value, dict):
                walk(value, inner)
            else:
                where = f"[{'.'.join(map(str, inner))}]"
                mistakes.append(document.mistake(inner, f"`{name}` is a table; write its keys beneath {where}"))

    walk(document.table, ())
    return mistakes


def _unknown(name: str, way: Way, siblings: list[str], keys: Sequence[Key[Any]]) -> str:
    where = f"in [{'.'.join(map(str, way))}]" if way else "at the top of the file"
    reason = f"unknown key {name!r} {where}"
    elsewhere = [key.name for key in keys if key.name.rpartition(".")[2] == name]
    if elsewhere:
        table, _, key_name = elsewhere[0].rpartition(".")
        return f"{reason}; {key_name!r} belongs {f'beneath [{table}]' if table else 'above the first table'}"
    near = nearest(name, siblings)
    if near is None:
        by_last = {key.name.rpartition(".")[2]: key.name for key in keys}
        other = nearest(name, by_last)
        near = by_last[other] if other else None
    hint = f"the nearest valid key is {near!r}" if near else f"the keys here are {', '.join(sorted(siblings))}"
    return f"{reason}; {hint}"


# --- checks ---


def whole(least: int, most: int) -> Check[int]:
    """A whole number from `least` to `most`."""

    def check(value: object) -> int:
        if isinstance(value, bool) or not isinstance(value, int):
            raise Unfit(f"must be a whole number from {least} to {most}, not {_kind(value)}")
        if not least <= value <= most:
            raise Unfit(f"is {_shown(value)}; it must be from {least} to {most}")
        return value

    return check


def number(least: float, most: float) -> Check[float]:
    """A finite number from `least` to `most`."""

    def check(value: object) -> float:
        if isinstance(value, bool) or not isinstance(value, int | float):
            raise Unfit(f"must be a number from {least:g} to {most:g}, not {_kind(value)}")
        if not (least <= value <= most and math.isfinite(value)):
            raise Unfit(f"is {_shown(value)}; it must be from {least:g} to {most:g}")
        return float(value)

    return check


def text(most: int) -> Check[str]:
    """Text of at most `most` characters, without control characters other than line ends and tabs."""

    def check(value: object) -> str:
        if not isinstance(value, str):
            raise Unfit(f"must be text in quotes, not {_kind(value)}")
        if len(value) > most:
            raise Unfit(f"has {len(value)} characters; at most {most} are allowed, so shorten it")
        for character in value:
            if character < " " and character not in "\n\t":
                raise Unfit(f"holds the control character {character!r}; remove it")
        return value

    return check


def flag(value: object) -> bool:
    """True or false."""
    if not isinstance(value, bool):
        raise Unfit(f"must be true or false, not {_kind(value)}")
    return value


def one_of(*words: Word, refused: Mapping[str, str] | None = None) -> Check[Word]:
    """One of `words`. `refused` gives words that get an answer of their own."""
    by_text = {str(word): word for word in words}

    def check(value: object) -> Word:
        if not isinstance(value, str):
            raise Unfit(f"must be {_choice(words)}, not {_kind(value)}")
        if refused and value in refused:
            raise Unfit(refused[value])
        if value not in by_text:
            raise Unfit(f"is {_shown(value)}; {_hint(value, words)}")
        return by_text[value]

    return check


def several(each: Check[Item], *, most: int) -> Check[tuple[Item, ...]]:
    """An array of at most `most` different elements, in the file's order."""

    def check(value: object) -> tuple[Item, ...]:
        if not isinstance(value, list):
            raise Unfit(f"must be an array in brackets, not {_kind(value)}")
        if len(value) > most:
            raise Unfit(f"has {len(value)} elements; at most {most} are allowed, so remove some")
        items: list[Item] = []
        faults: list[Unfit] = []
        for index, element in enumerate(value):
            try:
                item = each(element)
            except Unfit as unfit:
                faults.append(Unfit(f"element {index + 1} {unfit}", (index, *unfit.within)))
                continue
            if item in items:
                faults.append(Unfit(f"element {index + 1} is {_shown(item)} a second time; remove it", (index,)))
            items.append(item)
        _raise(faults)
        return tuple(items)

    return check


def mapping(name: Check[str], each: Check[Item], *, most: int) -> Check[dict[str, Item]]:
    """A table of at most `most` entries whose names the file chooses."""

    def check(value: object) -> dict[str, Item]:
        if not isinstance(value, dict):
            raise Unfit(f"must be a table, not {_kind(value)}")
        if len(value) > most:
            raise Unfit(f"has {len(value)} entries; at most {most} are allowed, so remove some")
        result: dict[str, Item] = {}
        faults: list[Unfit] = []
        for key, element in value.items():
            try:
                result[name(key)] = each(element)
            except Unfit as unfit:
                faults.append(Unfit(f"{key!r} {unfit}", (key, *unfit.within)))
        _raise(faults)
        return result

    return check


def tables(keys: Sequence[Key[Any]], *, needed: Key[str], most: int) -> Check[tuple[dict[str, Any], ...]]:
    """An array of at most `most` tables with these keys, whose names have no dots: what each sets, as its checks give
    it back. Each sets `needed`, and no two the same."""

    def check(value: object) -> tuple[dict[str, Any], ...]:
        if not isinstance(value, list) or not all(isinstance(each, dict) for each in value):
            raise Unfit("must be tables, each beneath a head in double brackets")
        if len(value) > most:
            raise Unfit(f"has {len(value)} tables; at most {most} are allowed, so remove some")
        by_name = {key.name: key for key in keys}
        found: list[dict[str, Any]] = []
        faults: list[Unfit] = []
        for index, element in enumerate(value):
            fitting: dict[str, Any] = {}
            for name, each in element.items():
                if name not in by_name:
                    near = nearest(name, by_name)
                    hint = (
                        f"the nearest valid key is {near!r}" if near else f"the keys are {', '.join(sorted(by_name))}"
                    )
                    faults.append(Unfit(f"has the unknown key {name!r}; {hint}", (index, name)))
                    continue
                try:
                    fitting[name] = by_name[name].check(each)
                except Unfit as unfit:
                    faults += [Unfit(f"`{name}` {part}", (index, name, *part.within)) for part in (unfit, *unfit.more)]
            if needed.name not in element:
                faults.append(Unfit(f"lacks `{needed.name}` in table {index + 1}; give it one", (index,)))
            elif any(fitting.get(needed.name) == each.get(needed.name, "") for each in found):
                faults.append(Unfit(f"`{needed.name}` is the same a second time; choose another", (index, needed.name)))
            found.append(fitting)
        _raise(faults)
        return tuple(found)

    return check


def _raise(faults: Sequence[Unfit]) -> None:
    if faults:
        raise Unfit(str(faults[0]), faults[0].within, faults[1:])


def absolute_path(value: object) -> str:
    """An absolute path in its normal form: no `.`, no `..`, no doubled or trailing slash, no NUL."""
    if not isinstance(value, str):
        raise Unfit(f"must be a path in quotes, not {_kind(value)}")
    if "\0" in value:
        raise Unfit("holds a NUL character, which no path can; remove it")
    if not value.startswith("/"):
        raise Unfit(f"is {_shown(value)}; write the absolute path, beginning with /")
    parts = value.split("/")[1:]
    if value != "/" and any(part in ("", ".", "..") for part in parts):
        kept: list[str] = []
        for part in parts:
            if part == "..":
                del kept[-1:]
            elif part not in ("", "."):
                kept.append(part)
        raise Unfit(f"is {_shown(value)}; write the path in its normal form, {_shown('/' + '/'.join(kept))}")
    if len(value.encode("utf-8", "surrogatepass")) > 4095:
        raise Unfit("is longer than the 4095 bytes that the kernel takes; use a shorter one")
    return value


def _hint(value: str, words: Sequence[str]) -> str:
    near = nearest(value, words)
    return f"the nearest allowed value is {_shown(near)}" if near else f"it must be {_choice(words)}"


def _choice(words: Sequence[str]) -> str:
    quoted = [_shown(word) for word in words]
    return quoted[0] if len(quoted) == 1 else f"{', '.join(quoted[:-1])} or {quoted[-1]}"


def _shown(value: object) -> str:
    """A value as an error shows it: short, in double quotes where it is text."""
    if isinstance(value, str):
        cut = value if len(value) <= 80 else value[:77] + "..."
        return '"' + cut.encode("unicode_escape").decode("ascii") + '"'
    if isinstance(value, int) and abs(value) >= 10**20:
        return "a number of more than 20 digits"
    return repr(value)


def _kind(value: object) -> str:
    kinds = {bool: "true or false", int: "a whole number", float: "a number", str: "text", list: "an array"}
    return kinds.get(type(value)) or ("a table" if isinstance(value, dict) else "a date or time")
