"""A Python file in the directory is a tool: listed, called in a worker, and as limited as any other."""

import json
from pathlib import Path

from tests.tools.shop import open_shop

WORDS = '''
from collections import Counter
from typing import Annotated, Literal, TypedDict

from stockade_toolkit import Answer, Files, Span, ToolError, tool


class Rule(TypedDict):
    old: Annotated[str, "What is replaced."]
    new: Annotated[str, "What replaces it.", {"maxLength": 5}]


@tool(access="read", timeout_s=9, parallel_safe=True, idempotent=True, output_bytes=1000, title="Count words of {path}")
def words(
    path: str, limit: Annotated[int, {"minimum": 1}] = 3, order: Literal["up", "down"] | None = None
) -> dict[str, int]:
    """Counts the words
    of a file.

    It counts them well.

    path: The file,
        relative to the workspace.
    limit: How many to give.
    order: Which come first.
    """
    with open(path) as file:
        return dict(Counter(file.read().split()).most_common(limit))


@tool
def words_text(rules: list[Rule], loud: bool = False) -> str:
    """Says the rules.

    Args:
        rules: The rules.
        loud (bool): Whether to shout.
    """
    text = ", ".join(f"{each['old']}→{each['new']}" for each in rules)
    return text.upper() if loud else text


@tool(observes=True)
def words_show(path: str, files: Files) -> Answer:
    """Shows a file.

    path: The file.
    """
    opened = files.open(path)
    files.showed(opened, 1, opened.content().count(b"\\n"))
    return Answer({"digest": opened.digest}, opened.content().decode())


@tool(kind="write")
def words_stamp(files: Files, path: str) -> str:
    """Puts a line at the top.

    path: The file.
    """
    return files.edit(files.open(path, for_edit=True), [Span(0, 0, b"# stamp\\n")]).difference


@tool(access="overlay")
def words_make(name: str) -> int:
    """Makes a file in the private view.

    name: The file.
    """
    with open(name, "w") as file:
        return file.write("new")


@tool(access="read")
def words_wrong(how: str) -> object:
    """Fails.

    how: In which way.
    """
    if how == "refuse":
        raise ToolError("INVALID_ARGS", "not like that; do it otherwise")
    if how == "lie":
        raise ToolError("DENIED", "as if the daemon had said so")
    if how == "write":
        open("a.txt", "w")
    if how == "nan":
        return float("nan")
    return {1, 2}
'''


async def test_types_and_docstring_are_the_schema(place: Path) -> None:
    async with open_shop(place, {"words.py": WORDS}) as shop:
        tools = {each.name: each for each in (await shop.listed()).tools}
    words, text = tools["words"], tools["words_text"]
    assert words.description == "Counts the words of a file.\n\nIt counts them well."
    assert json.loads(words.input_schema) == {
        "type": "object",
        "properties": {
            "path": {"type": "string", "description": "The file, relative to the workspace."},
            "limit": {"type": "integer", "minimum": 1, "description": "How many to give.", "default": 3},
            "order": {"type": "string", "enum": ["up", "down"], "description": "Which come first."},
        },
        "required": ["path"],
        "additionalProperties": False,
    }
    assert json.loads(text.input_schema)["properties"] == {
        "rules": {
            "type": "array",
            "items": {
                "type": "object",
                "properties": {
                    "old": {"type": "string", "description": "What is replaced."},
                    "new": {"type": "string", "description": "What replaces it.", "maxLength": 5},
                },
                "additionalProperties": False,
                "required": ["old", "new"],
            },
            "description": "The rules.",
        },
        "loud": {"type": "boolean", "description": "Whether to shout.", "default": False},
    }
    assert (words.access, words.kind, words.timeout_s, words.output_bytes) == ("read", "read", 9, 1000)
    assert (words.parallel_safe, words.idempotent, words.card_title) == (True, True, "Count words of {path}")
    assert words.origin == f"{place}/tools/words.py:13"
    assert (text.access, text.parallel_safe, text.idempotent, text.card_title) == (
        "none",
        False,
        False,
        "words_text {rules}",
    )
    assert (tools["words_make"].kind, tools["words_stamp"].kind, tools["words_show"].observes) == (
        "command",
        "write",
        True,
    )
    assert "files" not in tools["words_show"].input_schema.decode()


async def test_a_call_runs_the_function_and_gives_back_its_value(place: Path) -> None:
    async with open_shop(place, {"words.py": WORDS}) as shop:
        counted = await shop.session.call("words", path="a.txt", limit=1)
        said = await shop.session.call("words_text", rules=[{"old": "a", "new": "ä"}], loud=True)
        unfit = await shop.session.call("words", path="a.txt", limit=0)
    assert (counted.value, counted.content) == ({"two": 2}, ('{"two": 2}',))
    assert (said.value, said.content) == ("A→Ä", ("A→Ä",))
    assert unfit.error is not None
    assert unfit.error.code == "INVALID_ARGS"
    assert {layer.name for layer in counted.layers if layer.held} >= {
        "seccomp",
        "landlock",
        "pid",
        "net",
        "capabilities",
    }


