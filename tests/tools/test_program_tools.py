"""A TOML file is a tool: a program with arguments from the schema, put together without a shell."""

from pathlib import Path

import pytest

from stockade_daemon.errors import ArgumentsRefusal, ConfigurationError
from stockade_daemon.registry import programs
from stockade_daemon.registry.expanding import expand
from stockade_daemon.values import ProgramBody
from tests.tools.shop import open_shop

FIND = """
description = "Finds lines that hold a text."
access = "read"
kind = "read"
parallel_safe = true
title = "Find {text}"

[program]
argv = [
    "grep", "-n",
    {when = "ignore_case", argv = ["-i"]},
    {when = "most", argv = ["-m", "{most}"]},
    "-e", "{text}", "--", "{paths}",
]
dashes = ["text"]

[arguments]
text = {type = "string", description = "What to find.", minLength = 1}
paths = {type = "array", items = {type = "string"}, description = "Where.", default = ["a.txt"]}
ignore_case = {type = "boolean", description = "Whether case counts.", default = false}
most = {type = "integer", description = "How many lines at most.", minimum = 1, optional = true}
"""

SHOUT = """
description = "Says it loud."
[program]
argv = ["tr", "a-z", "A-Z"]
stdin = "{{{text}}} {times} {sure}"
[arguments]
text = {type = "string", description = "What to say."}
times = {type = "number", description = "How often.", default = 1.5}
sure = {type = "boolean", description = "Whether it is.", default = true}
"""

SHOW = """
description = "Shows the arguments that a program gets."
access = "overlay"
[program]
argv = [
    "python3", "-c", "import sys; print(sys.argv[1:]); open('made', 'w')", "--name={name}", "{name}", "--", "{name}",
]
[arguments]
name = {type = "string", description = "A name."}
"""


async def test_a_program_gets_the_arguments_that_the_template_says(place: Path) -> None:
    async with open_shop(place, {"find.toml": FIND}) as shop:
        (tool,) = [each for each in (await shop.listed()).tools if each.name == "find"]
        plain = await shop.session.call("find", text="two")
        chosen = await shop.session.call("find", text="TWO", ignore_case=True, most=1, paths=["a.txt", "a.txt"])
        odd = await shop.session.call("find", text="-v; echo $(id) *")
    assert (tool.access, tool.kind, tool.parallel_safe, tool.card_title) == ("read", "read", True, "Find {text}")
    assert tool.origin == f"{place}/tools/find.toml:1:1"
    assert plain.value["stdout"] == "1:one two\n2:two\n"  # type: ignore[index, call-overload]
    assert chosen.content == ("a.txt:1:one two\na.txt:1:one two\n",)
    assert odd.ok
    assert odd.value["exit_code"] == 1  # type: ignore[index, call-overload]


async def test_a_text_is_one_argument_and_never_an_option(place: Path) -> None:
    async with open_shop(place, {"show.toml": SHOW}) as shop:
        text = 'a b\t"$(id)" `id` ; * \\ ü\n'
        shown = await shop.session.call("show", name=text)
        option = await shop.session.call("show", name="-rf")
        cut = await shop.session.call("show", name="a\0b")
    assert shown.ok
    assert shown.content[0] == f"{[f'--name={text}', text, '--', text]!r}\n"
    assert shown.value["effects"][0]["path"] == "made"  # type: ignore[index, call-overload]
    for refused, words in ((option, "begins with '-'"), (cut, "NUL")):
        assert refused.error is not None
        assert refused.error.code == "INVALID_ARGS"
        assert words in refused.error.message


async def test_a_program_reads_what_the_template_says_and_nothing_else(place: Path) -> None:
    long = "x" * 200_000
    async with open_shop(place, {"shout.toml": SHOUT}) as shop:
        said = await shop.session.call("shout", text="hé\n", sure=False)
        much = await shop.session.call("shout", text=long)
        unseen = await shop.session.call("shout", text="a", cwd="/")
    assert said.content == ("{Hé\n} 1.5 FALSE",)
    assert much.value["stdout_bytes"] == len(long) + len("{} 1.5 true")  # type: ignore[index, call-overload]
    assert unseen.error is not None
    assert unseen.error.code == "INVALID_ARGS"


async def test_a_program_tool_changes_and_breaks_like_any_other(place: Path) -> None:
    async with open_shop(place, {"find.toml": FIND}) as shop:
        path = shop.write("find.toml", FIND.replace('"grep"', '"grep'))
        assert str((await shop.news("refused"))["reason"]).startswith(f"{path}:10")
        assert "find" in await shop.names()
        shop.write("find.toml", FIND.replace("-n", "-c"))
        assert (await shop.news("changed"))["changed"] == ["find"]
        assert (await shop.session.call("find", text="two")).content == ("2\n",)


