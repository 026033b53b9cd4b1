"""Patterns: what a value is expected to be, as JSON.

text, number, true, false, null    the same value
[…]                                a list as long, each element by its own pattern
{"key": …}                         an object that has these members, each by its own pattern; it may have more
{"$any": true}                     anything
{"$equals": …}                     exactly this value; objects without anything more
{"$contains": text or [texts]}     a text with each of these in it, or a list with such an element
{"$lacks": text or [texts]}        one without any of these; what is neither text nor list does not match
{"$regex": text}                   a text in which this is found (Python's re, ^ and $ at every line)
{"$sha256": digest}                a text whose UTF-8 has this SHA-256, in lower-case hexadecimal

Several `$` keys in one object all hold.
"""

import difflib
import hashlib
import json
import re
from collections.abc import Awaitable, Callable, Iterator
from typing import Final, TypeAlias

from stockade_client.results import Json
from stockade_client.runs.located import Path
from stockade_client.runs.searching import Unsearched, quoted

# Whether a regular expression is found in a text. Raises Unsearched.
Search: TypeAlias = Callable[[str, str], Awaitable[bool]]

KEYS: Final = ("$any", "$equals", "$contains", "$lacks", "$regex", "$sha256")
_DIGEST: Final = re.compile("[0-9a-f]{64}")
_MOST: Final = 2000  # characters of a value in a difference
_MOST_LINES: Final = 60  # of a difference
_COMPARED: Final = 500  # lines from the first on that differs
_AROUND: Final = 3  # lines before it
_LONGEST: Final = 200  # of a value that stands in a sentence


def faults(pattern: Json, path: Path) -> Iterator[tuple[Path, str]]:
    """What is wrong with a pattern, and where in it."""
    if isinstance(pattern, list):
        for number, each in enumerate(pattern):
            yield from faults(each, (*path, number))
    elif isinstance(pattern, dict):
        if not is_matcher(pattern):
            for key, each in pattern.items():
                yield from faults(each, (*path, key))
            return
        for key, each in pattern.items():
            yield from (((*path, key), reason) for reason in _wrong(key, each))


def is_matcher(pattern: Json) -> bool:
    return isinstance(pattern, dict) and any(key.startswith("$") for key in pattern)


def _wrong(key: str, given: Json) -> Iterator[str]:
    if key not in KEYS:
        near = difflib.get_close_matches(key, KEYS, n=1)
        yield f"no matcher is called {key!r}; " + (f"did you mean {near[0]!r}?" if near else f"there are {_all(KEYS)}")
    elif key == "$any" and given is not True:
        yield '$any takes true alone: {"$any": true}'
    elif key in ("$contains", "$lacks") and not _texts(given):
        yield f"{key} takes a text or a list of texts, at least one"
    elif key == "$sha256":
        if not isinstance(given, str) or not _DIGEST.fullmatch(given):
            yield "$sha256 takes 64 digits in lower-case hexadecimal"
    elif key == "$regex":
        if not isinstance(given, str):
            yield "$regex takes a text"
            return
        try:
            re.compile(given)
        except (re.error, OverflowError, RecursionError) as error:
            yield f"this is no regular expression: {error}"


def _all(names: tuple[str, ...]) -> str:
    return ", ".join(names)


def _texts(given: Json) -> bool:
    several = isinstance(given, list) and bool(given) and all(isinstance(each, str) for each in given)
    return isinstance(given, str) or several


async def difference(pattern: Json, found: Json, at: str, search: Search) -> str | None:
    """How `found` differs from the pattern, as a sentence that begins with `at`; None where it does not."""
    if isinstance(pattern, dict) and is_matcher(pattern):
        for key, given in pattern.items():
            told = await _unmatched(key, given, found, at, search)
            if told is not None:
                return told
        return None
    if isinstance(pattern, dict):
        if not isinstance(found, dict):
            return f"{at} should be an object and is {_shown(found)}"
        for key, each in pattern.items():
            if key not in found:
                return f"{at} lacks {key!r}; it has {_all(tuple(sorted(found))) or 'nothing'}"
            told = await difference(each, found[key], f"{at}.{key}", search)
            if told is not None:
                return told
        return None
    if isinstance(pattern, list):
        if not isinstance(found, list):
            return f"{at} should be a list and is {_shown(found)}"
        for number, (each, other) in enumerate(zip(pattern, found, strict=False)):
            told = await difference(each, other, f"{at}[{number}]", search)
            if told is not None:
                return told
        if len(pattern) != len(found):
            return f"{at} should have {len(pattern)} elements and has {len(found)}: {_shown(found)}"
        return None
    return None if _same(pattern, found) else _unlike(pattern, found, at)


