"""Built-in bodies at a real gate, without a process between: the real broker's frames are answered here."""

import asyncio
import importlib
from collections.abc import Mapping
from typing import Any

from stockade_daemon.errors import Refusal
from stockade_daemon.gate.gate import Gate, Opened
from stockade_daemon.gate.intents import EditIntent, WriteIntent
from stockade_daemon.gate.workspace import Workspace
from stockade_daemon.pipeline import wishes
from stockade_daemon.values import Json
from stockade_toolkit import Answer, ToolError
from stockade_worker.broker import Broker
from stockade_worker.frames import Frame


class Bodies(Broker):
    """One session's calls, one after the other. `runner` is the event loop that the gate works on."""

    def __init__(self, workspace: Workspace, runner: asyncio.Runner) -> None:
        self._gate = Gate(workspace)
        self._runner = runner
        self._opened: dict[str, Opened] = {}
        self._showed: list[tuple[str, int, int]] = []

    def call(self, tool: str, **arguments: Any) -> Answer:
        """What the tool answers. Raises ToolError: its own, or the gate's."""
        self._showed.clear()
        run = importlib.import_module(f"stockade_worker.tools.{tool}").run
        answer: Answer = run(arguments, self)
        for handle, first, last in self._showed:
            self._gate.showed(self._gate.part(handle, first=first, last=last))
        return answer

    def _ask(self, header: dict[str, object], blob: bytes = b"") -> Frame:
        try:
            return self._runner.run(self._answer(Frame(dict(header), blob)))
        except Refusal as refusal:
            raise ToolError(refusal.code, refusal.message) from refusal

    async def _answer(self, frame: Frame) -> Frame:
        match frame.type:
            case "open":
                path, for_edit = wishes.opened_for(frame)
                opened = await self._gate.read(path, editing=for_edit)
                self._opened[opened.handle] = opened
                found = {name: getattr(opened, name) for name in ("handle", "digest", "size")}
                return Frame(found | wishes.name(opened.real), b"", (opened.descriptor,))
            case "showed":
                self._showed.append((frame.header["handle"], frame.header["first"], frame.header["last"]))
                return Frame({"type": "noted"})
            case "image":
                return Frame({"type": "noted"})
            case "edit-intent":
                base = self._opened[frame.header["handle"]]
                return await self._change(EditIntent(base.asked, base.real, base.digest, wishes.spans(frame)))
            case "write-intent":
                return await self._change(wishes.write(frame))
        raise AssertionError(f"no answer to {frame.type}")

    async def _change(self, intent: EditIntent | WriteIntent) -> Frame:
        planned = await self._gate.decide(intent)
        done = await self._gate.commit(planned, begun=_recorded)
        return Frame(dict(wishes.committed(done, planned)))


async def _recorded(body: Mapping[str, Json]) -> None:
    """Nothing outlives these calls."""