@pytest.mark.parametrize(
    ("before", "after", "line", "words"),
    [
        ('access = "read"', 'acess = "read"', 3, "the nearest valid key is 'access'"),
        ('access = "read"', 'access = "write"', 3, "must be "),
        (
            'access = "read"',
            'access = "overlay"',
            4,
            "kind must be command where access is overlay; change one of the two",
        ),
        ('"Finds lines that hold a text."', '""', 2, "description must be text"),
        ("parallel_safe = true", "parallel_safe = 1", 5, "must be true or false"),
        ("{text}", "{txt}", 6, "is no argument"),
        ('"{text}", "--"', '"{txt}", "--"', 13, "{txt} is no argument; there are text, paths, ignore_case, most"),
        ('"{text}", "--"', '"{text!r}", "--"', 13, "a format or a conversion, and none is taken; write {text} alone"),
        ('"{text}", "--"', '"{text", "--"', 13, "is no template"),
        ('"{paths}"', '"a={paths}"', 13, "let the element be {paths} alone; each item is an argument"),
        ('when = "most"', 'when = "moist"', 12, "`when` names 'moist', which is no argument; there are text, paths"),
        ('when = "most", argv', 'whn = "most", argv', 12, "neither a text nor"),
        ('{when = "most", argv = ["-m", "{most}"]}', '"{most}"', 12, "'most' may be left out"),
        ('"grep", "-n"', '"grep", "a\\u0000b"', 10, "NUL character, which no argument can have; remove it"),
        ('"grep", "-n"', '"{text}", "-n"', 10, "which no argument chooses; write its name"),
        ('"grep", "-n"', '"./grep", "-n"', 10, "is a relative path"),
        ('dashes = ["text"]', 'dashes = ["txt"]', 15, "'txt' is no argument"),
        ("minLength = 1", "minLenght = 1", 18, "minLenght is not supported"),
        ('description = "What to find."', 'descripton = "x"', 18, "has no description: add one"),
        ("default = false", "default = 0", 20, "does not fit: $.ignore_case must be true or false, not 0; change one"),
        ("optional = true", "optional = 1", 21, "neither true nor false; write one"),
        (
            "most = {",
            'timeout_s = {type = "number", description = "x", default = 1}\nmost = {',
            21,
            "is the call's own time",
        ),
    ],
)
def test_a_mistake_is_named_with_its_line(before: str, after: str, line: int, words: str) -> None:
    assert before in FIND
    with pytest.raises(ConfigurationError) as caught:
        programs.read(FIND.replace(before, after, 1).encode(), origin="find.toml", stem="find", built_in=["read"])
    assert words in str(caught.value)
    assert str(caught.value).startswith(f"find.toml:{line}:"), caught.value


def test_a_program_tool_has_its_files_name(place: Path) -> None:
    with pytest.raises(ConfigurationError, match="read is a built-in tool"):
        programs.read(FIND.encode(), origin="read.toml", stem="read", built_in=["read"])
    text = b'description = "x"\nprogram.argv = ["ls", "{path}"]\n'
    with pytest.raises(ConfigurationError, match=r"is no argument; there are none: write it beneath \[arguments\]"):
        programs.read(text, origin="x.toml", stem="x", built_in=[])
    with pytest.raises(ConfigurationError, match=r"there is no \[program\] argv"):
        programs.read(b'description = "x"\n', origin="x.toml", stem="x", built_in=[])


TWO = """
description = "Says two texts as one."
[program]
argv = ["echo", "{{a}}{{b}}"]
dashes = [{dashes}]
[arguments]
a = {{type = "string", description = "The first."}}
b = {{type = "string", description = "The second."}}
"""


def test_who_may_begin_with_a_dash_is_the_argument_that_the_text_begins_with() -> None:
    def said(dashes: str, **arguments: str) -> list[bytes]:
        read = programs.read(TWO.format(dashes=dashes).encode(), origin="two.toml", stem="two", built_in=[])
        assert isinstance(read.custom, ProgramBody)
        return expand(read.custom, arguments)[0]

    assert said('"a"', a="-x", b="y") == [b"echo", b"-xy"]
    assert said('"b"', a="", b="-y") == [b"echo", b"-y"]
    with pytest.raises(ArgumentsRefusal, match="the argument 'b' begins with"):
        said('"a"', a="", b="--evil")


ENDING = """
description = "Lists."
[program]
argv = ["ls", {before}"--", "{{path}}"]
dashes = ["any", "several"]
[arguments]
path = {{type = "string", description = "What to list."}}
all = {{type = "boolean", description = "All of it.", default = false}}
width = {{type = "integer", description = "How wide.", optional = true}}
any = {{type = "string", description = "Perhaps an option.", default = "a"}}
some = {{type = "array", items = {{type = "string"}}, description = "Perhaps none.", default = []}}
more = {{type = "array", items = {{type = "string"}}, description = "One at least.", default = ["a"], minItems = 1}}
several = {{type = "array", items = {{type = "string"}}, description = "Options, too.", default = ["a"], minItems = 1}}
"""


@pytest.mark.parametrize(
    ("before", "over"),
    [
        ("", True),
        ('"-", ', True),
        ('"--width=3", ', True),
        ('"-w", "{path}", ', True),
        ('"-w", "{any}", ', True),
        ('"-w", "{more}", ', True),
        ('"-w", "{several}", ', False),  # the second of them is no option's value
        ('{when = "width", argv = ["-w", "{width}"]}, ', True),
        ('"-w", "--", ', True),
        ('"-w", ', False),
        ('"--width", ', False),
        ('"{any}", ', False),
        ('"-w", "{some}", ', False),
        ('{when = "all", argv = ["-a"]}, ', False),
        ('"-w", {when = "width", argv = ["{width}"]}, ', False),
    ],
)
def test_a_double_dash_that_may_be_the_value_of_an_option_ends_no_options(before: str, over: bool) -> None:
    read = programs.read(ENDING.format(before=before).encode(), origin="ls.toml", stem="ls", built_in=[])
    assert isinstance(read.custom, ProgramBody)
    assert [part.bare for part in read.custom.argv][-1] is not over
