"""Measures and tells.

    python -m tests.bench [--quick] [--out DIR] [PART]...      make bench ARGS="--quick calls"

Parts: calls, memory, hostile, usage, stages, files, search, effects, entries; all where none is named. Tables go to
standard output, progress to standard error. A full run writes docs/bench; a quick one writes only where --out says.
"""

import argparse
import asyncio
import os
import shutil
import signal
import sys
import tempfile
from collections.abc import Awaitable, Callable, Mapping
from pathlib import Path
from typing import Final, Protocol

# Processes are started by exec; gRPC's handlers around fork would only complain.
os.environ["GRPC_ENABLE_FORK_SUPPORT"] = "0"

from stockade_daemon.removing import remove_tree
from tests.bench import calls, effects, entries, facts, files, hostile, memory, report, search, stages, usage
from tests.bench.figures import Table, text
from tests.bench.yardstick import Missing, Yardstick, made


class Part(Protocol):
    """Measures in a directory of its own."""

    def __call__(self, place: Path, tell: Callable[[str], None], *, quick: bool) -> Awaitable[list[Table]]:
        raise NotImplementedError


_OTHERS: Final[Mapping[str, Part]] = {
    "memory": memory.measured,
    "hostile": hostile.measured,
    "usage": usage.measured,
    "stages": stages.measured,
    "files": files.measured,
    "search": search.measured,
    "effects": effects.measured,
}


def main(arguments: list[str]) -> int:
    parser = argparse.ArgumentParser(prog="make bench ARGS=…", description="Measure what calls cost here and now.")
    parser.add_argument("part", nargs="*", metavar="PART", help=f"{', '.join(report.PARTS)}; default: all")
    parser.add_argument("--quick", action="store_true", help="a short run, which is not kept but where --out says")
    parser.add_argument("--out", type=Path, help=f"where to keep the figures; default: {report.DOCS}")
    options = parser.parse_args(arguments)
    unknown = [part for part in options.part if part not in report.PARTS]
    if unknown:
        parser.error(f"no such part: {', '.join(unknown)}; choose from {', '.join(report.PARTS)}")
    out = options.out or (None if options.quick else report.DOCS)
    # A shell that put us into the background has SIGINT ignored; SIGTERM means the same here.
    signal.signal(signal.SIGTERM, lambda number, frame: signal.raise_signal(signal.SIGINT))
    signal.signal(signal.SIGINT, signal.default_int_handler)
    place = Path(tempfile.mkdtemp(prefix="bench-"))
    try:
        place.chmod(0o755)
        asyncio.run(_measure(place, options.part or list(report.PARTS), out, quick=options.quick))
    except KeyboardInterrupt:
        _tell("stopped; nothing of the part under way was kept")
        return 130
    finally:
        remove_tree(place)
    return 0


async def _measure(place: Path, chosen: list[str], out: Path | None, *, quick: bool) -> None:
    yardstick = _yardstick(place)
    machine = facts.machine(yardstick.version)
    for line in facts.lines(machine):
        print(line)
    for name in chosen:
        own = place / name
        own.mkdir()
        before = facts.load()
        tables = await _part(name, own, yardstick, quick=quick)
        _tell("")
        load = (before, facts.load())
        for table in tables:
            print(f"\n{text(table)}", flush=True)
        print(f"\nload: {load[0]} before, {load[1]} after", flush=True)
        if out is not None:
            report.kept(out, name, machine, load, tables)


async def _part(name: str, place: Path, yardstick: Yardstick, *, quick: bool) -> list[Table]:
    if name == "calls":
        return await calls.measured(place, yardstick, _tell, quick=quick)
    if name == "entries":
        return await entries.measured(place, yardstick, _tell, quick=quick)
    return await _OTHERS[name](place, _tell, quick=quick)


def _yardstick(place: Path) -> Yardstick:
    try:
        return made(place)
    except Missing as missing:
        raise SystemExit(f"bench: {missing}; install one (apt-get install gcc) and run this again") from None


def _tell(progress: str) -> None:
    """One line that replaces itself at a terminal."""
    if sys.stderr.isatty():
        width = shutil.get_terminal_size().columns - 1
        print(f"\r{progress[:width].ljust(width)}\r", end="", file=sys.stderr, flush=True)
    elif progress:
        print(f"bench: {progress}", file=sys.stderr, flush=True)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
