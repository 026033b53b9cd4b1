"""A yes stands for what was shown, and what has changed since voids it, through the wire."""

import asyncio
import hashlib
import json
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio

from stockade_client import Call, CallResult, Daemon, connect, local_daemon
from stockade_client.approvals import Ask
from stockade_client.errors import AskChanged
from stockade_client.session import Session
from stockade_client.visible import visible
from tests.pipeline.conftest import ASKING, HANG_S

TOOL = """
description = "Greets."
access = "overlay"
kind = "command"
title = "Greet"
[program]
argv = ["echo", "hello"]
"""
SHOWN = "echo shown\n"
DIGEST = hashlib.sha256(SHOWN.encode()).hexdigest()


async def asked(daemon: Daemon, session: Session) -> Ask:
    async with asyncio.timeout(HANG_S), daemon.approvals(session.session_id) as asks:
        return await anext(asks)


async def result_of(call: Call) -> CallResult:
    async with asyncio.timeout(HANG_S):
        return await call.result()


def code(result: CallResult) -> str:
    return result.error.code if result.error else "ok"


@pytest.mark.parametrize(
    "arguments",
    [
        {"command": "bash run.sh"},
        {"command": "cd .; ./run.sh"},
        {"argv": ["bash", "run.sh"]},
        {"argv": ["./run.sh"]},
        {"command": "python3 link.py"},
    ],
)
async def test_a_card_names_the_scripts_with_their_digests_and_a_change_of_one_voids_it(
    daemon: Daemon, asking: Session, workspace: Path, arguments: dict[str, Any]
) -> None:
    (workspace / "run.sh").write_text(SHOWN)
    (workspace / "run.sh").chmod(0o755)
    (workspace / "link.py").symlink_to("run.sh")
    call = await asking.start("shell", **arguments)
    ask = await asked(daemon, asking)
    by_link = "link.py" in str(arguments)
    named = {"path": "run.sh", "digest": DIGEST}
    if by_link:
        named = {"path": "link.py", "digest": DIGEST, "leads_to": "run.sh"}
    assert ask.card["operands"] == [named]
    (workspace / "run.sh").write_text("echo other\n")
    with pytest.raises(AskChanged, match=str(named["path"])):
        await ask.decide(True)
    result = await result_of(call)
    assert code(result) == "APPROVAL_MISMATCH"
    assert str(named["path"]) in str(result.error)


@pytest.mark.parametrize(
    "command",
    [
        "bash run.sh",
        "bash -lc 'bash run.sh'",
        "bash -c '' " + " ".join(f"w{number}" for number in range(40)) + "; bash run.sh",
        "echo ok # it's\nbash run.sh",
        'echo "$(bash run.sh)"',
        "timeout -s KILL 5 bash run.sh",
        "env -u FOO ./run.sh",
        "xargs -I {} ./run.sh",
    ],
)
@pytest.mark.parametrize("there", [True, False], ids=["changed", "appeared"])
async def test_a_script_is_found_in_the_commands_that_agents_write(
    daemon: Daemon, asking: Session, workspace: Path, command: str, there: bool
) -> None:
    if there:
        (workspace / "run.sh").write_text(SHOWN)
    call = await asking.start("shell", command=command)
    ask = await asked(daemon, asking)
    (workspace / "run.sh").write_text("echo other\n")
    with pytest.raises(AskChanged, match=r"run\.sh"):
        await ask.decide(True)
    assert code(await result_of(call)) == "APPROVAL_MISMATCH"


async def test_a_link_that_leads_to_another_script_voids_the_ask(
    daemon: Daemon, asking: Session, workspace: Path
) -> None:
    for name in ("one.sh", "two.sh"):
        (workspace / name).write_text(SHOWN)
    (workspace / "link.sh").symlink_to("one.sh")
    call = await asking.start("shell", command="bash link.sh")
    ask = await asked(daemon, asking)
    (workspace / "link.sh").unlink()
    (workspace / "link.sh").symlink_to("two.sh")
    with pytest.raises(AskChanged, match=r"link\.sh"):
        await ask.decide(True)
    assert code(await result_of(call)) == "APPROVAL_MISMATCH"


