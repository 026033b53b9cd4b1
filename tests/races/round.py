"""One round: a call that asks, fifty answers to it, and something that is changed after it was shown."""

import asyncio
import random
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final, Literal

import grpc
from grpc import aio

from stockade.v1 import approvals_pb2
from stockade_client import Daemon, StockadeError
from stockade_client.approvals import Ask
from stockade_client.errors import AlreadyExists
from stockade_client.session import Session

ANSWERS: Final = 50
PHASES: Final = 3  # daemons, one after the other
CALL: Final = "c"
PROFILE: Final = '[approval]\nwrites = "ask"\ncommands = "ask"\nwait_s = 3600\n'
_ANSWER_S: Final = 30.0

Kind = Literal["command", "edit", "write"]


@dataclass(slots=True)
class Round:
    """What is done, and what was told."""

    number: int
    workspace: Path
    chance: random.Random
    kind: Kind = "command"
    ask: Ask | None = None
    mutated: str = ""
    said: dict[str, set[str]] = field(default_factory=dict)  # what each answer was told, by its decision id
    refused: set[str] = field(default_factory=set)  # answers to another card

    @property
    def session_id(self) -> str:
        return f"round-{self.number}"

    @property
    def file(self) -> Path:
        return self.workspace / ("new.txt" if self.kind == "write" else "a.txt")

    async def begin(self, daemon: Daemon) -> None:
        """Has the call made and the ask shown."""
        self.kind = self.chance.choice(("command", "edit", "write"))
        (self.workspace / "a.txt").write_text("one\ntwo\n")
        (self.workspace / "run.sh").write_text("echo shown\n")
        session = await _session(daemon, self)
        if self.kind == "edit":
            assert (await session.call("read", path="a.txt")).ok
        async with daemon.approvals(self.session_id) as asks:
            await session.start(self._tool, call_id=CALL, **self._arguments)
            self.ask = await anext(asks)

    async def answer(self, daemon: Daemon, numbers: Sequence[int]) -> None:
        """Gives some of the answers at once. One that is cut off has been told nothing, and is given again later."""
        mutating = self.chance.randrange(PHASES + 2) == 0 and not self.mutated
        waits = {number: self.chance.choice((0.0, 0.0, self.chance.random() / 50)) for number in numbers}
        async with asyncio.TaskGroup() as tasks:
            for number in numbers:
                tasks.create_task(self._one(daemon, number, waits[number]))
            if mutating:
                tasks.create_task(self._mutate(daemon))

    @property
    def unanswered(self) -> list[int]:
        return [number for number in range(ANSWERS) if f"d{number}" not in self.said]

    async def _one(self, daemon: Daemon, number: int, wait_s: float) -> None:
        assert self.ask is not None
        await _pause(wait_s)
        # Of each number the same, whichever daemon hears it.
        wrong, allow = number % 7 == 3, number % 3 != 1
        request = approvals_pb2.DecideRequest(
            ask_id=self.ask.ask_id,
            shown_hash="0" * 64 if wrong else self.ask.shown_hash,
            allow=allow,
            decision_id=f"d{number}",
        )
        try:
            await daemon._link.approvals.Decide(request, timeout=_ANSWER_S, metadata=daemon._link.metadata)
        except aio.AioRpcError as error:
            if error.code() in (grpc.StatusCode.UNAVAILABLE, grpc.StatusCode.CANCELLED):
                return
            trailing: Any = error.trailing_metadata() or ()
            code = dict(trailing).get("stockade-code", "") or error.code().name
            self.said.setdefault(f"d{number}", set()).add(str(code))
        else:
            self.said.setdefault(f"d{number}", set()).add("yes" if allow else "no")

    async def _mutate(self, daemon: Daemon) -> None:
        await _pause(self.chance.random() / 50)
        self.mutated = self.chance.choice(("file", "arguments"))
        if self.mutated == "file" and self.kind == "command":
            (self.workspace / "run.sh").write_text("echo other\n")
        elif self.mutated == "file":
            _replace(self.file, "somebody else's\n")
        else:
            try:
                session = await _session(daemon, self)
                other = {name: f"{text}x" for name, text in self._arguments.items()}
                await session.start(self._tool, call_id=CALL, **other)
            except AlreadyExists:
                return
            except StockadeError:
                self.mutated = "cut off"  # the daemon was killed; nothing was changed
                return
            self.said.setdefault("mutation", set()).add("other arguments were taken")

    @property
    def _tool(self) -> str:
        return {"command": "shell", "edit": "edit", "write": "write"}[self.kind]

    @property
    def _arguments(self) -> dict[str, str]:
        if self.kind == "command":
            return {"command": "bash run.sh"}
        if self.kind == "edit":
            return {"path": "a.txt", "old_string": "two", "new_string": "2"}
        return {"path": "new.txt", "content": "new\n"}


async def _session(daemon: Daemon, round_: Round) -> Session:
    """Opened, or taken up again; it stays open."""
    return await daemon.session(round_.workspace, "asking", id=round_.session_id).__aenter__()


async def _pause(seconds: float) -> None:
    """Lets others go first for so long."""
    gone = asyncio.Event()
    asyncio.get_running_loop().call_later(seconds, gone.set)
    await gone.wait()


def _replace(path: Path, text: str) -> None:
    """As an editor saves, by rename."""
    other = path.with_name("saved~")
    other.write_text(text)
    other.replace(path)
