"""What happens in every round, phase by phase, through a connection that may end at any moment."""

import asyncio
from contextlib import AsyncExitStack
from pathlib import Path
from types import TracebackType
from typing import Final, Self

from stockade_client import Ask, Call, CallResult, Daemon, Event, Session, Stream, connect

PHASES: Final = (
    *("connect", "open", "attach", "call", "start", "ask", "decide", "result"),
    *("output", "turn", "cancel", "events", "close"),
)
EDIT: Final = "edit"  # the call's id
LINES: Final = 20_000
OUTPUT: Final = b"".join(b"%d\n" % number for number in range(1, LINES + 1))  # more than a message carries at once


class Story:
    """One session and its calls. `results` by the calls' ids, as the client gave them."""

    def __init__(self, address: str, workspace: Path, name: str) -> None:
        self._address = address
        self._workspace = workspace
        self._name = name
        self._stack = AsyncExitStack()
        self.results: dict[str, CallResult] = {}
        self.events: list[Event] = []
        self.output = b""
        self._daemon: Daemon
        self._session: Session
        self._asks: Stream[Ask]
        self._ask: Ask
        self._edit: Call

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self._stack.aclose()

    async def play(self, phase: str) -> None:
        """One phase; they come in the order of PHASES."""
        match phase:
            case "connect":
                self._daemon = await self._stack.enter_async_context(connect(self._address))
            case "open":
                opening = self._daemon.session(self._workspace, "cuts", id=self._name)
                self._session = await self._stack.enter_async_context(opening)
            case "attach":
                self._asks = await self._stack.enter_async_context(self._daemon.approvals(self._name))
            case "call":
                path = f'{{"path": "{self._name}.txt"}}'.encode()
                self.results["read"] = await self._session.call_json("read", path, call_id="read")
            case "start":
                arguments = {"path": f"{self._name}.txt", "old_string": "=", "new_string": "=x"}
                self._edit = await self._session.start("edit", EDIT, **arguments)
            case "ask":
                self._ask = await anext(self._asks)
            case "decide":
                assert (await self._ask.decide(True)).allow
            case "result":
                self.results[EDIT] = await self._edit.result()
            case "output":
                call = await self._session.start("shell", "output", command=f"seq {LINES}")
                async with call.output() as pieces:
                    self.output = b"".join([piece async for piece in pieces])
                self.results["output"] = await call.result()
            case "turn":
                texts = {"one": b'{"command": "date +%N"}', "two": b'{"command": "date +%s.%N; exit 3"}'}
                turn = await self._session.turn_json([("shell", text, id) for id, text in texts.items()])
                self.results |= dict(zip(texts, turn, strict=True))
            case "cancel":
                call = await self._session.start("shell", "cancel", command="echo begun; while :; do :; done")
                async with call.output() as pieces:
                    assert await anext(pieces) == b"begun\n"
                await call.cancel()
                self.results["cancel"] = await call.result()
            case "events":
                async with self._session.events() as recorded:
                    self.events = [event async for event in recorded]
            case "close":
                await self._session.close()
            case _:
                raise AssertionError(f"no phase {phase}")
        for call_id, result in self.results.items():
            # What was cut is the connection, so each call does what it was to do.
            code = "ABORTED" if call_id == "cancel" else None
            assert (result.error.code if result.error else None) == code, result
        await asyncio.sleep(0)  # what the phase left to the loop, before its bytes are counted
