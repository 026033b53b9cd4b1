"""A worker that somebody kills from outside: the result says what became of effects, as after a crash of the daemon."""

import os
import signal
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from stockade_daemon import json_text
from stockade_daemon.gate.gate import Gate
from stockade_daemon.pipeline import intents
from stockade_daemon.sandbox.worker import Worker
from tests.pipeline.conftest import HANG_S, Staged

EDIT = {"path": "a.txt", "old_string": "one", "new_string": "two"}
Kill = Callable[[], Awaitable[None]]


@pytest.fixture
def kill(monkeypatch: pytest.MonkeyPatch) -> Kill:
    """Kills every worker made so far with SIGKILL, from outside, and waits for their end."""
    made: list[Worker] = []
    go = Worker.go

    async def noted(worker: Worker) -> None:
        made.append(worker)
        await go(worker)

    async def killing() -> None:
        for worker in made:
            if worker.alive():
                os.kill(worker.host_pid, signal.SIGKILL)
                await worker.gone()

    monkeypatch.setattr(Worker, "go", noted)
    return killing


def after(monkeypatch: pytest.MonkeyPatch, owner: Any, name: str, kill: Kill) -> None:
    """Kills when the real thing has been done."""
    real = getattr(owner, name)

    async def done(*arguments: Any, **named: Any) -> Any:
        result = await real(*arguments, **named)
        await kill()
        return result

    monkeypatch.setattr(owner, name, done)


def says(result: Any, code: str, effects: str) -> None:
    assert result["error"]["code"] == code, result
    assert result["error"]["domain"] == "infrastructure"
    assert f"effects: {effects}. " in result["error"]["message"]
    assert result["effects"] == effects


async def test_a_function_killed_before_any_change_says_that_there_was_none(
    staged: Staged, kill: Kill, monkeypatch: pytest.MonkeyPatch
) -> None:
    after(monkeypatch, Gate, "read", kill)
    says(await staged.call("r", "read", path="a.txt"), "TOOL_FAILED", "none (proven)")


async def test_a_function_killed_after_its_change_says_what_was_committed(
    staged: Staged, kill: Kill, monkeypatch: pytest.MonkeyPatch
) -> None:
    await staged.call("r", "read", path="a.txt")
    after(monkeypatch, intents, "edit", kill)
    says(await staged.call("e", "edit", **EDIT), "TOOL_FAILED", "committed: a.txt")
    assert (staged.workspace / "a.txt").read_text() == "two\n"


async def test_a_killed_command_says_that_there_was_no_effect(staged: Staged, kill: Kill) -> None:
    command = json_text.dump({"command": "echo x > a.txt; echo begun; while :; do sleep 1; done"})
    await staged.engine.begin("s", "c", "shell", command)
    output = await staged.engine.running_output("s", "c", begun=True)
    assert output is not None
    assert await output.more("stdout", 0)
    await kill()
    record, _ = await staged.engine.wait("s", "c", HANG_S)
    says(record.result, "TOOL_OUTCOME_UNKNOWN", "none (proven)")
    assert (staged.workspace / "a.txt").read_text() == "one\n"
