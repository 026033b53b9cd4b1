"""Daemons for cases: one that most share, and one of its own for a case that changes or measures its daemon."""

import asyncio
import os
import signal
import sys
from collections.abc import AsyncIterator, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from stockade_client import Daemon, connect

ROOT: Final = Path(__file__).parents[3]
_END_S: Final = 30.0


@dataclass(slots=True)
class CaseDaemon:
    """`stockaded` as a process with a state directory of its own."""

    directory: Path
    workspaces: Path
    profiles: Path
    environment: Mapping[str, str] = field(default_factory=dict)
    umask: int = 0o022
    module: str = "stockade_daemon"
    process: asyncio.subprocess.Process | None = None

    @property
    def address(self) -> str:
        return f"unix:{self.directory}/run/d.sock"

    @property
    def pid(self) -> int:
        assert self.process is not None
        return self.process.pid

    @property
    def alive(self) -> bool:
        return self.process is not None and self.process.returncode is None

    async def start(self) -> None:
        """Raises RuntimeError with its log where it does not come to listen."""
        self.directory.mkdir(mode=0o700, exist_ok=True)
        configuration = self.directory / "stockade.toml"
        configuration.write_text(
            f'[daemon]\nworkspaces = ["{self.workspaces}"]\n[profiles]\npaths = ["{self.profiles}"]\n'
        )
        log = self.directory / "log"
        path = os.pathsep.join(filter(None, (str(ROOT), os.environ.get("PYTHONPATH"))))
        with log.open("ab") as errors:
            self.process = await asyncio.create_subprocess_exec(
                sys.executable, "-m", self.module, "serve",
                "--socket", self.address.removeprefix("unix:"),
                "--state", str(self.directory / "state"),
                "--config", str(configuration),
                stdin=asyncio.subprocess.DEVNULL,
                stdout=asyncio.subprocess.PIPE,
                stderr=errors,
                env={**os.environ, **self.environment, "PYTHONPATH": path},
                umask=self.umask,
                start_new_session=True,
            )  # fmt: skip
        assert self.process.stdout is not None
        line = await self.process.stdout.readline()
        if line != f"ready {self.address}\n".encode():
            await self.stop()
            raise RuntimeError(f"the daemon did not start: {log.read_text(errors='replace')[-2000:]}")

    async def stop(self, number: signal.Signals = signal.SIGTERM) -> None:
        if self.process is None:
            return
        if self.process.returncode is None:
            self.process.send_signal(number)
            try:
                async with asyncio.timeout(_END_S):
                    await self.process.wait()
            except TimeoutError:
                self.process.kill()
                await self.process.wait()
        self.process = None


@asynccontextmanager
async def running(daemon: CaseDaemon) -> AsyncIterator[CaseDaemon]:
    """Runs it for as long as the block does; a restart within the block is the block's affair."""
    try:
        await daemon.start()
        yield daemon
    finally:
        await daemon.stop()


class Shared:
    """The daemon that most cases share, begun anew where a case has ended it. An async context manager."""

    def __init__(self, base: Path, profiles: Path) -> None:
        self._base, self._profiles = base, profiles
        self._number = 0
        self._starting = asyncio.Lock()
        self._owned = AsyncExitStack()
        self._daemon: CaseDaemon | None = None
        self._connection: Daemon | None = None

    async def __aenter__(self) -> "Shared":
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._owned.aclose()

    async def get(self) -> tuple[CaseDaemon, Daemon]:
        """One that runs, and a connection to it."""
        async with self._starting:
            if self._daemon is None or self._connection is None or not self._daemon.alive:
                await self._owned.aclose()
                self._number += 1
                self._daemon = CaseDaemon(self._base / f"daemon-{self._number}", self._base, self._profiles)
                await self._owned.enter_async_context(running(self._daemon))
                self._connection = await self._owned.enter_async_context(connect(self._daemon.address))
            return self._daemon, self._connection


def resident(pid: int, field_name: str = "VmRSS") -> int:
    """Bytes of memory of a process: VmRSS now, VmHWM at most so far (proc(5))."""
    for line in Path(f"/proc/{pid}/status").read_text().splitlines():
        name, _, value = line.partition(":")
        if name == field_name:
            return int(value.split()[0]) * 1024
    raise OSError(f"/proc/{pid}/status has no {field_name}")


def forget_peak(pid: int) -> None:
    """Has VmHWM begin again from now (proc(5), clear_refs)."""
    Path(f"/proc/{pid}/clear_refs").write_text("5")
