"""A recorded conversation: what the model said, what the person answered, and what came of it.

JSON, UTF-8:

    {"title": text, "task": text, "profile": name, "turns": [
        {"text": text, "calls": [
            {"tool": name,
             "arguments": {…} or "raw": text,       raw: the argument text as a model wrote it, JSON or not
             "answer": {"allow": bool, "says": text},    the person's, if the call is asked about
             "expect": {"ok": bool, "code": text, "exit_code": int, "contains": [text, …]}}]}]}

`title`, `profile`, `calls`, `answer`, `expect` and each key of `expect` may be left out. A call's id is its
place, `turn-2.call-1`. Unknown keys are errors: a misspelt expectation would expect nothing.
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import NoReturn

from stockade_client.errors import StockadeError
from stockade_client.results import CallResult, Json


class FaultyRecording(StockadeError):
    """A recording that cannot be used; names the place."""


@dataclass(frozen=True, slots=True)
class RecordedAnswer:
    """What the person answered when asked about a call."""

    allow: bool
    says: str


@dataclass(frozen=True, slots=True)
class Expectation:
    """What a recorded call came to. None and empty expect nothing."""

    ok: bool | None = None
    code: str | None = None
    exit_code: int | None = None
    contains: tuple[str, ...] = ()  # in content, stdout, stderr or the error's message

    def difference(self, result: CallResult) -> str | None:
        """How the result differs from what was recorded, as a sentence; None when it does not."""
        code = result.error.code if result.error else None
        if self.ok is not None and result.ok != self.ok:
            came = "succeeded" if result.ok else f"failed with {result.error}"
            return f"it should have {'succeeded' if self.ok else 'failed'} and {came}"
        if self.code is not None and code != self.code:
            return f"it should have been refused with {self.code} and {'was ' + code if code else 'was not'}"
        if self.exit_code is not None and result.field("exit_code") != self.exit_code:
            return f"its exit status should be {self.exit_code} and is {result.field('exit_code')}"
        text = everything_said(result)
        for part in self.contains:
            if part not in text:
                return f"it should have said {part!r} and said {text.strip()[-400:]!r}"
        return None


@dataclass(frozen=True, slots=True)
class RecordedCall:
    id: str
    tool: str
    arguments: bytes  # JSON text
    answer: RecordedAnswer | None
    expect: Expectation


@dataclass(frozen=True, slots=True)
class RecordedTurn:
    text: str
    calls: tuple[RecordedCall, ...]


@dataclass(frozen=True, slots=True)
class Recording:
    title: str
    task: str
    profile: str  # empty: whoever plays it chooses
    turns: tuple[RecordedTurn, ...]

    @property
    def calls(self) -> Mapping[str, RecordedCall]:
        """All recorded calls by id."""
        return {call.id: call for turn in self.turns for call in turn.calls}


def everything_said(result: CallResult) -> str:
    """All text of a result: output, content and the error's message."""
    parts = [result.field("stdout"), result.field("stderr"), result.text]
    if result.error is not None:
        parts.append(result.error.message)
    return "\n".join(part for part in parts if isinstance(part, str))


def parse(text: bytes, *, source: str) -> Recording:
    """The recording in `text`. Raises FaultyRecording; `source` is what errors call it."""
    try:
        data: Json = json.loads(text)
    except ValueError as error:
        raise FaultyRecording(f"{source} is not JSON: {error}; `stockade agent --help` has the format") from None
    reader = _Reader(source)
    top = reader.fields(data, "$", required={"task", "turns"}, optional={"title", "profile"})
    return Recording(
        title=reader.text(top.get("title", ""), "$.title"),
        task=reader.text(top["task"], "$.task"),
        profile=reader.text(top.get("profile", ""), "$.profile"),
        turns=tuple(
            reader.turn(turn, number, f"$.turns[{number - 1}]")
            for number, turn in enumerate(reader.items(top["turns"], "$.turns"), 1)
        ),
    )


class _Reader:
    """Takes values apart and names the place where one does not fit."""

    def __init__(self, source: str) -> None:
        self._source = source

    def fault(self, place: str, what: str) -> NoReturn:
        raise FaultyRecording(f"{self._source}: {place} {what}")

    def fields(self, value: Json, place: str, *, required: set[str], optional: set[str]) -> dict[str, Json]:
        if not isinstance(value, dict):
            self.fault(place, "must be an object")
        known = ", ".join(sorted(required | optional))
        for key in value:
            if key not in required | optional:
                self.fault(place, f"has the unknown key {key!r}; known are {known}")
        for key in sorted(required - set(value)):
            self.fault(place, f"lacks the key {key!r}; known are {known}")
        return value

    def items(self, value: Json, place: str) -> list[Json]:
        if not isinstance(value, list):
            self.fault(place, "must be a list")
        return value

    def text(self, value: Json, place: str) -> str:
        if not isinstance(value, str):
            self.fault(place, "must be text")
        return value

    def truth(self, value: Json, place: str) -> bool:
        if not isinstance(value, bool):
            self.fault(place, "must be true or false")
        return value

    def whole(self, value: Json, place: str) -> int:
        if not isinstance(value, int) or isinstance(value, bool):
            self.fault(place, "must be an integer")
        return value

    def turn(self, value: Json, number: int, place: str) -> RecordedTurn:
        turn = self.fields(value, place, required={"text"}, optional={"calls"})
        return RecordedTurn(
            text=self.text(turn["text"], f"{place}.text"),
            calls=tuple(
                self.call(call, f"turn-{number}.call-{index}", f"{place}.calls[{index - 1}]")
                for index, call in enumerate(self.items(turn.get("calls", []), f"{place}.calls"), 1)
            ),
        )

    def call(self, value: Json, call_id: str, place: str) -> RecordedCall:
        call = self.fields(value, place, required={"tool"}, optional={"arguments", "raw", "answer", "expect"})
        if ("arguments" in call) == ("raw" in call):
            self.fault(place, "must have exactly one of 'arguments' and 'raw'")
        if "raw" in call:
            arguments = self.text(call["raw"], f"{place}.raw")
        else:
            arguments = json.dumps(call["arguments"], ensure_ascii=False)
        return RecordedCall(
            id=call_id,
            tool=self.text(call["tool"], f"{place}.tool"),
            arguments=arguments.encode("utf-8", "surrogatepass"),
            answer=self.answer(call["answer"], f"{place}.answer") if "answer" in call else None,
            expect=self.expectation(call.get("expect", {}), f"{place}.expect"),
        )

    def answer(self, value: Json, place: str) -> RecordedAnswer:
        answer = self.fields(value, place, required={"allow"}, optional={"says"})
        return RecordedAnswer(
            allow=self.truth(answer["allow"], f"{place}.allow"),
            says=self.text(answer.get("says", ""), f"{place}.says"),
        )

    def expectation(self, value: Json, place: str) -> Expectation:
        expect = self.fields(value, place, required=set(), optional={"ok", "code", "exit_code", "contains"})
        return Expectation(
            ok=self.truth(expect["ok"], f"{place}.ok") if "ok" in expect else None,
            code=self.text(expect["code"], f"{place}.code") if "code" in expect else None,
            exit_code=self.whole(expect["exit_code"], f"{place}.exit_code") if "exit_code" in expect else None,
            contains=tuple(
                self.text(part, f"{place}.contains")
                for part in self.items(expect.get("contains", []), f"{place}.contains")
            ),
        )
