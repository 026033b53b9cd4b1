"""Calling a probe as a process: bare, or behind a command prefix such as `stockade exec … --`."""

import contextlib
import os
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final, Protocol

from tests.conformance.planting import OWN, Plant, groups
from tests.conformance.probes import Probe
from tests.conformance.processes import end_those_with, host_uids

PYTHON: Final = os.path.realpath(getattr(sys, "_base_executable", sys.executable))
LIMIT_S: Final = 25  # no probe takes that long under a profile whose wall limit is 4 s
_EOF_WAIT_S: Final = 12
_KEPT: Final = 1 << 20  # bytes of output; of a flood only the end matters, where the verdict stands
_UID_WATCH_S: Final = 4
# Becomes the leader of a session whose terminal is standard input, then the program.
WITH_TERMINAL: Final = (
    "import fcntl,os,sys,termios;os.setsid();fcntl.ioctl(0,termios.TIOCSCTTY,0);os.execvp(sys.argv[1],sys.argv[1:])"
)


@dataclass(slots=True)
class Ended:
    """How a call ended, as the host saw it."""

    code: int | None  # negative: the signal; None: unknown
    out: str
    err: str
    received: int = 0  # bytes of stdout that reached us
    late: bool = False  # the runner had to end it
    eof_s: float = 0.0  # from the end of the process to the end of its output
    seconds: float = 0.0
    uids: list[int] = field(default_factory=list)  # on the host, where somebody asked


class Door(Protocol):
    """One way into the product."""

    name: str
    output_cap: int  # bytes of stdout that may come back

    def call(self, program: str, probe: Probe) -> Ended:
        """Runs a filled-in program. Called from several threads."""
        raise NotImplementedError


class ProcessDoor:
    """Probes as processes behind a prefix; with no prefix this is the control run."""

    def __init__(self, name: str, plant: Plant, prefix: Sequence[str], start: "Start", *, output_cap: int) -> None:
        self.name = name
        self.output_cap = output_cap
        self._plant = plant
        self._prefix = list(prefix)
        self._start = start
        self._numbers = iter(range(10**9))

    def call(self, program: str, probe: Probe) -> Ended:
        # A name of its own for each call: an overlay that is already made may not see a file that was replaced.
        script = self._plant.workspace / f"{OWN}{self.name}-{next(self._numbers)}.py"
        script.write_text(program)
        script.chmod(0o644)
        try:
            return self._run([*self._prefix, PYTHON, str(script)], script, probe)
        finally:
            script.unlink(missing_ok=True)

    def _run(self, command: list[str], script: Path, probe: Probe) -> Ended:
        begun = time.monotonic()
        with terminal() if probe.pty else nothing() as standard_input:
            out, err = _Drain(), _Drain()
            process = self._start(command, (standard_input, out.inner, err.inner), probe.pty)
            out.start()
            err.start()
            uids: list[int] = []
            watch = threading.Thread(target=_watch_uids, args=(str(script), uids), daemon=True)
            if probe.host_check.startswith("hostuid"):
                watch.start()
            late = False
            try:
                code = process.wait(LIMIT_S)
            except subprocess.TimeoutExpired:
                late = True
                process.kill()
                code = process.wait()
        ended = time.monotonic()
        out.join(_EOF_WAIT_S)
        eof_s = (out.ended or time.monotonic()) - ended
        if late or out.is_alive():
            end_those_with(str(script), self._plant.orphan())
        out.join(3)
        err.join(1)
        return Ended(
            code=code,
            out=out.text,
            err=err.text,
            received=out.received,
            late=late,
            eof_s=eof_s,
            seconds=time.monotonic() - begun,
            uids=uids,
        )


class Process(Protocol):
    """What subprocess.Popen and warm.Command have in common."""

    def wait(self, timeout: float | None = None) -> int:
        """The exit status. Raises subprocess.TimeoutExpired."""
        raise NotImplementedError

    def kill(self) -> None:
        raise NotImplementedError


# Starts a command with descriptors 0 to 2; the last says whether 0 is to be its controlling terminal.
Start = Callable[[list[str], tuple[int, int, int], bool], Process]


def carelessly(plant: Plant, environment: dict[str, str]) -> Start:
    """Starts a command as the worst of launchers would: with everything that the plant has to pass on."""

    def start(command: list[str], descriptors: tuple[int, int, int], with_terminal: bool) -> Process:
        return subprocess.Popen(
            [sys.executable, "-c", WITH_TERMINAL, *command] if with_terminal else command,
            stdin=descriptors[0],
            stdout=descriptors[1],
            stderr=descriptors[2],
            env=environment,
            cwd=plant.canary,
            umask=0,
            pass_fds=plant.inherited,
            extra_groups=groups(),
        )

    return start


class _Drain(threading.Thread):
    """A pipe, read to its end in a thread and then closed. `inner` is for the process and closed by `start`."""

    def __init__(self) -> None:
        super().__init__(daemon=True)
        self._outer, self.inner = os.pipe2(os.O_CLOEXEC)
        self._kept = bytearray()
        self.received = 0
        self.ended: float | None = None  # on the monotonic clock

    def start(self) -> None:
        os.close(self.inner)
        super().start()

    def run(self) -> None:
        try:
            while data := os.read(self._outer, 1 << 16):
                self.received += len(data)
                self._kept += data
                if len(self._kept) > _KEPT:
                    del self._kept[: len(self._kept) - 4096]
        finally:
            os.close(self._outer)
        self.ended = time.monotonic()

    @property
    def text(self) -> str:
        return self._kept.decode("utf-8", "replace")


def _watch_uids(script: str, found: list[int]) -> None:
    pause = threading.Event()
    for _ in range(_UID_WATCH_S * 10):
        pause.wait(0.1)
        found[:] = host_uids(script)
        if found:
            return


@contextlib.contextmanager
def nothing() -> Iterator[int]:
    """Standard input for those that get none."""
    descriptor = os.open(os.devnull, os.O_RDONLY | os.O_CLOEXEC)
    try:
        yield descriptor
    finally:
        os.close(descriptor)


@contextlib.contextmanager
def terminal() -> Iterator[int]:
    """A new pseudo terminal; gives the end that a program gets."""
    master, slave = os.openpty()
    try:
        yield slave
    finally:
        os.close(slave)
        os.close(master)
