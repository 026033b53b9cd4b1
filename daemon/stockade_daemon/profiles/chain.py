"""Chains of profiles: a profile that extends another, and that one perhaps a third.

Keys that a profile gives replace those of its base; a list replaces the whole list; variables of [environment.set] are
added to the base's one by one. A tightening (tighten.py) stands before the first profile of its chain.

A session keeps the last good version of its profile, so a chain can be kept as one text: the plain file where nothing
is extended, else a JSON object of all its files. No TOML text begins with `{`, so the two cannot be confused.
"""

import hashlib
import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Final

from stockade_daemon import settings, toml_text
from stockade_daemon.errors import ConfigurationError, Mistake, RequestError
from stockade_daemon.profiles import keys
from stockade_daemon.settings import Settings

MOST: Final = 8  # profiles in a chain
TIGHTENING_KEYS: Final = tuple(key for key in keys.KEYS if key not in (keys.DESCRIPTION, keys.EXTENDS, keys.WIDEN))
# What a profile refuses or demands: a tightening adds to these.
_ADDED: Final = (keys.REQUIRED, keys.HIDDEN, keys.PROTECTED)


@dataclass(frozen=True, slots=True)
class File:
    """One file of a chain."""

    name: str
    source: str  # what errors call it
    text: bytes
    tightens: bool = False  # not a profile but what narrows one


Find = Callable[[str], File]  # raises RequestError NOT_FOUND, ConfigurationError


def follow(first: File, find: Find, *, found: bool) -> tuple[File, ...]:
    """`first` and the profiles that it extends, nearest first. `found`: it can be looked up by its name.

    Raises ConfigurationError with every mistake in the files, and with the line of an `extends` that names no profile,
    leads in a circle or too far.
    """
    files: list[File] = []
    names = [first.name] if found else []
    mistakes: list[Mistake] = []
    following: File | None = first
    while following is not None:
        files.append(following)
        following, here = _examined(files, names, find)
        mistakes += here
        if following is not None:
            names.append(following.name)
    if mistakes:
        raise ConfigurationError(*mistakes)
    return tuple(files)


def _examined(files: Sequence[File], names: Sequence[str], find: Find) -> tuple[File | None, list[Mistake]]:
    """What the last of `files` extends, and every mistake in it: one with wrong keys may still name a wrong base."""
    last = files[-1]
    base: File | None = None
    mistakes: list[Mistake] = []
    try:
        at, mistakes = settings.examine(toml_text.parse(last.text, source=last.source), keys.KEYS)
        if at[keys.EXTENDS]:
            base = _base(at, files, names, find)
    except ConfigurationError as error:
        mistakes += error.mistakes
    return base, sorted(mistakes, key=lambda each: (each.source != last.source, each.line, each.column))


def _base(at: Settings, files: Sequence[File], names: Sequence[str], find: Find) -> File:
    """The profile that `at` extends, the last of `files`. Raises ConfigurationError."""
    way, base = keys.EXTENDS.way, at[keys.EXTENDS]
    if base in names:
        circle = " → ".join((*names[names.index(base) :], base))
        at.document.refuse(way, f"`extends` leads in a circle, {circle}; remove one of them")
    if len(files) == MOST:
        at.document.refuse(way, f"`extends` makes a chain of more than {MOST} profiles; extend one nearer its end")
    try:
        return find(base)
    except RequestError as error:
        at.document.refuse(way, f"`extends` names {base!r}, but {error.message}")
    except ConfigurationError as error:
        # That file was never asked about: whoever looks at this one is to hear where it comes in.
        at.document.refuse(way, f"`extends` names {base!r}, which cannot be used: {error}")


def merge(files: Sequence[File]) -> Settings:
    """The values that a chain sets. Raises ConfigurationError."""
    read = [_read(file) for file in files]
    values: dict[str, Any] = {}
    variables: dict[str, str] = read[-1][keys.SET]  # of the chain's end the default counts as well
    for file, at in zip(reversed(files), reversed(read), strict=True):
        before = {key.name: values.get(key.name, key.default) for key in _ADDED}
        values |= at.values
        if file.tightens:
            values |= {name: tuple(dict.fromkeys((*old, *values.get(name, old)))) for name, old in before.items()}
        if keys.SET.name in at.values:
            variables = variables | at[keys.SET]
    values[keys.SET.name] = variables
    return Settings(document=read[0].document, values=values)


def document(file: File) -> Settings:
    """What one file of a chain says, with its places. Raises ConfigurationError."""
    return _read(file)


def digest(files: Sequence[File]) -> str:
    """SHA-256, lower-case hex: of the file's bytes; of one that extends another, of its bytes, NUL, the base's digest.

    So a changed base changes it, and no text can pose as a chain (TOML has no NUL).
    """
    found = ""
    for file in reversed(files):
        found = hashlib.sha256(file.text + (b"\0" + found.encode() if found else b"")).hexdigest()
    return found


def pack(files: Sequence[File]) -> bytes:
    """A chain as the one text that `unpack` takes."""
    if len(files) == 1:
        return files[0].text
    # The texts have been parsed, so they are UTF-8.
    rows = [
        {"name": file.name, "source": file.source, "text": file.text.decode()}
        | ({"tightens": True} if file.tightens else {})
        for file in files
    ]
    return json.dumps({"chain": rows}, ensure_ascii=False).encode()


def unpack(text: bytes, *, name: str, source: str) -> tuple[File, ...]:
    """The chain that `pack` made of `text`."""
    if not text.startswith(b"{"):
        return (File(name, source, text),)
    return tuple(
        File(row["name"], row["source"], row["text"].encode(), row.get("tightens", False))
        for row in json.loads(text)["chain"]
    )


def _read(file: File) -> Settings:
    document = toml_text.parse(file.text, source=file.source)
    return settings.read(document, TIGHTENING_KEYS if file.tightens else keys.KEYS)
