"""What a tool of one's own states of its value is in the catalog, and is checked; how it states it is judged."""

import json
from pathlib import Path
from typing import Any

import pytest

from stockade_daemon.errors import ConfigurationError
from stockade_daemon.registry import Registry, outputs, programs, thaw
from stockade_toolkit import tool
from stockade_toolkit.declaring import declared
from stockade_toolkit.describing import Faulty, describe
from tests.tools.shop import open_shop

FOUND = '''
from typing import Annotated, NotRequired, TypedDict

from stockade_toolkit import Answer, tool


class Line(TypedDict):
    number: Annotated[int, "From 1.", {"minimum": 1}]
    text: Annotated[str, "All of it."]


class Found(TypedDict):
    lines: Annotated[list[Line], "Those that have it."]
    first: NotRequired[Annotated[str | None, "The first one."]]


@tool(output=Found)
def found(how: str) -> Answer:
    """Finds what it is told.

    how: Which answer.
    """
    line = {"number": 1, "text": "a"}
    answers = {
        "good": {"lines": [line], "first": None},
        "without": {"lines": []},
        "wrong": {"lines": [line, {"number": 0, "text": 5}], "last": 1},
        "text": "lines",
        "float": {"lines": [{"number": 2.0, "text": ""}]},
    }
    return Answer(answers[how], "text")


@tool(output=list[int], access="overlay")
def found_view(how: str) -> object:
    """Has a view.

    how: Which answer.
    """
    return [1, 2] if how == "good" else [1, "2"]


@tool
def found_any(how: str) -> object:
    """States nothing.

    how: Nothing.
    """
    return {"any": [how]}
'''
PROGRAM = """
description = "Says a word."
[program]
argv = ["echo", "word"]
"""


async def test_a_value_is_checked_against_what_its_tool_states(place: Path) -> None:
    async with open_shop(place, {"found.py": FOUND}) as shop:
        calls = {
            how: await shop.session.call("found", how=how) for how in ("good", "without", "wrong", "text", "float")
        }
        free = await shop.session.call("found_any", how="x")
    assert (calls["good"].value, calls["without"].value) == (
        {"lines": [{"number": 1, "text": "a"}], "first": None},
        {"lines": []},
    )
    assert free.value == {"any": ["x"]}
    said = {how: call.error.message for how, call in calls.items() if call.error}
    assert {call.error.code for call in calls.values() if call.error} == {"INVALID_TOOL_OUTPUT"}
    assert sorted(said) == ["float", "text", "wrong"]
    for words in (
        "does not fit the output_schema of the tool 'found': ",
        "unknown member 'last': there are 'lines', 'first'",
        "$.lines[1].number must be at least 1, not 0",
        "$.lines[1].text must be text, not 5",
    ):
        assert words in said["wrong"]
    assert '$ must be an object, not "lines"' in said["text"]
    assert "$.lines[0].number is 2.0: write an integer" in said["float"]


async def test_of_a_tool_with_a_private_view_the_whole_value_is_stated_and_checked(place: Path) -> None:
    async with open_shop(place, {"found.py": FOUND}) as shop:
        good, wrong = [await shop.session.call("found_view", how=how) for how in ("good", "wrong")]
        (view,) = [each for each in (await shop.listed()).tools if each.name == "found_view"]
    stated = json.loads(view.output_schema)
    assert stated["properties"]["result"] == {
        "description": "What the tool returned.",
        "type": "array",
        "items": {"type": "integer"},
    }
    assert isinstance(good.value, dict)
    assert stated["required"] == list(good.value) == ["result", "effects", "effects_total", "effects_disposition"]
    assert good.value["result"] == [1, 2]
    assert wrong.error is not None
    assert '$.result[1] must be an integer, not "2"' in wrong.error.message


async def test_the_catalog_says_what_each_tool_states(place: Path) -> None:
    async with open_shop(place, {"found.py": FOUND, "word.toml": PROGRAM}) as shop:
        said = await shop.session.call("word")
        tools = {each.name: each.output_schema for each in (await shop.listed()).tools}
    assert said.ok
    assert (tools["word"], tools["found_any"]) == (tools["shell"], b"")
    assert json.loads(tools["shell"]) == thaw(outputs.of_command())
    assert json.loads(tools["found"]) == {
        "type": "object",
        "properties": {
            "lines": {
                "type": "array",
                "items": {
                    "type": "object",
                    "properties": {
                        "number": {"type": "integer", "description": "From 1.", "minimum": 1},
                        "text": {"type": "string", "description": "All of it."},
                    },
                    "additionalProperties": False,
                    "required": ["number", "text"],
                },
                "description": "Those that have it.",
            },
            "first": {"type": "string", "description": "The first one."},
        },
        "additionalProperties": False,
        "required": ["lines"],
    }


def test_a_program_cannot_state_another_value() -> None:
    with pytest.raises(ConfigurationError, match="unknown key 'output'"):
        programs.read(f"{PROGRAM}[output]\n".encode(), origin="word.toml", stem="word", built_in=())


def test_the_members_that_tell_of_effects_are_those_of_commands() -> None:
    command = Registry.load().find("shell").output_schema
    assert command is not None
    whole: Any = thaw(outputs.with_effects({"type": "string"}))
    shell: Any = thaw(command)
    assert {name: whole["properties"][name] for name in whole["properties"] if name != "result"} == {
        name: shell["properties"][name] for name in ("effects", "effects_total", "effects_disposition")
    }


@pytest.mark.parametrize(
    ("output", "words"),
    [
        (dict[str, int], r"the output of odd has the type dict\[str, int\]; use str, int"),
        (int | str, "the output of odd has the type int | str"),
        ("Found", "the output of odd has the type 'Found'"),
    ],
)
def test_an_output_that_a_schema_cannot_say_is_refused_by_line(output: Any, words: str) -> None:
    @tool(output=output)
    def odd() -> object:
        """Is odd."""

    with pytest.raises(Faulty, match=words) as refused:
        describe(declared()[-1])
    assert refused.value.line == odd.__code__.co_firstlineno
