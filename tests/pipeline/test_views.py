"""Cards of calls: live ones are what a replay of the recorded events makes, and odd data is only shown plainly."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stockade_daemon.pipeline import views
from stockade_daemon.registry.registry import Registry
from tests.pipeline.conftest import Staged

TOOLS = Registry.load()


async def replayed(staged: Staged, call_id: str) -> tuple[Any, Any]:
    """The completed card as it was recorded, and as the recorded events make it."""
    call, result = await staged.body(call_id, "tool/call"), dict(await staged.body(call_id, "tool/result"))
    manifest = TOOLS.find(call["tool"])
    shown = views.pending(manifest, call["card"]["title"], json.loads(call["arguments"]))
    assert shown == call["card"]
    return result["card"], views.completed(manifest, shown, result)


async def test_each_view_says_what_the_call_came_to_and_replays_the_same(staged: Staged) -> None:
    await staged.call("r", "read", path="a.txt")
    await staged.call("e", "edit", path="a.txt", old_string="one", new_string="two")
    await staged.call("s", "shell", command="exit 3")
    await staged.call("f", "read", path="missing")
    await staged.call("t", "shell", command="sleep 60", timeout_s=0.2)
    cards = {}
    for call_id in "resft":
        cards[call_id], again = await replayed(staged, call_id)
        assert cards[call_id] == again
    lines = {"first": 1, "last": 1, "total": 1}
    assert cards["r"] == {"title": "Read a.txt", "view": "read", "path": "a.txt", "ok": True, **lines}
    assert (cards["e"]["view"], "+two" in cards["e"]["difference"]) == ("diff", True)
    assert (cards["s"]["view"], cards["s"]["command"], cards["s"]["exit_code"]) == ("terminal", "exit 3", 3)
    assert cards["f"] == {"title": "Read missing", "view": "generic", "ok": False}
    assert (cards["t"]["view"], cards["t"]["timed_out"], cards["t"]["ok"]) == ("terminal", True, False)


@pytest.mark.parametrize(
    "value",
    [
        {"path": "a", "first_line": 3, "last_line": 1, "total_lines": 9},
        {"path": "a", "first_line": 1, "last_line": 9, "total_lines": 3},
        {"path": 1, "first_line": 1, "last_line": 1, "total_lines": 1},
        {"path": "a"},
        [],
        None,
    ],
)
def test_a_value_that_does_not_fit_its_view_is_shown_plainly(value: Any) -> None:
    shown = views.pending(TOOLS.find("read"), "Read a", {"path": "a"})
    card = views.completed(TOOLS.find("read"), shown, {"ok": True, "value": value})
    assert card == {"title": "Read a", "view": "generic", "ok": True}


WILD = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=4),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=4), inner, max_size=3),
    max_leaves=6,
)
NAMES = ["path", "first_line", "last_line", "total_lines", "difference", "exit_code", "signal", "timed_out", "total"]


@given(
    st.sampled_from([each.name for each in TOOLS.catalog()]),
    st.dictionaries(st.sampled_from(["path", "pattern", "command", "cwd"]), WILD),
    st.dictionaries(st.sampled_from(NAMES), WILD) | WILD,
    st.dictionaries(st.sampled_from(["title", "view"]), WILD),
)
def test_no_data_makes_a_card_fail(tool: str, arguments: Any, value: Any, card: Any) -> None:
    manifest = TOOLS.find(tool)
    shown = views.pending(manifest, "title", arguments)
    for each in (shown, card):
        made = views.completed(manifest, each, {"ok": True, "value": value})
        assert made["view"] in ("generic", "terminal", "diff", "read", "search")
