"""The places of keys and elements in TOML text."""

import random
import tomllib
from typing import Any

import pytest

from stockade_daemon import toml_text
from stockade_daemon.errors import ConfigurationError

TEXT = b'''# a comment = 1
top = 1
"quoted key" = "a # no comment"   # a comment [x]

[one] # x = 2
two.three = """
[not.a.table]
key = 1 \\""" and ""more"""""
four = [ # first
    1, "]", # ]
    [2,
     3],
]
five = { six = 1, seven.eight = ["a",
"b"], 'nine' = {} }
[ one . "t.w" ]
ten = 1979-05-27 07:32:00
[[many]]
a = 1
[many.inner]
b = \'\'\'
= [ {
\'\'\'
[[many]]
a = 2
[[many.deep]]
c = 1.5e3
'''


@pytest.mark.parametrize(
    ("way", "line"),
    [
        ((), 1),
        (("top",), 2),
        (("quoted key",), 3),
        (("one",), 5),
        (("one", "two"), 6),
        (("one", "two", "three"), 6),
        (("one", "four"), 9),
        (("one", "four", 0), 10),
        (("one", "four", 1), 10),
        (("one", "four", 2), 11),
        (("one", "four", 2, 1), 12),
        (("one", "five", "six"), 14),
        (("one", "five", "seven", "eight", 1), 15),
        (("one", "five", "nine"), 15),
        (("one", "t.w", "ten"), 17),
        (("many", 0), 18),
        (("many", 0, "inner", "b"), 21),
        (("many", 1), 24),
        (("many", 1, "a"), 25),
        (("many", 1, "deep", 0, "c"), 27),
        (("one", "four", 99), 9),
        (("nowhere",), 1),
    ],
)
def test_every_key_and_element_has_its_line(way: toml_text.Way, line: int) -> None:
    assert toml_text.parse(TEXT, source="x").place(way)[0] == line


@pytest.mark.parametrize(
    ("way", "column"),
    [
        (("top",), 1),
        (("one", "two", "three"), 1),
        (("one", "four", 0), 5),
        (("one", "four", 1), 8),
        (("one", "four", 2, 1), 6),
        (("one", "five", "seven", "eight"), 19),
        (("one", "five", "seven", "eight", 0), 34),
        (("one", "five", "nine"), 7),
        (("one", "t.w"), 1),
        (("many", 1, "deep", 0), 1),
        (("nowhere",), 1),
    ],
)
def test_every_key_and_element_has_its_column(way: toml_text.Way, column: int) -> None:
    assert toml_text.parse(TEXT, source="x").place(way)[1] == column


def test_columns_count_characters_not_bytes() -> None:
    assert toml_text.parse('a = { "äö" = 1, b = 2 }'.encode(), source="x").place(("a", "b")) == (1, 17)


def test_line_ends_of_windows_count_once() -> None:
    document = toml_text.parse(TEXT.replace(b"\n", b"\r\n"), source="x")
    assert document.places == toml_text.parse(TEXT, source="x").places


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        (b"a = 1\nb = \n", "x:2:5: not valid TOML"),
        (b"a = 1\n[b\n", "x:2:3: not valid TOML"),
        (b"a = 1\n\na = 2\n", "x:3:6: not valid TOML"),
        (b'a = 1\nb = "never closed', "x:2:18: not valid TOML"),
        (b"a = 1\nb = \xff\n", "x:2:5: this is not UTF-8 text"),
        (b"a = 1\nb = 'a\0b'\n", "x:2:7: a NUL character"),
        (b"a = 1\nb = " + b"7" * 5000, "x:2:5: an integer has too many digits"),
        (b"a = 1\n" + b".".join([b"a"] * 32000) + b" = 1", "x:2:1: a key of more than 16 parts"),
        (b"a = 1\n[" + b" . ".join([b"'a'", b'"b"', b"c"] * 6) + b"]", "x:2:2: a key of more than 16 parts"),
        (b"a = " + b"[" * 20000 + b"]" * 20000, "x:1:1: arrays or tables are nested too deeply"),
        (b"\xef\xbb\xbfa = 1", "x:1:1: the file begins with a byte order mark"),
        (b"#" * (toml_text.MAX_BYTES + 1), "x:1:1: the file has 65537 bytes"),
    ],
)
def test_text_that_cannot_be_read_is_refused_with_its_place(text: bytes, complaint: str) -> None:
    with pytest.raises(ConfigurationError) as refused:
        toml_text.parse(text, source="x")
    assert str(refused.value).startswith(complaint)
    assert "; " in str(refused.value), "the complaint does not say what to do"


def test_every_value_of_random_files_has_a_line_that_shows_it() -> None:
    seed = random.randrange(2**32)
    print(f"seed {seed}")
    source = random.Random(seed)
    for _ in range(200):
        text = _random_file(source)
        table = tomllib.loads(text)
        document = toml_text.parse(text.encode(), source="x")
        written = text.split("\n")
        for way, value in _leaves(table, ()):
            assert way in document.places, (seed, way, text)
            assert f"# v{value} " in written[document.places[way][0] - 1], (seed, way, text)


def _random_file(source: random.Random) -> str:
    """Tables whose values are numbered; the line on which a value begins carries `v<number>` in a comment."""
    counter = 0
    lines: list[str] = []

    def pair(name: str) -> None:
        nonlocal counter
        counter += 1
        lines.append(f"{name}{' ' * source.randrange(3)}= {counter} # v{counter} ] }} \" ' [x]")

    def array(name: str) -> None:
        nonlocal counter
        lines.append(f"{name} = [ # [")
        for _ in range(source.randrange(4)):
            counter += 1
            lines.append(f"  {counter}, # v{counter} ],")
        lines.append("]")

    def noise(name: str) -> None:
        lines.append(f'{name} = {{ a = """')
        lines.extend(["[fake]", 'fake = 1 # \\"', "\"\"\", b = '''", "= ] }", "''' }", "", "# [no]"])

    for index in range(source.randrange(1, 6)):
        lines.append(source.choice([f"[t{index}]", f"[ t{index} . 'x y' ]", f"[[t{index}]]", f"[['a'.t{index}]]"]))
        for key in range(source.randrange(5)):
            source.choice([pair, array, noise])(source.choice([f"k{key}", f"k{key}.'d . e'", f'"k\\u0041{key}"']))
    return "\n".join(lines)


def _leaves(value: Any, way: toml_text.Way) -> list[tuple[toml_text.Way, int]]:
    if isinstance(value, dict):
        return [leaf for name, child in value.items() for leaf in _leaves(child, (*way, name))]
    if isinstance(value, list):
        return [leaf for index, child in enumerate(value) for leaf in _leaves(child, (*way, index))]
    return [(way, value)] if isinstance(value, int) else []
