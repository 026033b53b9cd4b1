"""Broker probes ask the daemon itself. This adapter speaks its public interface for them.

    B.call(tool, arguments, env, cwd, token) → dict     echo, cat, pwd, read
    B.raw(bytes, close) → bytes or None                  bytes as nobody should send them
    B.frame(tool, arguments, nonce) → bytes              a request, to be sent by raw
    B.body(code) → dict                                  a body that runs Python
    B.read(path) → bytes, B.listing() → names            what a collector hands out
    B.tokens                                             what tells sessions apart

What a body did to its private view is discarded, so nothing would be left to collect: where a body changed something,
`body` does the same on the host, in the workspace, as if it had been committed.
"""

import contextlib
import json
import os
import shutil
import socket
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

from stockade_client import CallResult, Daemon, StockadeError
from stockade_client.session import Session
from stockade_client.visible import one_line
from tests.conformance.calling import PYTHON
from tests.conformance.daemon import PROFILE, daemon
from tests.conformance.function_door import Loop, client
from tests.conformance.judging import Verdict
from tests.conformance.planting import Plant
from tests.conformance.probes import Probe

_FRAME: Final = b"stockade-call "  # marks what `frame` makes: a request of the public protocol, as JSON
_ANSWER_S: Final = 5.0
_WIDTH: Final = 4096  # characters of a name as a person is shown it: all of them


class Broker:
    """One probe's adapter: two sessions, the first on the probe's workspace."""

    def __init__(self, loop: Loop, address: str, sessions: tuple[Session, Session]) -> None:
        self._loop = loop
        self._address = address
        self._sessions = {session.session_id: session for session in sessions}
        self.tokens = [session.session_id for session in sessions]
        self._workspace = sessions[0].info.workspace
        self._listing: list[str] = []

    def call(
        self,
        tool: str,
        arguments: dict[str, Any],
        env: dict[str, str] | None = None,
        cwd: str | None = None,
        token: str | None = None,
    ) -> dict[str, Any]:
        session = self._sessions[self.tokens[0] if token is None else token]
        name, given = _ours(tool, arguments)
        if env:
            given["env"] = env
        if cwd is not None:
            given["cwd"] = cwd
        return _as_answer(self._loop.run(session.call(name, **given)))

    def body(self, code: str) -> dict[str, Any]:
        result = self._loop.run(self._sessions[self.tokens[0]].call("shell", argv=[PYTHON, "-c", code]))
        effects = result.field("effects")
        if isinstance(effects, list) and effects:
            self._listing = [one_line(str(each["path"]), _WIDTH) for each in effects if isinstance(each, dict)]
            subprocess.run([PYTHON, "-c", code], cwd=self._workspace, check=False)
        return _as_answer(result)

    def read(self, path: str) -> bytes:
        result = self._loop.run(self._sessions[self.tokens[0]].call("read", path=path))
        if result.error is not None:
            raise PermissionError(str(result.error))
        return result.text.encode()

    def listing(self) -> list[str]:
        """What a person is shown of the names that the last body changed."""
        return self._listing

    def frame(self, tool: str, arguments: dict[str, Any], nonce: str) -> bytes:
        name, given = _ours(tool, arguments)
        return _FRAME + json.dumps({"id": nonce, "tool": name, "arguments": given}).encode()

    def raw(self, data: bytes, close: bool = True) -> bytes | None:
        """Sends bytes to the daemon's socket, and the same bytes as the arguments of a call. A made frame is sent as
        the request that it is, and its answer says whether the body ran for it."""
        if data.startswith(_FRAME):
            return self._sent(json.loads(data.removeprefix(_FRAME)))
        answer = self._to_the_socket(data, close=close)
        with contextlib.suppress(StockadeError):
            result = self._loop.run(self._sessions[self.tokens[0]].call_json("shell", data))
            answer = (answer or b"") + json.dumps({"ok": result.ok}).encode()
        return answer

    def _sent(self, request: dict[str, Any]) -> bytes:
        session = self._sessions[self.tokens[0]]
        text = json.dumps(request["arguments"]).encode()

        async def dispatched() -> int:
            async with session.events(call_id=request["id"]) as events:
                return len([event async for event in events if event.type == "call/dispatched"])

        before = self._loop.run(dispatched())
        self._loop.run(session.call_json(request["tool"], text, call_id=request["id"]))
        return json.dumps({"ok": self._loop.run(dispatched()) > before}).encode()

    def _to_the_socket(self, data: bytes, *, close: bool) -> bytes | None:
        end = socket.socket(socket.AF_UNIX)
        try:
            end.settimeout(_ANSWER_S)
            end.connect(self._address.removeprefix("unix:"))
            end.sendall(data)
            end.shutdown(socket.SHUT_WR)
            return end.recv(4096)
        except OSError:
            return None
        finally:
            if close:
                end.close()
            else:
                _LEFT_OPEN.append(end)


_LEFT_OPEN: Final[list[socket.socket]] = []  # connections with half a frame, closed when their probe is done


def _ours(tool: str, arguments: dict[str, Any]) -> tuple[str, dict[str, Any]]:
    """A tool that the probes know, in ours."""
    match tool:
        case "echo":
            return "shell", {"argv": ["echo", str(arguments["text"])]}
        case "pwd":
            return "shell", {"argv": ["pwd"]}
        case "cat" | "read":
            return "read", {"path": arguments["path"]}
        case other:
            raise ValueError(f"no tool is called {other}")


def _as_answer(result: CallResult) -> dict[str, Any]:
    answer: dict[str, Any] = {"ok": result.ok, "error": str(result.error or "")}
    answer["stdout"] = result.field("stdout") or ""
    answer["result"] = result.field("stdout") if result.tool == "shell" else result.text
    return answer


class BrokerDoor:
    """Asks broker probes, each with sessions and workspaces of its own."""

    def __init__(self, plant: Plant, loop: Loop, connected: Daemon, address: str) -> None:
        self._plant = plant
        self._loop = loop
        self._daemon = connected
        self._address = address

    def ask(self, probe: Probe) -> Verdict:
        with contextlib.ExitStack() as stack:
            workspaces = [Path(tempfile.mkdtemp(prefix="bw-", dir=self._plant.base)) for _ in range(2)]
            for workspace in workspaces:
                stack.callback(_remove, workspace)
            first, second = (
                stack.enter_context(self._loop.entered(self._daemon.session(workspace=str(each), profile=PROFILE)))
                for each in workspaces
            )
            stack.callback(_close_left_open)
            stack.callback(self._plant.reset_secret)
            broker = Broker(self._loop, self._address, (first, second))
            names = {
                "B": broker,
                "os": os,
                "WS": str(workspaces[0]),
                "CANARY_FILE": str(self._plant.secret),
                "TOKEN": self._plant.token,
            }
            try:
                exec(compile(probe.program, probe.id, "exec"), names)
            except SystemExit as said:
                word, _, why = str(said.code).partition(" ")
                return Verdict("HELD" if word == "HELD" else "BROKEN", why)
            return Verdict("ERROR", "no verdict")


def _close_left_open() -> None:
    while _LEFT_OPEN:
        _LEFT_OPEN.pop().close()


def _remove(workspace: Path) -> None:
    # A probe nests directories deeper than a path can name.
    subprocess.run(["rm", "-rf", str(workspace)], check=False)
    shutil.rmtree(workspace, ignore_errors=True)


@contextlib.contextmanager
def broker_door(plant: Plant, profile: str) -> Iterator[BrokerDoor]:
    with daemon(plant, profile) as running, client(running.address) as (loop, connected):
        yield BrokerDoor(plant, loop, connected, running.address)
