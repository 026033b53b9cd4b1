"""The completed card, as a person at a terminal sees it."""

import re
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from stockade_client.completed import facts, heading
from stockade_client.results import Json
from tests.client.test_question import at_a_terminal

READ = ("call", "read", '{"path": "a.txt"}', "--profile", "dev")
Stockade = Callable[..., "subprocess.CompletedProcess[bytes]"]


@pytest.mark.parametrize(
    ("card", "said"),
    [
        ({"view": "generic"}, ""),
        ({"view": "terminal", "exit_code": 3, "signal": None, "timed_out": False}, "exit status 3"),
        ({"view": "terminal", "exit_code": None, "signal": 9, "timed_out": False}, "killed by signal 9"),
        ({"view": "terminal", "exit_code": None, "signal": None, "timed_out": True}, "timed out"),
        ({"view": "read", "first": 2, "last": 5, "total": 9}, "lines 2 to 5 of 9"),
        ({"view": "read", "first": 1, "last": 0, "total": 0}, "an empty file"),
        ({"view": "search", "total": 4, "truncated": False}, "4 found"),
        ({"view": "search", "total": 4, "truncated": True}, "4 found, not all shown"),
        ({"view": "diff", "difference": "--- a\n+++ b\n@@ -1 +1,2 @@\n-one\n+two\n+three\n"}, "+2 -1"),
        ({"view": "diff"}, ""),
        ({"view": "read", "first": "1", "last": 0, "total": 3}, ""),
        ({"view": 7}, ""),
        ({}, ""),
    ],
)
def test_each_view_is_told_in_words_and_odd_data_is_left_out(card: dict[str, Json], said: str) -> None:
    assert facts(card) == said


def test_the_heading_has_a_mark_and_the_title_and_cannot_steer_the_terminal() -> None:
    assert heading({"title": "Read a\x1b[2J", "view": "read", "ok": True, "total": 0}).plain == (
        "✓ Read a\\x1b[2J  an empty file"
    )
    assert heading({"title": "Run", "view": "generic", "ok": False}).plain == "✗ Run"
    assert heading({}).plain == "✗ "


def test_a_call_shows_its_card_where_a_person_looks_and_only_there(
    environment: dict[str, str], stockade: Stockade, workspace: Path
) -> None:
    with at_a_terminal(environment, workspace, *READ) as terminal:
        assert terminal.ended() == 0
    lines = re.sub(r"\x1b\[[0-9;]*m", "", terminal.shown.decode()).splitlines()  # without its styles
    assert lines[0] == "✓ Read a.txt  lines 1 to 3 of 3"
    assert any("two" in line for line in lines[1:])
    assert b"Read a.txt" not in stockade(*READ).stdout
