"""Tools that wait for a file to be filled, so that a test says when a body ends; and what events say of calls."""

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Final

from stockade.v1 import calls_pb2
from stockade_client import connect
from stockade_client.link import Link, opened
from stockade_client.results import CallResult
from stockade_client.session import Session
from stockade_client.values import Event
from tests.tools.shop import Shop, open_shop, yes

FILES: Final = ("first", "never", "x", "x0", "x1", "x2", "y")
HANG_S: Final = 60.0  # a hang detector
_WAITS: Final = """
description = "Waits until there is something in a file."
access = "read"
kind = "read"
parallel_safe = {safe}
[program]
argv = ["sh", "-c", 'until [ -s "$0" ]; do sleep 0.01; done; echo seen', "./{{file}}"]
[arguments]
file = {{type = "string", description = "Its name."}}
"""
TOOLS: Final = {"beside.toml": _WAITS.format(safe="true"), "alone.toml": _WAITS.format(safe="false")}


@asynccontextmanager
async def served(place: Path) -> AsyncIterator[str]:
    """The address of a daemon that has these tools, in `place`."""
    async with open_shop(place, TOOLS) as shop:
        yield shop.address


@asynccontextmanager
async def a_shop(address: str, place: Path, *, profile: str = "dev") -> AsyncIterator[tuple[Shop, Link]]:
    """A session of a test's own, on a workspace of its own in `place`."""
    workspace = place / "own"
    await asyncio.to_thread(workspace.mkdir)
    (workspace / "a.txt").write_text("one two\ntwo\n")
    for file in FILES:
        (workspace / file).touch()  # a view may remember that there was no file, but not that it was empty
    async with (
        asyncio.timeout(HANG_S),
        connect(address) as daemon,
        daemon.session(workspace=workspace, profile=profile, approve=yes) as session,
        opened(address, None) as link,
    ):
        yield Shop(place, workspace, session, address), link


def request(
    session: Session, *calls: tuple[str, str], turn: str = "t", wait_s: float = 0
) -> calls_pb2.StartTurnRequest:
    """A turn of (tool, argument text) whose calls are c0, c1, c2 …"""
    return calls_pb2.StartTurnRequest(
        session_id=session.session_id,
        turn_id=turn,
        wait_s=wait_s,
        calls=[
            calls_pb2.TurnCall(call_id=f"c{number}", tool=tool, arguments=text.encode())
            for number, (tool, text) in enumerate(calls)
        ],
    )


def beside(file: str) -> tuple[str, str]:
    return "beside", f'{{"file": "{file}"}}'


def alone(file: str) -> tuple[str, str]:
    return "alone", f'{{"file": "{file}"}}'


async def until(session: Session, type: str, *calls: str) -> list[Event]:
    """The events up to the one that makes it one of `type` for each of the calls."""
    left, seen = set(calls), []
    async with session.events(follow=True) as events:
        async for event in events:
            seen.append(event)
            if event.type == type:
                left.discard(event.call_id)
            if not left:
                return seen
    raise AssertionError(f"the session ended without {type} of {left}")


async def story(session: Session, *types: str) -> list[str]:
    """`TYPE CALL` of the events of these types, in order."""
    async with session.events() as events:
        return [f"{event.type} {event.call_id}" async for event in events if event.type in types]


def codes(results: Sequence[CallResult]) -> list[str]:
    return [result.error.code if result.error else "ok" for result in results]


def states(turn: calls_pb2.Turn) -> list[str]:
    """Of each call: its error code, ok, or that it is not settled."""
    return ["under way" if not each.HasField("result") else each.result.error.code or "ok" for each in turn.calls]
