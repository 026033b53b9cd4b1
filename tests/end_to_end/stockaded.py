"""`stockaded` as a process, for tests that start, stop and kill it."""

import asyncio
import os
import signal
import subprocess
import sys
from pathlib import Path

COMMAND_S = 60  # a hang detector
SECRET = "correct-horse-battery-staple"  # in the environment of everything the tests start


class Stockaded:
    """A daemon process with a state directory of its own; `start` again after `kill` is a restart."""

    def __init__(self, directory: Path, *, workspaces: Path) -> None:
        self.directory = directory
        self.socket = directory / "run" / "daemon.sock"
        self.state = directory / "state"
        self.log = directory / "log"
        self.configuration = directory / "stockade.toml"
        # What a shared daemon of root may open.
        self.configuration.write_text(f'[daemon]\nworkspaces = ["{workspaces}"]\n')
        self.process: subprocess.Popen[bytes] | None = None

    @property
    def address(self) -> str:
        return f"unix:{self.socket}"

    @property
    def environment(self) -> dict[str, str]:
        return {**os.environ, "STOCKADE_ADDRESS": self.address, "A_SECRET": SECRET}

    @property
    def command(self) -> list[str]:
        where = ["--socket", str(self.socket), "--state", str(self.state), "--config", str(self.configuration)]
        return [sys.executable, "-m", "stockade_daemon", "serve", *where]

    def start(self) -> None:
        """Starts the daemon and waits for its ready line."""
        with self.log.open("ab") as log:
            self.process = subprocess.Popen(
                self.command, env=self.environment, stdout=subprocess.PIPE, stderr=log, start_new_session=True
            )
        assert self.process.stdout is not None
        line = self.process.stdout.readline()
        assert line == f"ready {self.address}\n".encode(), self.log.read_text()

    def end(self, number: signal.Signals = signal.SIGTERM) -> int:
        """Sends a signal and waits for the daemon's end; its exit status."""
        assert self.process is not None
        self.process.send_signal(number)
        status = self.process.wait(COMMAND_S)
        if self.process.stdout is not None:
            self.process.stdout.close()
        self.process = None
        return status


SLEEPER = f"sleep 6{os.getpid()}00"  # a command of this test process that ends when `woken` is called


async def woken() -> None:
    """Waits until SLEEPER runs, and ends it."""
    async with asyncio.timeout(COMMAND_S):
        while not (found := await asyncio.to_thread(running, SLEEPER.replace(" ", "\0"))):
            pass
    for pid in found:
        os.kill(pid, signal.SIGTERM)


def running(word: str) -> list[int]:
    """Pids of processes with `word` on their command line; zombies have none."""
    found = []
    for process in Path("/proc").iterdir():
        try:
            if process.name.isdigit() and word.encode() in (process / "cmdline").read_bytes():
                found.append(int(process.name))
        except OSError:
            continue  # it has ended meanwhile
    return found


def worker_of(pid: int) -> int | None:
    """The first process of the worker that this one is a child of, as the host numbers it; None where it is in none, or
    its worker is ending: then its parent is another one already."""
    try:
        parent = int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1])
        status = Path(f"/proc/{parent}/status").read_text().splitlines()
    except OSError:
        return None
    numbers = next((line.split()[1:] for line in status if line.startswith("NSpid:")), [])
    # A template is pid 1 of a namespace, and each worker of one in it.
    return parent if len(numbers) > 2 and numbers[-1] == "1" else None
