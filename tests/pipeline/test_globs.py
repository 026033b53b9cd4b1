"""Glob patterns, compared with what a plain matcher that tries everything says."""

import random
import re

import pytest

from stockade_toolkit import ToolError
from stockade_worker.tools import globs

TABLE = [
    ("*.py", "a.py", True),
    ("*.py", "d/e/a.py", True),
    ("d/*.py", "d/a.py", True),
    ("d/*.py", "d/e/a.py", False),
    ("d/*.py", "x/d/a.py", False),
    ("./d/*.py", "d/a.py", True),
    ("**/a", "a", True),
    ("**/a", "x/y/a", True),
    ("x/**", "x/y/a", True),
    ("x/**", "x", False),
    ("x/", "x/y", True),
    ("**", "x/y", True),
    ("x/**/a", "x/a", True),
    ("x/**/y/**/a", "x/1/y/2/3/a", True),
    ("x/**/y/**/a", "x/1/2/3/a", False),
    ("**/b/c", "b/b/c", True),
    ("a?c", "aéc", True),
    ("a?c", "a/c", False),
    ("[!a]b", "/b", False),
    ("[]]", "]", True),
    ("[a-c]", "b", True),
    ("[a-]", "-", True),
    ("a[b", None, False),
    ("{a,b}.c", "b.c", True),
    ("{a,b{1,2}}", "b2", True),
    ("{a/b,c}/d", "a/b/d", True),
    ("a{", None, False),
    ("a}", "a}", True),
    ("\\*", "*", True),
    ("\\*", "a", False),
    ("\\{a,b\\}", "{a,b}", True),
    ("*", ".hidden", True),
    ("a.b", "aXb", False),
    ("a**b", "axxb", True),
    ("a**b", "a/b", False),
    ("a\nb*", "a\nb\n", True),
]


@pytest.mark.parametrize(("pattern", "path", "fits"), TABLE)
def test_a_pattern_fits_what_it_says(pattern: str, path: str | None, fits: bool) -> None:
    if path is None:
        with pytest.raises(ToolError, match="is not valid at character"):
            globs.parse(pattern)
    else:
        assert globs.parse(pattern).matches(path.encode()) is fits


def plain(pattern: str) -> re.Pattern[str]:
    """The same by trying everything: for patterns of plain characters, `*`, `?` and `**`."""
    parts = pattern.split("/")
    if len(parts) == 1:
        parts.insert(0, "**")
    text = ""
    for number, part in enumerate(parts):
        if part == "**":
            text += ".+" if number == len(parts) - 1 else "(?:[^/]+/)*"
        else:
            text += re.escape(part).replace(r"\*", "[^/]*").replace(r"\?", "[^/]")
            text += "/" if number < len(parts) - 1 else ""
    return re.compile(text)


def test_taking_the_nearest_fit_misses_nothing() -> None:
    seed = random.randrange(1 << 32)
    print(f"seed {seed}")
    chance = random.Random(seed)
    fitting = 0
    for _ in range(20_000):
        parts = [
            "**" if chance.random() < 0.25 else "".join(chance.choices("ab*?", k=chance.randint(1, 5)))
            for _ in range(chance.randint(1, 4))
        ]
        parts = [part if part == "**" or "**" not in part else part.replace("**", "*a") for part in parts]
        pattern = "/".join(parts)
        path = "/".join("".join(chance.choices("ab", k=chance.randint(1, 4))) for _ in range(chance.randint(1, 5)))
        wanted = plain(pattern).fullmatch(path) is not None
        fitting += wanted
        assert globs.parse(pattern).matches(path.encode()) is wanted, (pattern, path)
    assert fitting > 500
