"""Text that is not the same twice, as a pattern: times, durations, addresses of memory, names of temporary files."""

import re
from typing import Final

from stockade_client.results import Json
from stockade_client.runs.entries import WORKSPACE
from stockade_client.runs.patterns import KEYS

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
    (r"\b\d\d:\d\d:\d\d(?:[.,]\d+)?\b", r"\d\d:\d\d:\d\d(?:[.,]\d+)?"),
    (r"\b\d+\.\d+(?= ?(?:ns|us|µs|ms|s|secs?|seconds?)\b)", r"\d+\.\d+"),
    (r"\b0x[0-9a-f]{6,16}\b", "0x[0-9a-f]+"),
    (rf"{_TEMPORARY}[A-Za-z0-9_]{{8}}\b", f"{_TEMPORARY}[A-Za-z0-9_]{{8}}"),
    (rf"{_TEMPORARY}\.[A-Za-z0-9]{{10}}\b", rf"{_TEMPORARY}\.[A-Za-z0-9]{{10}}"),
)
_VOLATILE: Final = re.compile("|".join(f"({found})" for found, _ in _KINDS))


def placed(text: str, workspace: str) -> str:
    """The text with the place `${workspace}` for the workspace's path."""
    text = text.replace(WORKSPACE, f"${WORKSPACE}")
    return re.sub(rf"{re.escape(workspace)}(?![\w.-])", lambda _: WORKSPACE, text) if len(workspace) > 1 else text


def pattern_of(value: Json, workspace: str) -> Json:
    """A pattern of the value, in which texts are matched but for what is not the same twice."""
    if isinstance(value, list):
        return [pattern_of(each, workspace) for each in value]
    if isinstance(value, dict):
        found = {key: pattern_of(each, workspace) for key, each in value.items()}
        return {"$equals": value} if any(key in KEYS or key.startswith("$") for key in value) else found
    return _text(value, workspace) if isinstance(value, str) else value


def _text(text: str, workspace: str) -> Json:
    parts, at = [], 0
    for found in _VOLATILE.finditer(text):
        parts += [_quoted(text[at : found.start()], workspace), _KINDS[(found.lastindex or 1) - 1][1]]
        at = found.end()
    if not parts:
        return placed(text, workspace)
    return {"$regex": "".join([r"\A", *parts, _quoted(text[at:], workspace), r"\Z"])}


def _quoted(text: str, workspace: str) -> str:
    """The text as a regular expression, legible: spaces and line ends stay what they are."""
    marks = placed(text, workspace).split(WORKSPACE)
    return WORKSPACE.join(re.sub(r"[.*+?^${}()|\[\]\\]", r"\\\g<0>", part) for part in marks)
