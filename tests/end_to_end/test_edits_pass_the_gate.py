"""Edits as an agent makes them: through the client, a worker and the gate."""

import json
import os
from pathlib import Path
from typing import Any

import pytest

from tests.end_to_end.conftest import Stockade
from tests.end_to_end.stockaded import Stockaded


class Agent:
    """`stockade call` in one session under profile dev."""

    def __init__(self, stockade: Stockade, workspace: Path) -> None:
        self._stockade = stockade
        self._workspace = workspace
        self._session = f"edits-{workspace.parent.name}"

    def __call__(self, tool: str, arguments: dict[str, Any], *options: str) -> dict[str, Any]:
        where = ["--session", self._session, "--profile", "dev", "--workspace", str(self._workspace)]
        done = self._stockade("call", tool, json.dumps(arguments), *where, "--json", *options)
        assert done.returncode in (0, 1), done.stderr
        result: dict[str, Any] = json.loads(done.stdout)
        return result

    def edit(self, old: str, new: str, *options: str, path: str = "a.txt") -> dict[str, Any]:
        return self("edit", {"path": path, "old_string": old, "new_string": new}, *options)


@pytest.fixture
def agent(stockade: Stockade, workspace: Path) -> Agent:
    return Agent(stockade, workspace)


def test_an_edit_without_a_read_is_refused_with_the_remedy(agent: Agent, workspace: Path) -> None:
    result = agent.edit("two", "2", "--yes")
    assert result["error"]["code"] == "FS_NOT_OBSERVED"
    assert "read" in result["error"]["message"].lower()
    assert (workspace / "a.txt").read_text() == "one\ntwo\nthree\n"


def test_a_read_then_an_edit_changes_only_the_matched_bytes(agent: Agent, workspace: Path) -> None:
    (workspace / "a.txt").chmod(0o751)
    assert agent("read", {"path": "a.txt"})["value"]["content"] == "one\ntwo\nthree\n"
    result = agent.edit("two", "2", "--yes")
    assert result["ok"], result
    assert "-two\n+2\n" in result["value"]["difference"]
    assert (workspace / "a.txt").read_text() == "one\n2\nthree\n"
    assert (workspace / "a.txt").stat().st_mode & 0o7777 == 0o751
    assert sorted(os.listdir(workspace)) == ["a.txt"]


def test_an_edit_after_an_outside_change_is_refused(agent: Agent, workspace: Path) -> None:
    agent("read", {"path": "a.txt"})
    (workspace / "a.txt").write_text("one\ntwo, by somebody else\nthree\n")
    result = agent.edit("two", "2", "--yes")
    assert result["error"]["code"] == "FS_STALE_VERSION"
    assert (workspace / "a.txt").read_text() == "one\ntwo, by somebody else\nthree\n"


def test_an_edit_through_a_link_that_leaves_the_workspace_is_refused(agent: Agent, workspace: Path) -> None:
    outside = workspace.parent / "outside.txt"
    outside.write_text("secret two\n")
    (workspace / "link.txt").symlink_to("../outside.txt")
    assert agent("read", {"path": "link.txt"})["error"]["code"] == "FS_OUTSIDE_WORKSPACE"
    assert agent.edit("two", "2", "--yes", path="link.txt")["error"]["code"] == "FS_OUTSIDE_WORKSPACE"
    assert agent.edit("two", "2", "--yes", path=str(outside))["error"]["code"] == "FS_OUTSIDE_WORKSPACE"
    assert outside.read_text() == "secret two\n"


def test_without_a_terminal_and_without_yes_the_answer_is_no(agent: Agent, workspace: Path) -> None:
    agent("read", {"path": "a.txt"})
    assert agent.edit("two", "2")["error"]["code"] == "APPROVAL_REJECTED"
    assert (workspace / "a.txt").read_text() == "one\ntwo\nthree\n"


def test_strict_denies_writes_before_anything_runs(stockade: Stockade, workspace: Path) -> None:
    done = stockade(
        "call",
        "edit",
        '{"path": "a.txt", "old_string": "two", "new_string": "2"}',
        "--profile",
        "strict",
        "--json",
        "--yes",
    )
    assert json.loads(done.stdout)["error"]["code"] == "DENIED"
    assert (workspace / "a.txt").read_text() == "one\ntwo\nthree\n"


def test_what_a_shell_printed_is_no_observation(agent: Agent, workspace: Path) -> None:
    assert agent("shell", {"command": "cat a.txt"})["value"]["stdout"] == "one\ntwo\nthree\n"
    assert agent.edit("two", "2", "--yes")["error"]["code"] == "FS_NOT_OBSERVED"


def test_a_missing_text_and_one_that_occurs_twice_are_told_apart(agent: Agent, workspace: Path) -> None:
    (workspace / "a.txt").write_text("x\nx\n")
    agent("read", {"path": "a.txt"})
    assert agent.edit("y", "z", "--yes")["error"]["code"] == "FS_EDIT_NOT_FOUND"
    assert agent.edit("x", "z", "--yes")["error"]["code"] == "FS_AMBIGUOUS_EDIT"


def test_the_ledger_tells_the_whole_way_of_an_edit(agent: Agent, stockade: Stockade, shared: Stockaded) -> None:
    agent("read", {"path": "a.txt"})
    call = agent.edit("two", "2", "--yes")["id"]
    done = stockade("ledger", call, "--json")
    events = [json.loads(line) for line in done.stdout.splitlines()]
    assert [event["type"] for event in events] == [
        "tool/call",
        "policy/pre-execute",
        "policy/guards",
        "call/dispatched",
        "fs/edit-intent",
        "approval/asked",
        "approval/decided",
        "policy/transaction",
        "fs/begun",
        "fs/committed",
        "policy/post-execute",
        "tool/result",
    ]


def test_observations_outlive_a_restart(stockaded: Stockaded, stockade: Stockade, workspace: Path) -> None:
    agent = Agent(lambda *words: stockade(*words, daemon=stockaded), workspace)
    stockaded.start()
    agent("read", {"path": "a.txt"})
    assert stockaded.end() == 0
    stockaded.start()
    assert agent.edit("two", "2", "--yes")["ok"]
    assert (workspace / "a.txt").read_text() == "one\n2\nthree\n"


@pytest.mark.parametrize("encoding", ["iso2022_jp", "hz", "utf-7", "euc_jis_2004"])
def test_an_encoding_whose_bytes_depend_on_context_is_never_corrupted(
    agent: Agent, workspace: Path, encoding: str
) -> None:
    text = {"hz": "中文字 text\n"}.get(encoding, "日本語 text か゚\n")
    try:
        before = text.encode(encoding)
    except UnicodeEncodeError:
        before = "日本語 text\n".encode(encoding)
    (workspace / "a.txt").write_bytes(before)
    agent("read", {"path": "a.txt", "encoding": encoding})
    character = before.decode(encoding)[0]
    call = {"path": "a.txt", "old_string": character, "new_string": "X", "encoding": encoding}
    result = agent("edit", call, "--yes")
    after = (workspace / "a.txt").read_bytes()
    assert after == before if not result["ok"] else after.decode(encoding) == "X" + before.decode(encoding)[1:]


def test_changed_content_does_not_keep_the_set_id_bits_of_the_old(agent: Agent, workspace: Path) -> None:
    (workspace / "a.txt").chmod(0o4755)
    agent("read", {"path": "a.txt"})
    result = agent.edit("two", "2", "--yes")
    assert result["ok"], result
    assert (workspace / "a.txt").stat().st_mode & 0o7777 == 0o755