async def test_reads_and_edits_of_a_tool_pass_the_gate(place: Path) -> None:
    async with open_shop(place, {"words.py": WORDS}) as shop:
        early = await shop.session.call("words_stamp", path="a.txt")
        outside = await shop.session.call("words_show", path="../stockade.toml")
        shown = await shop.session.call("words_show", path="a.txt")
        stamped = await shop.session.call("words_stamp", path="a.txt")
        events = [event.type async for event in shop.session.events()]
        assert (shop.workspace / "a.txt").read_text() == "# stamp\none two\ntwo\n"
    assert early.error is not None
    assert early.error.code == "FS_NOT_OBSERVED"
    assert outside.error is not None
    assert outside.error.code == "FS_OUTSIDE_WORKSPACE"
    assert shown.content == ("one two\ntwo\n",)
    assert stamped.ok
    assert "+# stamp" in str(stamped.value)
    assert {"fs/observed", "fs/edit-intent", "fs/committed"} <= set(events)


async def test_what_a_tool_makes_in_its_private_view_is_committed(place: Path) -> None:
    async with open_shop(place, {"words.py": WORDS}) as shop:
        made = await shop.session.call("words_make", name="new.txt")
        assert (shop.workspace / "new.txt").read_text()
    assert made.value == {
        "result": 3,
        "effects": [{"path": "new.txt", "change": "created", "kind": "file", "size": 3}],
        "effects_total": 1,
        "effects_disposition": "committed",
    }
    assert made.content == ("3", "[changes made by this tool were committed: new.txt (created)]")


async def test_a_failure_is_told_with_the_line_and_without_the_daemons_words(place: Path) -> None:
    async with open_shop(place, {"words.py": WORDS}) as shop:
        results = {
            how: (await shop.session.call("words_wrong", how=how)).error
            for how in ("refuse", "lie", "write", "nan", "set")
        }
    told = {how: (error.code, error.message) for how, error in results.items() if error is not None}
    line = WORDS[: WORDS.index('open("a.txt", "w")')].count("\n") + 1
    assert told["refuse"] == ("INVALID_ARGS", "not like that; do it otherwise")
    assert told["lie"][0] == "INVALID_TOOL_OUTPUT"
    assert told["write"][0] == "TOOL_FAILED"
    assert f"words.py:{line}: OSError" in told["write"][1]
    assert told["nan"][0] == told["set"][0] == "TOOL_FAILED"


async def test_profiles_judge_a_tool_by_its_kind(place: Path) -> None:
    async with open_shop(place, {"words.py": WORDS}, profile="strict") as shop:
        denied = await shop.session.call("words_stamp", path="a.txt")
        read = await shop.session.call("words", path="a.txt")
    assert denied.error is not None
    assert denied.error.code == "DENIED"
    assert read.ok


PRINTING = '''
from stockade_toolkit import ToolError, tool


@tool
def printing(number: int) -> str:
    """Prints a number.

    number: Which.
    """
    print("printed", number)
    if number % 2:
        raise ToolError("TOOL_FAILED", "odd")
    return "ok"
'''


async def test_what_a_tool_prints_is_there_with_its_answer(place: Path) -> None:
    async with open_shop(place, {"printing.py": PRINTING}) as shop:
        for number in range(30):
            call = await shop.session.start("printing", number=number)
            assert (await call.result()).ok == (number % 2 == 0)
            async with call.output() as chunks:
                assert b"".join([chunk async for chunk in chunks]) == f"printed {number}\n".encode()


FLOODING = '''
from stockade_toolkit import Files, tool


@tool(kind="write")
def flooding(path: str, count: int, forever: bool, files: Files) -> str:
    """Writes a file and prints a lot.

    path: The file.
    count: Bytes to print.
    forever: Whether it goes on.
    """
    files.write(path, b"written")
    print("x" * count, end="", flush=True)
    while forever:
        print("x" * 100_000)
    return "ok"
'''


async def test_a_tool_that_prints_past_the_limit_is_ended_and_says_what_it_had_changed(place: Path) -> None:
    profile = place / "stopping.toml"
    profile.write_text('extends = "dev"\n[limits]\noutput_mb = 1\noutput_past = "stop"\n')
    async with open_shop(place, {"flooding.py": FLOODING}, profile=str(profile)) as shop:
        for name, count, forever in (("a", 1, True), ("b", (1 << 20) + 1, False)):
            result = await shop.session.call("flooding", path=name, count=count, forever=forever)
            assert result.error is not None
            assert result.error.code == "OUTPUT_LIMIT"
            assert "more than 1 MiB to stdout (limits.output_mb of profile" in result.error.message
            assert f"committed before that: {name}. Have it print less" in result.error.message
            assert result.value is None
            assert (shop.workspace / name).read_text() == "written"
        result = await shop.session.call("flooding", path="c", count=1 << 20, forever=False)
        assert (result.ok, result.content) == (True, ("ok",))


async def test_a_tool_that_prints_more_than_is_kept_says_so(place: Path) -> None:
    profile = place / "cutting.toml"
    profile.write_text('extends = "dev"\n[limits]\noutput_mb = 1\noutput_past = "truncate"\n')
    async with open_shop(place, {"flooding.py": FLOODING}, profile=str(profile)) as shop:
        result = await shop.session.call("flooding", path="a", count=(1 << 20) + 7, forever=False)
        assert result.ok
        said = "[stdout was cut: 1048583 bytes were printed, the first 1048576 kept (limits.output_mb)]"
        assert result.content == ("ok", said)
