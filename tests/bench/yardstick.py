"""The other side: what the same machine takes to run a program in bubblewrap, or just to run one.

bubblewrap is looked for as `bwrap` on the PATH and in $BWRAP, and gets what a careful user would give it: all
namespaces, a read-only root, private /dev, /proc and /tmp, no capabilities, and the two system-call filters that our
own workers of profile `strict` get. A small C launcher starts it, so a C compiler is needed, too.
"""

import asyncio
import os
import shutil
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from stockade_daemon.profiles import read as profiles
from stockade_daemon.sandbox import filters

SOURCE: Final = Path(__file__).with_name("launcher.c")
_ALLOW_FD, _ARGUMENTS_FD = 10, 11


class Missing(Exception):
    """What is not on this machine, as words of a report."""


@dataclass(frozen=True, slots=True)
class Runs:
    """What a row of runs took."""

    each_ms: tuple[float, ...]
    all_s: float


@dataclass(frozen=True, slots=True)
class Yardstick:
    launcher: Path
    bwrap: str | None  # its path
    version: str  # of it; why there is none where `bwrap` is None
    filters: tuple[Path, Path]

    async def bare(self, count: int, at_once: int, *argv: str) -> Runs:
        """Runs a program without any sandbox."""
        return await self._run(count, at_once, [], argv)

    async def sandboxed(self, count: int, at_once: int, *argv: str) -> Runs:
        """Runs a program in bubblewrap. Raises Missing without one."""
        if self.bwrap is None:
            raise Missing(self.version)
        given = [f"{path}:{fd}" for path, fd in zip(self.filters, (_ALLOW_FD, _ARGUMENTS_FD), strict=True)]
        return await self._run(count, at_once, given, [self.bwrap, *_arguments(), *argv])

    async def _run(self, count: int, at_once: int, given: Sequence[str], argv: Sequence[str]) -> Runs:
        process = await asyncio.create_subprocess_exec(
            *(str(self.launcher), str(count), str(at_once)), *given, "--", *argv, stdout=asyncio.subprocess.PIPE
        )
        try:
            out, _ = await process.communicate()
        except asyncio.CancelledError:
            if process.returncode is None:
                process.kill()
            await process.wait()
            raise
        if process.returncode != 0:
            raise Missing(f"{argv[0]} did not run (status {process.returncode})")
        *each, last = (int(line) for line in out.split())
        return Runs(tuple(nanoseconds / 1e6 for nanoseconds in each), last / 1e9)


def _arguments() -> list[str]:
    return [
        *("--unshare-all", "--die-with-parent", "--new-session", "--cap-drop", "ALL"),
        *("--ro-bind", "/", "/", "--dev", "/dev", "--proc", "/proc", "--tmpfs", "/tmp"),
        *("--add-seccomp-fd", str(_ALLOW_FD), "--add-seccomp-fd", str(_ARGUMENTS_FD), "--"),
    ]


def made(place: Path) -> Yardstick:
    """Compiles the launcher and the filters into `place`. Raises Missing without a C compiler."""
    compiler = shutil.which("cc") or shutil.which("gcc") or shutil.which("clang")
    if compiler is None:
        raise Missing("no C compiler, which the launcher needs")
    launcher = place / "launcher"
    subprocess.run([compiler, "-O2", "-Wall", "-o", str(launcher), str(SOURCE)], check=True)
    programs = filters.compiled(profiles.load("strict", directories=(profiles.shipped(),)).syscalls)
    paths = (place / "allow.bpf", place / "arguments.bpf")
    for path, program in zip(paths, (programs.allow, programs.arguments), strict=True):
        path.write_bytes(program)
    bwrap, version = _bwrap()
    return Yardstick(launcher, bwrap, version, paths)


def _bwrap() -> tuple[str | None, str]:
    found = os.environ.get("BWRAP") or shutil.which("bwrap")
    if found is None:
        return None, "bwrap is missing"
    try:
        done = subprocess.run([found, "--version"], capture_output=True, text=True, check=True)
        subprocess.run([found, "--unshare-all", "--ro-bind", "/", "/", "/bin/true"], capture_output=True, check=True)
    except (OSError, subprocess.CalledProcessError) as error:
        return None, f"bwrap does not run here ({error})"
    return found, done.stdout.strip()
