"""Frames of a body that lies: each ends the call and nothing else."""

from collections.abc import Callable
from typing import Any

import pytest

from stockade_daemon.errors import ToolFailure
from stockade_daemon.pipeline import wishes
from stockade_daemon.registry import manifests
from stockade_worker.frames import MAX_IMAGE, Frame

MANIFESTS = manifests.load()
READ, TODOS = MANIFESTS["read"], MANIFESTS["todo_write"]


def todos(*items: Any) -> Frame:
    return Frame({"type": "todos", "todos": list(items)})


def item(content: Any, status: Any = "pending", **more: Any) -> dict[str, Any]:
    return {"content": content, "status": status, **more}


@pytest.mark.parametrize(
    "wish",
    [
        lambda: wishes.write(Frame({"type": "write-intent", "encoding_chosen": True}, b"x")),
        lambda: wishes.write(Frame({"type": "write-intent", "path": 1, "encoding_chosen": True}, b"x")),
        lambda: wishes.write(Frame({"type": "write-intent", "path": "\ud800", "encoding_chosen": True}, b"x")),
        lambda: wishes.write(Frame({"type": "write-intent", "path": "a", "encoding_chosen": 1}, b"x")),
        lambda: wishes.window(Frame({"type": "list", "path": ".", "first": 0, "most": 1})),
        lambda: wishes.window(Frame({"type": "list", "path": ".", "first": 1, "most": 10**9})),
        lambda: wishes.window(Frame({"type": "list", "path": ".", "first": True, "most": 1})),
        lambda: wishes.todos(todos(item("a")), READ),
        lambda: wishes.todos(Frame({"type": "todos", "todos": "a"}), TODOS),
        lambda: wishes.todos(todos("a"), TODOS),
        lambda: wishes.todos(todos(item(1)), TODOS),
        lambda: wishes.todos(todos(item("a", "done")), TODOS),
        lambda: wishes.todos(todos(item("a", more=1)), TODOS),
        lambda: wishes.todos(todos(item(" a")), TODOS),
        lambda: wishes.todos(todos(item("")), TODOS),
        lambda: wishes.todos(todos(item("a"), item("a")), TODOS),
        lambda: wishes.todos(todos(item("\ud800")), TODOS),
        lambda: wishes.todos(todos(*(item(str(number)) for number in range(1001))), TODOS),
        lambda: wishes.image(Frame({"type": "image"}, b"<svg/>"), READ),
        lambda: wishes.image(Frame({"type": "image"}, b"GIF89a" + b"x" * MAX_IMAGE), READ),
        lambda: wishes.spans(Frame({"type": "edit-intent", "spans": [[0, 1, 5]]}, b"x")),
    ],
)
def test_a_frame_that_is_not_as_it_should_be_is_the_end_of_its_call(wish: Callable[[], object]) -> None:
    with pytest.raises(ToolFailure) as refused:
        wish()
    assert refused.value.code == "INVALID_TOOL_OUTPUT"


def test_what_is_well_formed_is_taken() -> None:
    assert wishes.todos(todos(item("a"), item("b", "completed")), TODOS) == {
        "todos": [item("a"), item("b", "completed")]
    }
    assert wishes.image(Frame({"type": "image"}, b"GIF89a"), READ).mime == "image/gif"
    wish = wishes.write(Frame({"type": "write-intent", "path": "a", "encoding_chosen": False}, b"\xff"))
    assert (wish.content, wish.encoding_chosen) == (b"\xff", False)
