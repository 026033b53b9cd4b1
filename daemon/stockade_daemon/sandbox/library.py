"""Where the code that runs inside lies, and the interpreter that runs it."""

import functools
import importlib.metadata
import importlib.util
import os
import shlex
import sys
from pathlib import Path
from typing import Final

RIPGREP: Final = "ripgrep>=14.1,<15"  # the distribution whose program `grep` and `glob` run, as the package asks for it


@functools.cache
def executable() -> str:
    """The interpreter beneath the daemon's virtual environment, links resolved."""
    return os.path.realpath(getattr(sys, "_base_executable", sys.executable))


@functools.cache
def trees() -> tuple[str, ...]:
    """The directory trees that this interpreter needs: its prefixes."""
    return tuple(sorted({os.path.realpath(sys.base_prefix), os.path.realpath(sys.base_exec_prefix)}))


@functools.cache
def source() -> Path:
    """The directory of the package stockade_worker."""
    return _package("stockade_worker")


@functools.cache
def packages() -> dict[str, str]:
    """Packages to mount inside, by name: no others of the daemon's environment are there."""
    return {name: str(_package(name)) for name in ("stockade_worker", "stockade_toolkit")}


def programs() -> dict[str, str]:
    """Programs to mount inside, by name: those that built-in tools run. What is not installed is left out."""
    path = _ripgrep()
    return {"rg": path} if path is not None and os.path.isfile(path) else {}


def opened(directory: str) -> str:
    """The command that lets every uid read a directory which workers run from; one of ours is not closed alone."""
    ours = sorted(packages().values())
    return f"chmod -R go+rX {shlex.join(ours if directory in ours else [directory])}"


@functools.cache
def _ripgrep() -> str | None:
    """The program of the distribution `ripgrep` in this environment; not whichever one PATH has."""
    try:
        files = importlib.metadata.files("ripgrep") or []
    except importlib.metadata.PackageNotFoundError:
        return None
    return next((os.path.realpath(file.locate()) for file in files if file.name == "rg"), None)


def _package(name: str) -> Path:
    found = importlib.util.find_spec(name)
    if found is None or not found.submodule_search_locations:
        raise ModuleNotFoundError(f"the package {name} is missing; install stockade again")
    return Path(found.submodule_search_locations[0]).resolve()
