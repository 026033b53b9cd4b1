"""Text that is not the same twice, as a pattern: times, durations, addresses of memory, names of temporary files."""

import re
from typing import Final

from stockade_client.results import Json
from stockade_client.runs.patterns import KEYS
from stockade_client.runs.places import as_expression

# What is found, and what will be found in its place. In this order: the longest first.
_TEMPORARY: Final = "/tmp/tmp"  # noqa: S108 - the text of it
_KINDS: Final = (
    (
        r"\d{4}-\d\d-\d\d[T ]\d\d:\d\d(?::\d\d(?:[.,]\d+)?)?(?:Z|[+-]\d\d:?\d\d)?",
        r"\d{4}-\d\d-\d\d[T ]\d\d:\d\d[\d:.,Z+-]*",
    ),
    (
        r"(?:Mon|Tue|Wed|Thu|Fri|Sat|Sun) [A-Z][a-z]{2} [ \d]\d \d\d:\d\d:\d\d(?: [A-Z]+)? \d{4}",
        r"[A-Z][a-z]{2} [A-Z][a-z]{2} [ \d]\d \d\d:\d\d:\d\d(?: [A-Z]+)? \d{4}",
    ),
    (  # of `ls -l`: what is older than half a year, or of the future, has the year instead
        r"\b(?:Jan|Feb|Mar|Apr|May|Jun|Jul|Aug|Sep|Oct|Nov|Dec) [ \d]\d (?:\d\d:\d\d| \d{4})\b",
        r"[A-Z][a-z]{2} [ \d]\d (?:\d\d:\d\d| \d{4})",
    ),
    (r"\b\d\d:\d\d:\d\d(?:[.,]\d+)?\b", r"\d\d:\d\d:\d\d(?:[.,]\d+)?"),
    (r"\b\d+\.\d+(?= ?(?:ns|us|µs|ms|s|secs?|seconds?)\b)", r"\d+\.\d+"),
    (r"\b0x[0-9a-f]{6,16}\b", "0x[0-9a-f]+"),
    (rf"{_TEMPORARY}[A-Za-z0-9_]{{8}}\b", f"{_TEMPORARY}[A-Za-z0-9_]{{8}}"),
    (rf"{_TEMPORARY}\.[A-Za-z0-9]{{10}}\b", rf"{_TEMPORARY}\.[A-Za-z0-9]{{10}}"),
)
_VOLATILE: Final = re.compile("|".join(f"({found})" for found, _ in _KINDS))


def pattern_of(value: Json) -> Json:
    """A pattern of a value in whose texts there are places already: they are matched but for what is not the same
    twice."""
    if isinstance(value, list):
        return [pattern_of(each) for each in value]
    if isinstance(value, dict):
        found = {key: pattern_of(each) for key, each in value.items()}
        return {"$equals": value} if any(key in KEYS or key.startswith("$") for key in value) else found
    return _text(value) if isinstance(value, str) else value


def _text(text: str) -> Json:
    expression = expression_of(text)
    return text if expression is None else {"$regex": rf"\A{expression}\Z"}


def expression_of(text: str) -> str | None:
    """A regular expression of what is the same twice; None where all of it is."""
    parts, at = [], 0
    for found in _VOLATILE.finditer(text):
        parts += [as_expression(text[at : found.start()]), _KINDS[(found.lastindex or 1) - 1][1]]
        at = found.end()
    return "".join([*parts, as_expression(text[at:])]) if parts else None
