"""Clients that go on working whatever is killed: each marks its own file, one line for each edit."""

import asyncio
import json
import random
from collections import Counter
from contextlib import AbstractAsyncContextManager, suppress
from pathlib import Path
from typing import Final

from stockade_client import Call, Daemon, NoAnswer, NoDaemon, connect
from stockade_client.errors import NotPossible
from stockade_client.results import CallResult
from stockade_client.session import Session
from stockade_client.turns import Turn

END: Final = "the end\n"


class Job:
    """One client in a session of its own, which it goes on with at every daemon."""

    def __init__(
        self, number: int, address: str, workspace: Path, profile: str, seed: str, there: asyncio.Event
    ) -> None:
        self.session_id = f"session-{number}"
        self.file = f"file-{number}.txt"
        self.told: dict[str, str] = {}  # what the client was told of each call: a code, or ok
        self.marks: set[str] = set()  # ids of edits
        self._address = address
        self._there = there  # set while there is a daemon
        self._workspace = workspace
        self._profile = profile
        self._chance = random.Random(f"{seed}/{number}")
        self._count = 0
        (workspace / self.file).write_text(END)

    async def work(self, stopped: asyncio.Event) -> None:
        """Calls until it is told to stop; a call that was begun is brought to its result."""
        while not stopped.is_set():
            wanted = self._drawn()
            done = False
            while not done:
                await self._there.wait()
                with suppress(NoDaemon, NoAnswer, NotPossible):  # it was killed, or is about to end
                    async with connect(self._address) as daemon, self._session(daemon) as session:
                        await self._work(session, wanted, stopped)
                        done = True

    def _session(self, daemon: Daemon) -> AbstractAsyncContextManager[Session]:
        return daemon.session(self._workspace, self._profile, id=self.session_id, approve=yes)

    async def _work(self, session: Session, wanted: list[tuple[str, str, bytes]], stopped: asyncio.Event) -> None:
        await self._bring(session, wanted)
        while not stopped.is_set():
            wanted[:] = self._drawn()  # the caller's: a step that is cut off is begun again with the same ids
            await self._bring(session, wanted)

    async def _bring(self, session: Session, wanted: list[tuple[str, str, bytes]]) -> None:
        """A step to its results: as a turn, or one call after the other."""
        if wanted[0][0].endswith("-turn"):
            link = session._link
            calls = [(Call(link, session.session_id, call_id, tool), text) for call_id, tool, text in wanted]
            turn = Turn(link, session.session_id, calls, turn_id=wanted[0][0])
            for result in await turn.results():
                self.told[result.call_id] = code(result)
            return
        for call_id, tool, arguments in wanted:
            if call_id not in self.told:
                result = await session.call_json(tool, arguments, call_id=call_id)
                self.told[call_id] = code(result)

    def _drawn(self) -> list[tuple[str, str, bytes]]:
        kind = self._chance.choice(("edit", "edit", "read", "shell", "turn", "turn"))
        self._count += 1
        name = f"{kind}-{self._count}"
        read = (f"{name}-read", "read", dump({"path": self.file}))
        if kind == "shell":
            return [(name, "shell", dump({"command": f"echo {name} >> {self.file}; cat {self.file}"}))]
        if kind == "read":
            return [read]
        self.marks.add(name)
        edit = (name, "edit", dump({"path": self.file, "old_string": END, "new_string": f"{name}\n{END}"}))
        if kind == "edit":
            return [read, edit]
        reads = [(f"{name}-{number}-turn", "read", dump({"path": self.file})) for number in range(3)]
        return [*reads, edit, (f"{name}-shell", "shell", dump({"command": "true"})), read]


def dump(arguments: dict[str, str]) -> bytes:
    return json.dumps(arguments).encode()


def code(result: CallResult) -> str:
    return result.error.code if result.error else "ok"


async def yes(ask: object) -> bool:
    return True


async def load(jobs: list[Job], stopped: asyncio.Event) -> None:
    async with asyncio.TaskGroup() as working:
        for job in jobs:
            working.create_task(job.work(stopped))


def told(jobs: list[Job]) -> Counter[str]:
    return Counter(code for job in jobs for code in job.told.values())
