"""A daemon that is made to record almost every type of event, and what it recorded."""

import asyncio
import signal
from pathlib import Path

from stockade_client import Ask, Daemon, Event, connect
from stockade_client.session import Session
from tests.end_to_end.profile_admin import HANG_S, Admin
from tests.end_to_end.stockaded import Stockaded

# What only a stage of an admin's own makes.
NOT_HERE = frozenset({"call/arguments", "call/attempt", "call/profile", "context/message", "policy/execute"})

ASKING = 'extends = "dev"\n{more}\n'  # in which writes are asked about
TOOL = 'from stockade_toolkit import tool\n\n\n@tool\ndef words() -> str:\n    """Says a word."""\n    return "word"\n'


async def recorded(stockaded: Stockaded, workspace: Path) -> list[Event]:
    """All events of a session of a daemon that was killed in between."""
    admin = Admin.of(stockaded, stockaded.directory)
    tools = stockaded.directory / "tools"
    tools.mkdir(mode=0o755)
    stockaded.configuration.write_text(f'{stockaded.configuration.read_text()}[tools]\npaths = ["{tools}"]\n')
    admin.write("asking", ASKING.format(more=""))
    stockaded.start()
    async with (
        connect(stockaded.address) as daemon,
        daemon.session(workspace, "asking", id="first", approve=_yes, lease_s=3600) as session,
    ):
        await _calls(session, workspace)
        await _changes(session, admin, tools)
        await session.call("shell", command="exec sleep 60", background=True)
        (job,) = await session.jobs()
        await job.signal("SIGKILL")
        await job.result()
        await session.start("shell", call_id="cut-off", command="sleep 60")
        await _until(session, "call/dispatched", "cut-off")
        stockaded.end(signal.SIGKILL)
        stockaded.start()
        result = await daemon.resolve_unknown("first", "cut-off", "not-done", "looked")
        assert result.resolution is not None
        await session.close()
        return await _events(daemon, "first")


async def _yes(ask: Ask) -> bool:
    return True


async def _calls(session: Session, workspace: Path) -> None:
    assert (await session.call("read", path="a.txt")).ok
    assert not (await session.call("read", path="missing.txt")).ok
    assert (await session.call("edit", path="a.txt", old_string="two", new_string="2")).ok
    assert (await session.call("write", path="b.txt", content="new\n")).ok
    assert (await session.call("todo_write", todos=[{"content": "look", "status": "pending"}])).ok
    (workspace / "a.txt").write_text("somebody else's\n")
    await _until(session, "fs/changed")
    assert (await session.call("shell", command="echo out; echo err >&2; echo x > c.txt")).ok
    assert (await session.call("shell", command="head -c 200000 /dev/zero | tr '\\0' x")).ok
    assert not (await session.call("shell", wrong=1)).ok
    assert not (await session.call("nothing")).ok
    assert not (await session.call("shell", command="sleep 60", timeout_s=0.2)).ok
    assert not (await session.call_json("read", b'{"path": "\xff"}')).ok


async def _changes(session: Session, admin: Admin, tools: Path) -> None:
    (tools / "words.py").write_text("this is no Python\n")
    await _until(session, "catalog/refused")
    (tools / "words.py").write_text(TOOL)
    await _until(session, "catalog/changed")
    admin.write("asking", ASKING.format(more='description = "another"'))
    await _until(session, "session/profile")
    admin.write("asking", "nothing = 1\n")
    await _until(session, "profile/refused")


async def _until(session: Session, type: str, call_id: str = "") -> None:
    async with asyncio.timeout(HANG_S), session.events(follow=True, call_id=call_id) as events:
        async for event in events:
            if event.type == type:
                return


async def _events(daemon: Daemon, session_id: str) -> list[Event]:
    async with daemon.events(session_id) as events:
        return [event async for event in events]
