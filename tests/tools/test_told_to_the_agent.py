"""What a tool tells the agent beside its result: after all results of the turn, whatever the call comes to."""

import asyncio
from pathlib import Path

import pytest

from tests.tools.shop import HANG_S, Shop, open_shop

TOOL = '''
import time

from stockade_toolkit import ToolError, tell, tool


@tool(name="say", parallel_safe=True)
def say(texts: list[str], then: str = "") -> str:
    """Tells the agent something.

    texts: What.
    then: How the call goes on.
    """
    for each in texts:
        tell(each)
    if then == "refuse":
        raise ToolError("INVALID_ARGS", "no more of that")
    if then == "fail":
        raise RuntimeError("broken")
    if then == "wait":
        print("told", flush=True)
        time.sleep(600)
    return "said"


@tool
def say_wrongly(how: str) -> str:
    """Tells what cannot be told.

    how: In which manner.
    """
    wrong = {"empty": [""], "long": ["x" * 4096, "ä" * 2049], "many": ["x"] * 17, "half": ["\\ud800"], "number": [7]}
    for each in wrong[how]:
        tell(each)
    return "said"
'''


async def told(shop: Shop, last: str) -> list[tuple[str, str]]:
    """Results and contexts in their order, up to the context `last`: type, and the text of a context."""
    found = []
    async with asyncio.timeout(HANG_S), shop.session.events(follow=True) as events:
        async for event in events:
            if event.type in ("tool/result", "context/message"):
                found.append((event.type, str(event.body.get("text", ""))))
            if found and found[-1] == ("context/message", last):
                return found
    raise AssertionError(f"the session ended, and {last!r} was not told")


async def test_what_tools_tell_comes_after_all_results_in_the_order_of_the_calls(place: Path) -> None:
    async with open_shop(place, {"say.py": TOOL}) as shop:
        results = await shop.session.call_many(
            [("say", {"texts": ["one", "two\n\u0000ü"]}), ("say", {"texts": []}), ("say", {"texts": ["three"]})]
        )
        assert [result.value for result in results] == ["said", "said", "said"]
        assert [result.content for result in results] == [("said",)] * 3
        assert await told(shop, "three") == [
            *[("tool/result", "")] * 3,
            *(("context/message", text) for text in ("one", "two\n\u0000ü", "three")),
        ]


@pytest.mark.parametrize(("then", "code"), [("refuse", "INVALID_ARGS"), ("fail", "TOOL_FAILED")])
async def test_what_a_tool_has_told_stays_when_it_fails(place: Path, then: str, code: str) -> None:
    async with open_shop(place, {"say.py": TOOL}) as shop:
        result = await shop.session.call("say", texts=["before"], then=then)
        assert result.error is not None
        assert result.error.code == code
        assert await told(shop, "before") == [("tool/result", ""), ("context/message", "before")]


async def test_what_a_tool_has_told_stays_when_its_call_is_taken_back(place: Path) -> None:
    async with open_shop(place, {"say.py": TOOL}) as shop, asyncio.timeout(HANG_S):
        call = await shop.session.start("say", texts=["before"], then="wait")
        async with call.output() as output:
            async for _ in output:
                break
        await call.cancel()
        result = await call.result()
        assert result.error is not None
        assert result.error.code == "ABORTED"
        assert await told(shop, "before") == [("tool/result", ""), ("context/message", "before")]


async def test_what_a_tool_has_told_stays_when_its_time_is_up(place: Path) -> None:
    tool = TOOL.replace('name="say",', 'name="say", timeout_s=0.5,')
    async with open_shop(place, {"say.py": tool}) as shop:
        result = await shop.session.call("say", texts=["before"], then="wait")
        assert result.error is not None
        assert result.error.code == "TOOL_TIMEOUT"
        assert await told(shop, "before") == [("tool/result", ""), ("context/message", "before")]


async def test_what_cannot_be_told_is_the_tools_failure_and_says_what_can(place: Path) -> None:
    words = {
        "empty": "a text that is not empty",
        "number": "a text that is not empty",
        "long": "at most 4096 bytes, not 4098",
        "many": "16 times in a call",
        "half": "half a character",
    }
    line = TOOL[: TOOL.rindex("tell(each)")].count("\n") + 1
    async with open_shop(place, {"say.py": TOOL}) as shop:
        for how, part in words.items():
            result = await shop.session.call("say_wrongly", how=how)
            assert result.error is not None
            assert result.error.code == "TOOL_FAILED"
            assert f"say.py:{line}: ValueError: tell()" in result.error.message
            assert part in result.error.message
        await shop.session.call("say", texts=["last"])
        kept = [text for type, text in await told(shop, "last") if type == "context/message"]
        assert [len(text) for text in kept] == [4096, *[1] * 16, 4]


async def test_a_file_that_tells_something_while_it_is_imported_is_refused(place: Path) -> None:
    async with open_shop(place, {"say.py": f"{TOOL}\ntell('early')\n"}) as shop:
        assert "while the file is imported there is nobody to tell it to" in (await shop.refused())["say.py"]
        assert "say" not in await shop.names()
