"""A daemon of the bench's own: its address, its processes, the memory they take."""

import asyncio
import contextlib
import os
import signal
import sys
from collections.abc import AsyncIterator, Iterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).parents[2]


@dataclass(frozen=True, slots=True)
class Running:
    address: str
    pid: int
    place: Path  # its directory
    workspace: Path

    def memory(self, field: str = "VmRSS") -> int:
        """Bytes of a field of /proc/pid/status: VmRSS, or VmHWM, its peak since `forget_peak`."""
        for line in Path(f"/proc/{self.pid}/status").read_text().splitlines():
            name, _, rest = line.partition(":")
            if name == field:
                return int(rest.split()[0]) * 1024
        raise ValueError(field)

    def forget_peak(self) -> None:
        """Begins VmHWM anew (proc_pid_clear_refs(5))."""
        Path(f"/proc/{self.pid}/clear_refs").write_text("5")


@asynccontextmanager
async def running(
    place: Path,
    *,
    module: str = "stockade_daemon",
    profiles: Mapping[str, str] | None = None,
    environment: Mapping[str, str] | None = None,
) -> AsyncIterator[Running]:
    """Runs `module` as the daemon until the block ends. `profiles`: texts by name, beside the shipped ones.

    Raises RuntimeError with its log where it does not start.
    """
    own, workspace, state = place / "profiles", place / "workspace", place / "state"
    for directory in (own, workspace):
        directory.mkdir(parents=True, exist_ok=True)
    for name, text in (profiles or {}).items():
        (own / f"{name}.toml").write_text(text)
    configuration = place / "stockade.toml"
    configuration.write_text(f'[daemon]\nworkspaces = ["{place}"]\n[profiles]\npaths = ["{own}"]\n')
    socket, log = place / "run" / "d.sock", place / "log"
    with _lifeline() as lifeline, log.open("wb") as errors:
        process = await asyncio.create_subprocess_exec(
            *(sys.executable, "-P", "-m", module, "serve", "--lifeline", str(lifeline)),
            *("--socket", str(socket), "--state", str(state), "--config", str(configuration)),
            stdin=asyncio.subprocess.DEVNULL,
            stdout=asyncio.subprocess.PIPE,
            stderr=errors,
            env={**os.environ, "PYTHONPATH": str(ROOT), **(environment or {})},
            pass_fds=(lifeline,),
            # Ctrl-C at the terminal ends the bench, which then ends the daemon.
            start_new_session=True,
        )
        try:
            assert process.stdout is not None
            if await process.stdout.readline() != f"ready unix:{socket}\n".encode():
                raise RuntimeError(f"the daemon did not start: {log.read_text()}")
            yield Running(f"unix:{socket}", process.pid, place, workspace)
        finally:
            with contextlib.suppress(ProcessLookupError):
                process.send_signal(signal.SIGTERM)
            await asyncio.shield(process.wait())


@contextlib.contextmanager
def _lifeline() -> Iterator[int]:
    """The end of a pipe that a daemon reads: however the bench ends, the daemon notices."""
    reading, writing = os.pipe2(os.O_CLOEXEC)
    try:
        yield reading
    finally:
        os.close(writing)
        os.close(reading)


def descendants(pid: int) -> dict[int, str]:
    """Processes below one, each with its command line."""
    children: dict[int, list[int]] = {}
    for each in (int(name) for name in os.listdir("/proc") if name.isdecimal()):
        with contextlib.suppress(OSError):
            parent = int(Path(f"/proc/{each}/stat").read_text(errors="replace").rpartition(")")[2].split()[1])
            children.setdefault(parent, []).append(each)
    found: dict[int, str] = {}
    waiting = [pid]
    while waiting:
        for child in children.get(waiting.pop(), []):
            waiting.append(child)
            with contextlib.suppress(OSError):
                found[child] = Path(f"/proc/{child}/cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
    return found


def proportional(pid: int) -> int:
    """The process's proportional set size in bytes: its own pages, and its share of those that others map too.

    Raises OSError where this user may not look.
    """
    for line in Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines():
        if line.startswith("Pss:"):
            return int(line.split()[1]) * 1024
    raise OSError("smaps_rollup has no Pss")
