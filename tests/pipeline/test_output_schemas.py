"""A tool's value is what its manifest says, whoever has made it: the body, a wrapper, or who replaces it."""

import os
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import pytest

from stockade_daemon.pipeline import outcomes
from stockade_daemon.policy.decisions import Replace
from stockade_daemon.policy.subjects import Finished, Judged
from stockade_daemon.policy.waterfall import Next
from stockade_daemon.registry import Registry
from stockade_daemon.values import Outcome
from tests.pipeline.conftest import Staged

ONE = {"exit_code": 1.0, "stdout": 1, "more": True}
# Of such a value of `shell`.
FAULTS = (
    "$.stdout must be text, not 1",
    "unknown member 'more'",
    "$.exit_code is 1.0: write an integer without a frac",
)


def code(result: Any) -> str:
    return "ok" if result["ok"] else str(result["error"]["code"])


async def test_every_built_in_tool_states_what_its_value_is() -> None:
    assert [each.name for each in Registry.load().catalog() if each.output_schema is None] == []


async def test_a_value_of_a_body_that_its_schema_does_not_have_is_invalid(staged: Staged) -> None:
    shell = Registry.load().find("shell")
    assert shell.output_schema is not None
    properties = shell.output_schema["properties"]
    assert isinstance(properties, Mapping)
    narrow = {**properties, "stdout": {"type": "integer", "description": "No text."}}
    manifest = replace(shell, name="narrow", output_schema={**shell.output_schema, "properties": narrow})
    staged.services.tools.succeed([manifest], [])
    seen: list[str] = []

    async def look(finished: Finished, following: Next[Any]) -> Any:
        seen.append(finished.outcome.error.code if finished.outcome.error else "ok")
        return await following()

    staged.services.post_execute.add(look)
    result = await staged.call("c", "narrow", command="echo hi")
    assert code(result) == "INVALID_TOOL_OUTPUT"
    assert (
        "output_schema of the tool 'narrow': $.stdout must be an integer, not \"hi\\n\"" in result["error"]["message"]
    )
    assert "value" not in result
    assert result["layers"]
    assert seen == ["INVALID_TOOL_OUTPUT"]


async def test_a_failure_is_not_covered_up_by_what_its_value_lacks(staged: Staged) -> None:
    async def fail(judged: Judged, following: Next[Outcome]) -> Outcome:
        return outcomes.failed("TOOL_TIMEOUT", "too long")

    staged.services.execute.add(fail)
    assert code(await staged.call("c", "shell", command="true")) == "TOOL_TIMEOUT"


async def test_a_wrappers_answer_that_its_schema_does_not_have_is_invalid(staged: Staged) -> None:
    async def answer(judged: Judged, following: Next[Outcome]) -> Outcome:
        outcome = await following()
        assert isinstance(outcome.value, Mapping)
        return replace(outcome, value={**outcome.value, **ONE}, content=("secret",))

    staged.services.execute.add(answer)
    result = await staged.call("c", "shell", command="true")
    assert code(result) == "INVALID_TOOL_OUTPUT"
    for words in FAULTS:
        assert words in result["error"]["message"]
    assert "secret" not in str(result)
    assert (await staged.body("c", "policy/execute")) == {"outcome": "transformed", "ok": False}


async def test_a_replaced_value_that_its_schema_does_not_have_is_a_mistake_of_who_replaces_it(staged: Staged) -> None:
    async def decide(finished: Finished, following: Next[Any]) -> Any:
        assert isinstance(finished.outcome.value, Mapping)
        return Replace({**finished.outcome.value, **ONE}, ("one",))

    staged.services.post_execute.add(decide, owner="mine")
    result = await staged.call("c", "shell", command="echo sec''ret")
    assert code(result) == "TOOL_OUTCOME_UNKNOWN"
    for words in FAULTS:
        assert words in result["error"]["message"]
    assert "secret" not in str(result)
    assert "policy/post-execute" not in await staged.types("c")


async def test_a_replaced_value_that_fits_is_the_value(staged: Staged) -> None:
    async def decide(finished: Finished, following: Next[Any]) -> Any:
        assert isinstance(finished.outcome.value, Mapping)
        return Replace({**finished.outcome.value, "stdout": "[hidden]", "exit_code": None}, ("[hidden]",))

    staged.services.post_execute.add(decide)
    result = await staged.call("c", "shell", command="echo secret")
    assert (code(result), result["value"]["stdout"], result["content"]) == ("ok", "[hidden]", ["[hidden]"])
    assert result["value"]["exit_code"] is None, "null stands for a member that may be left out, and stays"


@pytest.mark.parametrize(
    ("tool", "arguments"),
    [
        ("read", {"path": "a.txt"}),
        ("read", {"path": "empty.txt"}),
        ("read", {"path": "long.txt", "offset": 2, "limit": 1}),
        ("edit", {"path": "a.txt", "old_string": "one", "new_string": "two"}),
        ("read", {"path": "image.png"}),
        ("multi_edit", {"path": "a.txt", "edits": [{"old_string": "one", "new_string": "two"}]}),
        ("write", {"path": "new.txt", "content": "new"}),
        ("write", {"path": "a.txt", "content": "\ufeffone\r\ntwo"}),
        ("list", {"path": "."}),
        ("list", {"path": "old.d", "limit": 1}),
        ("todo_write", {"todos": [{"content": "rest", "status": "pending"}]}),
        ("todo_write", {"todos": []}),
        ("shell", {"command": "exit 3"}),
        ("shell", {"command": "kill -9 $$"}),
        ("shell", {"argv": ["no-such-program"]}),
        (
            "shell",
            {
                "command": "mkdir d && touch d/x new && rm empty.txt && chmod 600 a.txt && mv old.d new.d && mkfifo p; "
                "ln -s a.txt l; rm long.txt; mkdir long.txt; head -c 200000 /dev/zero"
            },
        ),
    ],
)
async def test_what_built_in_tools_answer_fits_what_they_state(
    staged: Staged, tool: str, arguments: dict[str, Any]
) -> None:
    (staged.workspace / "empty.txt").touch()
    (staged.workspace / "long.txt").write_text("short\n" + "x" * 3000 + "\n")
    (staged.workspace / "image.png").write_bytes(b"\x89PNG\r\n\x1a\n")
    (staged.workspace / os.fsdecode(b"\xff")).symlink_to(os.fsdecode(b"\xfe"))
    (staged.workspace / "old.d").mkdir()
    (staged.workspace / "old.d" / "x").touch()
    await staged.call("r", "read", path="a.txt")
    result = await staged.call("c", tool, **arguments)
    assert code(result) == "ok", result
