"""JSON that cannot be carried without loss is refused with its place: in arguments, and in what bodies and listeners
answer."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stockade_daemon import json_text
from stockade_daemon.json_text import NotLossless
from stockade_daemon.values import Outcome
from tests.pipeline.conftest import Staged

DEEP = b'{"a": ' + b"[" * 64 + b"]" * 64 + b"}"
FAULTS = [
    (b'{"a": [1, {"b": 1, "b": 2}]}', "the key 'b' stands twice in one object at $.a[1].b, character 19"),
    (b'{"a": [0, NaN]}', "NaN, which is not JSON, at $.a[1], character 10"),
    (b'{"a": -Infinity}', "-Infinity, which is not JSON, at $.a, character 6"),
    (b'{"a": -0}', "the number -0, which does not survive JSON, at $.a, character 6"),
    (b'{"a": [-0.0e5]}', "the number -0.0e5, which is -0 and does not survive JSON, at $.a[0], character 7"),
    (b'{"a": 1e999}', "the number 1e999, too large for a double, at $.a, character 6"),
    (b'{"a": {"b": "x\\ud800"}}', "a lone surrogate at $.a.b, character 12"),
    (b'{"\\udfff": 1}', "a lone surrogate at $.\\udfff, character 1"),
    (DEEP, "nested deeper than 64 levels at $.a" + "[0]" * 63 + ", character 69"),
    (b'{"a": 1' + b"0" * 4001 + b"}", "an integer of 4002 digits, more than the 4000 allowed, at $.a, character 6"),
    (b'{"a" 1}', "at line 1 column 6, character 5"),
    (b'{"a": "\xff"}', "not UTF-8 at byte 7"),
]


@pytest.mark.parametrize(("text", "words"), FAULTS, ids=[words[:30] for _, words in FAULTS])
def test_a_text_is_refused_with_path_and_offset(text: bytes, words: str) -> None:
    with pytest.raises(NotLossless) as refused:
        json_text.parse(text)
    assert words in str(refused.value)


def test_a_text_that_is_too_large_is_refused_before_it_is_looked_at() -> None:
    with pytest.raises(NotLossless, match="2097153 bytes of JSON are more than the 2097152 allowed"):
        json_text.parse(b" " * (json_text.MAX_BYTES + 1))


@pytest.mark.parametrize(("text", "words"), FAULTS[:9], ids=[words[:30] for _, words in FAULTS[:9]])
async def test_arguments_are_refused_with_the_place_and_nothing_is_judged(
    staged: Staged, text: bytes, words: str
) -> None:
    result = await staged.call_json("c", "read", text)
    assert result["error"]["code"] == "INVALID_ARGS"
    assert words in result["error"]["message"]
    assert await staged.types("c") == ["tool/call", "tool/result"]


VALUES = [
    ({"a": [float("nan")]}, "$.a[0] is nan"),
    ({"a": float("-inf")}, "$.a is -inf"),
    ({"a": -0.0}, "$.a is -0"),
    ({"a": "\ud800"}, "$.a has a lone surrogate"),
    ({"\ud800": 1}, "$ has a lone surrogate"),
    ({1: 2}, "$ has a key that is not text"),
    ({"a": {1, 2}}, "$.a is a set"),
    ({"a": b"x"}, "$.a is a bytes"),
]


@pytest.mark.parametrize(("value", "words"), VALUES, ids=[words for _, words in VALUES])
async def test_a_value_that_is_answered_is_refused_with_its_path(staged: Staged, value: Any, words: str) -> None:
    async def answer(judged: Any, following: Any) -> Outcome:
        return Outcome(value=value)

    staged.services.execute.add(answer)
    result = await staged.call("c", "read", path="a.txt")
    assert result["error"]["code"] == "INVALID_TOOL_OUTPUT"
    assert words in result["error"]["message"]


async def test_big_integers_key_order_and_odd_keys_survive_the_whole_way(staged: Staged) -> None:
    value: dict[str, Any] = {"z": 2**200, "a": -(2**53) - 1, "__proto__": {"constructor": 1.5}, "": [None, True]}

    async def answer(judged: Any, following: Any) -> Outcome:
        return Outcome(value=value)

    staged.services.execute.add(answer)
    result = await staged.call("c", "any", command="true")
    assert list(result["value"].items()) == list(value.items())


FLOATS = st.floats(allow_nan=False, allow_infinity=False).map(lambda each: each or 0.0)  # no -0
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | FLOATS | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
    max_leaves=12,
)


@given(JSON)
def test_what_is_accepted_comes_back_as_it_was(value: Any) -> None:
    back = json_text.parse(json_text.dump(value))
    assert repr(back) == repr(value)
