"""Rules for commands through a real daemon: what has a rule runs with nobody there, all else is asked about."""

from pathlib import Path
from typing import Any

import pytest

from stockade_client import Daemon
from stockade_client.errors import InvalidRequest

PROFILE = """
[approval]
commands = "ask"
wait_s = 0

[commands]
allow = ["true", "cat *", "echo *"]
"""


@pytest.fixture
def ruled(workspace: Path) -> Path:
    profile = workspace.parent / f"{workspace.name}.toml"
    profile.write_text(PROFILE)
    return profile


async def test_a_command_that_has_rules_runs_with_nobody_there_to_ask(
    daemon: Daemon, workspace: Path, ruled: Path
) -> None:
    async with daemon.session(workspace=workspace, profile=ruled) as session:
        result = await session.call("shell", command="true && cat 'a.txt' | cat; echo x 2>&1")
        assert result.ok, result.error
        value: Any = result.value
        assert value["stdout"] == "one\ntwo\nthree\nx\n"
        assert (await session.call("shell", argv=["cat", "a.txt"])).ok
        assert [event.type async for event in session.events() if event.type == "approval/asked"] == []


@pytest.mark.parametrize(
    ("arguments", "because"),
    [
        ({"command": "true; rm a.txt"}, "`rm a.txt` has no rule"),
        ({"command": "cat a.txt > b.txt"}, "it reads or writes a file"),
        ({"command": "cat $(echo a.txt)"}, "bash would put something else there"),
        ({"argv": ["cat", "-n", "a.txt"]}, "`cat -n a.txt` has no rule"),
    ],
    ids=["another", "file", "substitution", "option"],
)
async def test_an_ask_says_what_has_no_rule(
    daemon: Daemon, workspace: Path, ruled: Path, arguments: dict[str, Any], because: str
) -> None:
    async with daemon.session(workspace=workspace, profile=ruled) as session:
        result = await session.call("shell", **arguments)
        assert result.error is not None
        assert result.error.code == "APPROVAL_UNAVAILABLE"
        [decided] = [event.body async for event in session.events() if event.type == "policy/pre-execute"]
        assert decided["decision"] == "ask"
        assert because in str(decided["reason"])


async def test_a_tightening_takes_rules_away_and_adds_none(daemon: Daemon, workspace: Path, ruled: Path) -> None:
    async with daemon.session(
        workspace=workspace, profile=ruled, tightening='commands.allow = ["cat a.txt"]'
    ) as session:
        assert (await session.call("shell", command="cat a.txt")).ok
        refused = await session.call("shell", command="cat b.txt")
        assert refused.error is not None
        assert refused.error.code == "APPROVAL_UNAVAILABLE"
    with pytest.raises(InvalidRequest, match=r"commands\.allow"):
        async with daemon.session(workspace=workspace, profile=ruled, tightening='commands.allow = ["rm *"]'):
            pass