def searches(pattern: Json) -> bool:
    """Whether it looks for something in a text: such a pattern is of the whole text."""
    return isinstance(pattern, dict) and any(key in pattern for key in ("$contains", "$lacks", "$regex", "$sha256"))


def _same(one: Json, other: Json) -> bool:
    """1 and true are not the same, nor are 1 and 1.0."""
    if isinstance(one, dict) and isinstance(other, dict):
        return one.keys() == other.keys() and all(_same(each, other[key]) for key, each in one.items())
    if isinstance(one, list) and isinstance(other, list):
        return len(one) == len(other) and all(map(_same, one, other))
    return type(one) is type(other) and one == other


async def _unmatched(key: str, given: Json, found: Json, at: str, search: Search) -> str | None:
    if key == "$any":
        return None
    if key == "$equals":
        return None if _same(given, found) else _unlike(given, found, at)
    if key == "$regex":
        expression = quoted(str(given))
        try:
            if isinstance(found, str) and await search(str(given), found):
                return None
        except Unsearched as why:
            return f"{at} cannot be searched for the regular expression {expression}: {why}"
        return f"{at} should match the regular expression {expression} and is {_told(found)}"
    if key == "$sha256":
        digest = sha256(found) if isinstance(found, str) else None
        has = "" if digest is None else f"has {digest}, and "
        return None if digest == given else f"{at} should have the SHA-256 {given} and {has}is {_told(found)}"
    wanted = given if isinstance(given, list) else [given]
    for each in wanted:
        held = isinstance(found, str | list) and (isinstance(found, list) or isinstance(each, str)) and each in found
        if not isinstance(found, str | list) or held != (key == "$contains"):
            return f"{at} should {'' if key == '$contains' else 'not '}contain {_shown(each)} and is {_told(found)}"
    return None


def sha256(text: str) -> str:
    """Of the text in UTF-8, lower-case hexadecimal."""
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()


def _unlike(pattern: Json, found: Json, at: str) -> str:
    if isinstance(pattern, str) and isinstance(found, str) and "\n" in pattern + found:
        before, after = pattern.splitlines(), found.splitlines()
        if before == after:  # they differ in how their lines end
            return f"{at} should be {_shown(pattern)} and is {_shown(found)}"
        # What difflib takes grows with the square of the lines: it sees those around the first that differs.
        both = zip(before, after, strict=False)
        first = next((number for number, (one, other) in enumerate(both) if one != other), min(len(before), len(after)))
        begin = max(0, first - _AROUND)
        one, other = (each[begin : first + _COMPARED] for each in (before, after))
        lines = list(difflib.unified_diff(one, other, "expected", "found", lineterm=""))
        where = f" (from line {begin + 1} on)" if begin else ""
        more = len(lines) > _MOST_LINES or max(len(before), len(after)) > first + _COMPARED
        left = ["… and perhaps more"] if more else []
        return "\n".join([f"{at} is not what was expected{where}:", *lines[:_MOST_LINES], *left])
    return f"{at} should be {_shown(pattern)} and is {_shown(found)}"


def _told(found: Json) -> str:
    if isinstance(found, str) and "\n" in found:
        end = "" if len(found) <= _MOST else f"\n… and {len(found) - _MOST} characters more"
        return f"\n{found[:_MOST]}{end}"
    return _shown(found)


def _shown(value: Json) -> str:
    text = json.dumps(value, ensure_ascii=False)
    return text if len(text) <= _LONGEST else f"{text[:_LONGEST]}… ({len(text)} characters)"
