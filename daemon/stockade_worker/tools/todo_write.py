"""`todo_write`: the session's list of what is to be done, written whole."""

from collections.abc import Mapping
from typing import Any

from stockade_toolkit import Answer, ToolError
from stockade_worker.broker import Broker

_MARKS = {"pending": " ", "in_progress": "~", "completed": "x"}


def run(arguments: Mapping[str, Any], broker: Broker) -> Answer:
    todos = [{"content": each["content"].strip(), "status": each["status"]} for each in arguments["todos"]]
    seen: dict[str, int] = {}
    for number, each in enumerate(todos, start=1):
        content = each["content"]
        if not content:
            raise ToolError("INVALID_ARGS", f"item {number} has no content; say what is to be done, or leave it out")
        if content in seen:
            raise ToolError(
                "INVALID_ARGS", f"items {seen[content]} and {number} have the same content; leave one of them out"
            )
        seen[content] = number
    broker.todos(todos)
    lines = [f"[{_MARKS[each['status']]}] {each['content']}" for each in todos]
    done = sum(each["status"] == "completed" for each in todos)
    items = "1 item" if len(todos) == 1 else f"{len(todos)} items"
    head = f"The list has {items}, {done} completed." if todos else "The list is empty."
    return Answer({"todos": todos}, "\n".join([head, *lines]))
