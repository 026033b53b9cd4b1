"""A daemon as an admin starts it, for tests in which it goes away."""

import asyncio
import contextlib
import signal
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path


class Served:
    """`stockaded serve` as an admin starts it, killed and started again at the same socket."""

    def __init__(self, directory: Path, workspace: Path) -> None:
        self._directory = directory
        self._config = directory / "stockade.toml"
        self._config.write_text(f'[daemon]\nworkspaces = ["{workspace}"]\n')
        self.address = f"unix:{directory}/daemon.sock"

    async def started(self, log: int = asyncio.subprocess.DEVNULL) -> asyncio.subprocess.Process:
        """Returns when it listens. `log`: where its standard error goes."""
        process = await asyncio.create_subprocess_exec(
            *(sys.executable, "-P", "-m", "stockade_daemon", "serve"),
            *("--config", str(self._config)),
            *("--socket", str(self._directory / "daemon.sock")),
            *("--state", str(self._directory / "state")),
            stdout=asyncio.subprocess.PIPE,
            stderr=log,
        )
        assert process.stdout is not None
        assert (await process.stdout.readline()).startswith(b"ready ")
        return process


@asynccontextmanager
async def running(
    served: Served, log: int = asyncio.subprocess.DEVNULL
) -> AsyncIterator[list[asyncio.subprocess.Process]]:
    """The processes started so far; the last one runs, and is stopped at the end."""
    processes = [await served.started(log)]
    try:
        yield processes
    finally:
        for process in processes:
            with contextlib.suppress(ProcessLookupError):
                process.send_signal(signal.SIGTERM)
            await process.wait()