async def test_a_script_that_stays_runs_and_a_no_needs_no_script(
    daemon: Daemon, asking: Session, workspace: Path
) -> None:
    (workspace / "run.sh").write_text(SHOWN)
    call = await asking.start("shell", command="bash run.sh")
    await (await asked(daemon, asking)).decide(True)
    result: Any = await result_of(call)
    assert result.value["stdout"] == "shown\n"
    call = await asking.start("shell", command="bash run.sh")
    ask = await asked(daemon, asking)
    (workspace / "run.sh").unlink()
    await ask.decide(False)
    assert code(await result_of(call)) == "APPROVAL_REJECTED"


async def test_a_script_that_is_changed_while_it_runs_gives_no_result(
    daemon: Daemon, asking: Session, workspace: Path
) -> None:
    (workspace / "run.sh").write_text(SHOWN + "mkfifo /tmp/never; cat /tmp/never\n")
    call = await asking.start("shell", command="bash run.sh")
    await (await asked(daemon, asking)).decide(True)
    async with call.output() as output:
        assert await anext(output) == b"shown\n"
    (workspace / "run.sh").write_text("echo other\n")
    await call.cancel()
    result = await result_of(call)
    assert code(result) == "APPROVAL_MISMATCH"
    assert result.value is None


@pytest_asyncio.fixture
async def named(workspace: Path, tmp_path: Path) -> AsyncIterator[tuple[Daemon, Session, Path]]:
    """A daemon with profiles and tools of an admin's."""
    profiles, tools = tmp_path / "profiles", tmp_path / "tools"
    profiles.mkdir()
    tools.mkdir()
    (profiles / "asking.toml").write_text(ASKING)
    (tools / "greet.toml").write_text(TOOL)
    configuration = tmp_path / "stockade.toml"
    configuration.write_text(f'[profiles]\npaths = ["{profiles}"]\n[tools]\npaths = ["{tools}"]\n')
    async with (
        local_daemon(config=configuration) as address,
        connect(address) as daemon,
        daemon.session(workspace, "asking") as session,
    ):
        yield daemon, session, tmp_path


async def change_profile(daemon: Daemon, place: Path) -> None:
    with (place / "profiles" / "asking.toml").open("a") as profile:
        profile.write("# another\n")


async def deny_commands(daemon: Daemon, place: Path) -> None:
    path = place / "profiles" / "asking.toml"
    path.write_text(path.read_text().replace('commands = "ask"', 'commands = "deny"'))


@pytest.mark.parametrize("change", [change_profile, deny_commands])
async def test_a_profile_that_changes_while_somebody_is_asked_voids_the_ask(
    named: tuple[Daemon, Session, Path], change: Callable[[Daemon, Path], Awaitable[None]]
) -> None:
    daemon, session, place = named
    call = await session.start("shell", command="echo never")
    ask = await asked(daemon, session)
    assert len(str(ask.card["tool_digest"])) == len(str(ask.card["profile_digest"])) == 64
    await change(daemon, place)
    with pytest.raises(AskChanged, match="profile asking"):
        await ask.decide(True)
    assert code(await result_of(call)) == "APPROVAL_MISMATCH"


async def test_a_tool_that_changes_while_somebody_is_asked_voids_the_ask(named: tuple[Daemon, Session, Path]) -> None:
    daemon, session, place = named
    call = await session.start("greet")
    ask = await asked(daemon, session)
    (place / "tools" / "greet.toml").write_text(TOOL.replace("hello", "goodbye"))
    async with asyncio.timeout(HANG_S), session.events(follow=True) as events:
        async for event in events:
            if event.type == "catalog/changed":
                break
    with pytest.raises(AskChanged, match="the tool greet has changed"):
        await ask.decide(True)
    assert code(await result_of(call)) == "APPROVAL_MISMATCH"


async def test_what_hides_in_arguments_is_bound_as_it_is_and_can_be_seen(daemon: Daemon, asking: Session) -> None:
    command = "echo ok \u202e# mr\n\n\n\ntouch P\r\x1b[2K" + " " * 500 + "x"
    call = await asking.start("shell", command=command)
    ask = await asked(daemon, asking)
    arguments, lengths = ask.card["arguments"], ask.card["lengths"]
    assert arguments == {"command": command}
    assert lengths == {"command": {"characters": len(command), "lines": 5}}
    title = str(ask.card["title"])
    assert title == visible(title)
    assert "touch P" in title
    assert "\n" not in title
    shown = visible(json.dumps(ask.card, ensure_ascii=False))
    assert all(hidden not in shown for hidden in "\u202e\x1b\r")
    await ask.decide(False)
    assert code(await result_of(call)) == "APPROVAL_REJECTED"
