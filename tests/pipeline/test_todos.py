"""`todo_write`: the whole list, each time, and its event."""

from typing import Any

from stockade_client.results import CallResult
from stockade_client.session import Session


def code(result: CallResult) -> str:
    return result.error.code if result.error else "ok"


def item(content: str, status: str = "pending") -> dict[str, Any]:
    return {"content": content, "status": status}


async def written(session: Session) -> list[Any]:
    async with session.events() as events:
        return [event.body["todos"] async for event in events if event.type == "todo/write"]


async def test_each_call_replaces_the_whole_list(session: Session) -> None:
    first = [item("look"), item("change", "in_progress")]
    result = await session.call("todo_write", todos=first)
    assert result.value == {"todos": first}
    assert result.content == ("The list has 2 items, 0 completed.\n[ ] look\n[~] change",)
    assert (await session.call("todo_write", todos=[item("look", "completed")])).ok
    assert (await session.call("todo_write", todos=[])).content == ("The list is empty.",)
    assert await written(session) == [first, [item("look", "completed")], []]


async def test_contents_are_trimmed_and_must_differ(session: Session) -> None:
    result = await session.call("todo_write", todos=[item("  look\n")])
    assert result.value == {"todos": [item("look")]}
    for todos in ([item("look"), item(" look ")], [item(" \t")], [item("")], [item("x", "done")], [{"content": "x"}]):
        assert code(await session.call("todo_write", todos=todos)) == "INVALID_ARGS", todos
    assert await written(session) == [[item("look")]]
