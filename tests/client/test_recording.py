"""Recorded conversations: read strictly, replayed in order, compared with what happens."""

import json

import pytest

from stockade_client import CallResult, Failure, ScriptedModel, Turn, Usage
from stockade_client.demo.play import recording
from stockade_client.model import Message, Results, Task
from stockade_client.recording import Expectation, FaultyRecording, parse
from stockade_client.results import Json


def one_call(**call: Json) -> bytes:
    return json.dumps({"task": "t", "turns": [{"text": "", "calls": [{"tool": "read", **call}]}]}).encode()


def result(*, ok: bool = True, value: Json = None, code: str = "") -> CallResult:
    error = None if ok else Failure(code, "no", "policy", "safe")
    return CallResult("c", "t", ok, value, (), error, Usage(), (), "")


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        (b"{", "not JSON"),
        (b"[]", r"\$ must be an object"),
        (b'{"task": "t"}', "lacks the key 'turns'"),
        (b'{"task": 1, "turns": []}', r"\$\.task must be text"),
        (one_call(), "exactly one of 'arguments' and 'raw'"),
        (one_call(arguments={}, raw=""), "exactly one of"),
        (one_call(arguments={}, expect={"exitcode": 1}), r"calls\[0\]\.expect has the unknown key 'exitcode'"),
        (one_call(arguments={}, answer={"allow": "yes"}), "must be true or false"),
        (one_call(arguments={}, expect={"exit_code": True}), "must be an integer"),
    ],
)
def test_a_faulty_recording_is_refused_with_the_place(text: bytes, complaint: str) -> None:
    with pytest.raises(FaultyRecording, match=complaint):
        parse(text, source="talk.json")


def test_raw_arguments_stay_as_the_model_wrote_them() -> None:
    (call,) = parse(one_call(raw='{"path": '), source="talk.json").calls.values()
    assert call.arguments == b'{"path": '


def test_calls_are_named_by_their_place() -> None:
    assert list(parse(one_call(arguments={}), source="talk.json").calls) == ["turn-1.call-1"]


@pytest.mark.parametrize(
    ("expected", "came", "complaint"),
    [
        (Expectation(ok=True), result(), None),
        (Expectation(ok=True), result(ok=False, code="DENIED"), "failed with DENIED"),
        (Expectation(code="DENIED"), result(), "was not"),
        (Expectation(code="DENIED"), result(ok=False, code="FS_EXISTS"), "was FS_EXISTS"),
        (Expectation(exit_code=0), result(value={"exit_code": 1}), "is 1"),
        (Expectation(contains=("red",)), result(value={"stdout": "", "stderr": "red"}), None),
        (Expectation(contains=("red",)), result(value={"stdout": "green"}), "'red'"),
    ],
)
def test_a_difference_is_told(expected: Expectation, came: CallResult, complaint: str | None) -> None:
    difference = expected.difference(came)
    assert difference is None if complaint is None else difference is not None and complaint in difference


async def test_the_scripted_model_says_its_turns_in_order_and_then_nothing() -> None:
    recorded = recording()
    model = ScriptedModel(recorded)
    conversation: list[Message] = [Task(recorded.task)]
    for turn in recorded.turns:
        said = await model.reply(conversation, ())
        assert (said.text, len(said.calls)) == (turn.text, len(turn.calls))
        conversation += [said, Results(())]
    assert await model.reply(conversation, ()) == Turn("")


def test_the_demos_conversation_has_the_persons_answer_and_three_refusals() -> None:
    recorded = recording()
    assert [call.tool for call in recorded.calls.values() if call.answer] == ["edit"]
    assert [call.expect.exit_code for call in recorded.turns[-2].calls] == [1, 1, 1]
