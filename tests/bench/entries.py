"""Entries of `stockade run`, each on a copy of the workspace of its own, beside runners that isolate less."""

import asyncio
import json
import os
import re
import subprocess
import sys
import time
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Final

from tests.bench.daemon import Running, running
from tests.bench.figures import Row, Table, rounded
from tests.bench.yardstick import Yardstick

_FILES: Final = 100  # of the workspace
_BYTES: Final = 1000
_AT_ONCE: Final = (1, 4)
_KINDS: Final[Mapping[str, Mapping[str, object]]] = {
    "read of 1 KB": {"tool": "read", "args": {"path": "f0"}},
    "command true": {"tool": "shell", "args": {"command": "true"}},
}


async def measured(place: Path, yardstick: Yardstick, tell: Callable[[str], None], *, quick: bool) -> list[Table]:
    """The table "entries a second"."""
    count = 10 if quick else 50
    rows: list[Row] = []
    async with running(place) as daemon:
        for number in range(_FILES):
            (daemon.workspace / f"f{number}").write_bytes(b"x" * (_BYTES - 1) + b"\n")
        for at_once in _AT_ONCE:
            for kind, entry in _KINDS.items():
                tell(f"entries: {kind}, {at_once} at once")
                took = await asyncio.to_thread(_run, place, daemon, entry, count, at_once)
                rows.append(_row(f"stockade run: {kind}", at_once, count, took))
            tell(f"entries: others, {at_once} at once")
            plain = await asyncio.to_thread(_plain, daemon.workspace, count, at_once)
            rows.append(_row("subprocess.run(['bash', '-c', 'true'])", at_once, count, plain))
            if yardstick.bwrap is not None:
                runs = await yardstick.sandboxed(count, at_once, "bash", "-c", "true")
                rows.append(_row("bubblewrap bash -c true", at_once, count, runs.all_s))
    return [Table("Entries a second", tuple(rows))]


def _row(what: str, at_once: int, count: int, took: float) -> Row:
    return {"what": what, "at once": at_once, "n": count, "a second": rounded(count / took)}


def _run(place: Path, daemon: Running, entry: Mapping[str, object], count: int, at_once: int) -> float:
    """Seconds of the run, as it tells itself: without the start of the command."""
    calls = place / "calls.jsonl"
    calls.write_text("".join(f"{json.dumps({'name': str(number), **entry})}\n" for number in range(count)))
    done = subprocess.run(
        [
            *(sys.executable, "-m", "stockade_client", "run", str(calls), "--profile", "ci"),
            *("--workspace", str(daemon.workspace), "--jobs", str(at_once)),
        ],
        env={**os.environ, "STOCKADE_ADDRESS": daemon.address},
        capture_output=True,
        text=True,
        check=False,
    )
    said = re.search(rf"^{count} entries in ([\d.]+) s: {count} passed$", done.stdout, re.MULTILINE)
    if done.returncode != 0 or said is None:
        raise RuntimeError(f"stockade run: {done.stdout[-2000:]}{done.stderr}")
    return float(said[1])


def _plain(workspace: Path, count: int, at_once: int) -> float:
    begun = time.perf_counter()
    with ThreadPoolExecutor(at_once) as pool:
        for done in pool.map(lambda _: subprocess.run(["bash", "-c", "true"], cwd=workspace, check=True), range(count)):
            assert done.returncode == 0
    return time.perf_counter() - begun
