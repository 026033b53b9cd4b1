"""A daemon of the campaign's own, with its profiles, and how much memory it takes while a block runs."""

import asyncio
import signal
import tempfile
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from stockade_client import Daemon, connect
from stockade_daemon.removing import remove_tree
from tests.end_to_end.proxy import Proxy, between
from tests.end_to_end.stockaded import Stockaded

_LOOK_S: Final = 0.02  # between two looks at the memory
_FLOOD: Final = """extends = "dev"
widen = ["limits.output_mb", "approval.effects"]
approval.effects = "discard"
limits.output_mb = {kept_mb}
limits.output_past = "{past}"
"""


@dataclass(slots=True)
class Report:
    """What came of it: `faults` is empty where all holds."""

    faults: list[str] = field(default_factory=list)
    figures: list[str] = field(default_factory=list)
    told: Callable[[str], None] = print

    def say(self, line: str) -> None:
        self.figures.append(line)
        self.told(line)


@dataclass(frozen=True, slots=True)
class Place:
    """A running daemon, asked directly, and one more way to it that a proxy may cut."""

    stockaded: Stockaded
    daemon: Daemon
    proxy: Proxy
    workspace: Path

    @property
    def pid(self) -> int:
        assert self.stockaded.process is not None
        return self.stockaded.process.pid


@asynccontextmanager
async def flooded(*, whole_mb: int, limit_mb: int) -> AsyncIterator[Place]:
    """Profiles: `whole` keeps `whole_mb` of a stream, `truncate` and `stop` keep `limit_mb`."""
    directory = Path(tempfile.mkdtemp(prefix="floods-"))
    workspace, profiles = directory / "workspace", directory / "profiles"
    for each in (workspace, profiles):
        each.mkdir()
    for name, past, kept_mb in (
        ("whole", "truncate", whole_mb),
        ("truncate", "truncate", limit_mb),
        ("stop", "stop", limit_mb),
    ):
        (profiles / f"{name}.toml").write_text(_FLOOD.format(past=past, kept_mb=kept_mb))
    stockaded = Stockaded(directory, workspaces=workspace)
    with stockaded.configuration.open("a") as configuration:
        configuration.write(f'[profiles]\npaths = ["{profiles}"]\n')
    try:
        await asyncio.to_thread(stockaded.start)
        async with (
            between(stockaded.socket, directory / "p.sock") as proxy,
            connect(stockaded.address) as daemon,
        ):
            yield Place(stockaded, daemon, proxy, workspace)
    finally:
        if stockaded.process is not None:
            await asyncio.to_thread(stockaded.end, signal.SIGTERM)
        remove_tree(directory)


def resident(pid: int) -> int:
    """Bytes (VmRSS of proc_pid_status(5))."""
    for line in Path(f"/proc/{pid}/status").read_text().splitlines():
        if line.startswith("VmRSS:"):
            return int(line.split()[1]) * 1024
    raise ValueError("a process without memory")


class Memory:
    """Made by `watched`, and looked at again and again while that runs."""

    def __init__(self, pid: int) -> None:
        self._pid = pid
        self.before = self.most = resident(pid)
        self.looks = 0

    @property
    def grown(self) -> int:
        """Bytes, at its highest."""
        return self.most - self.before

    def __str__(self) -> str:
        mb = 1 << 20
        return (
            f"RSS {self.before / mb:.1f} MiB before, {self.most / mb:.1f} at its highest: grew by "
            f"{self.grown / mb:.1f} ({self.looks} looks)"
        )

    def look(self) -> None:
        self.most = max(self.most, resident(self._pid))
        self.looks += 1


@contextmanager
def watched(pid: int) -> Iterator[Memory]:
    """Its memory, compared with what it was when the block began."""
    memory, loop = Memory(pid), asyncio.get_running_loop()
    due: asyncio.TimerHandle

    def tick() -> None:
        nonlocal due
        memory.look()
        due = loop.call_later(_LOOK_S, tick)

    due = loop.call_later(_LOOK_S, tick)
    try:
        yield memory
    finally:
        due.cancel()
        memory.look()
