"""Built-in, Python, program or installed package: the arguments of every tool are checked before it is judged."""

import json
from pathlib import Path

from tests.tools.conftest import Install
from tests.tools.shop import open_shop

SAY = '''
from stockade_toolkit import tool

@tool
def say(word: str, times: int = 1) -> str:
    """Says a word.

    word: The word.
    times: How often.
    """
    return word * times
'''
ECHO = """
description = "Says a word."
[program]
argv = ["echo", "{word}"]
[arguments]
word = {type = "string", description = "The word."}
"""
OF_EACH_KIND = {"read", "shell", "say", "echo", "greet"}


async def test_arguments_of_every_tool_are_checked_before_it_is_judged(place: Path, install: Install) -> None:
    install("greet = greet_tools.tools")
    async with open_shop(place, {"say.py": SAY, "echo.toml": ECHO}, packages=["greet"]) as shop:
        tools = (await shop.listed()).tools
        assert {each.name for each in tools} >= OF_EACH_KIND
        tried = 0
        for tool in tools:
            properties = json.loads(tool.input_schema)["properties"]
            wrong: dict[str, object] = {
                name: 5 if each["type"] == "object" else {} for name, each in properties.items()
            }
            for text, words in (
                (b'{"no_such": 1}', ["unknown argument 'no_such'"]),
                (json.dumps(wrong).encode() if wrong else b"[]", [f"$.{name} must be" for name in wrong] or ["a list"]),
                (b'{"a": 1, "a": 2}', ["twice in one object"]),
            ):
                result = await shop.session.call_json(tool.name, text)
                assert result.error is not None, (tool.name, text)
                assert result.error.code == "INVALID_ARGS", (tool.name, text)
                for each in words:
                    assert each in result.error.message, (tool.name, text)
                tried += 1
        async with shop.session.events() as events:
            types = [event.type async for event in events if event.call_id]
    assert types == ["tool/call", "tool/result"] * tried
