"""Memory: of a warm worker, of the daemon at rest, of many sessions, and while much output streams through it."""

import asyncio
import statistics
from collections.abc import Callable
from pathlib import Path
from typing import Final

from stockade_client import connect
from stockade_client.session import Session
from tests.bench.calls import read, shell
from tests.bench.daemon import Running, descendants, proportional, running
from tests.bench.figures import Row, Table, rounded

SESSIONS: Final = 1000
OUTPUT_MB: Final = 200
# A call keeps so much of each of its streams, at most; so several calls one after the other.
CALL_MB: Final = 50
FLOOD: Final = f'extends = "dev"\n[limits]\noutput_mb = {CALL_MB}\n'


async def measured(place: Path, tell: Callable[[str], None], *, quick: bool) -> list[Table]:
    """The table "memory". Bytes are told in MiB."""
    sessions, output_mb = (100, CALL_MB) if quick else (SESSIONS, OUTPUT_MB)
    rows: list[Row] = []
    async with running(place, profiles={"flood": FLOOD}) as daemon, connect(daemon.address) as client:
        (daemon.workspace / "a.txt").write_bytes(b"0123456789abcde\n" * 64)
        rows.append(_row("daemon, no session: RSS", daemon.memory(), "≤ 90 MiB"))
        async with client.session(workspace=daemon.workspace, profile="dev") as session:
            rows += await _workers(daemon, session, tell)
        tell(f"memory: {sessions} sessions")
        before = daemon.memory()
        names = [f"many-{number}" for number in range(sessions)]
        opened = []
        for name in names:
            async with client.session(workspace=daemon.workspace, profile="dev", id=name) as session:
                opened.append(session)
        aim = "≤ 100 MiB" if sessions == SESSIONS else ""
        rows.append(_row(f"daemon, {sessions} more open sessions: RSS grows by", daemon.memory() - before, aim))
        for session in opened:
            await session.close()
        async with client.session(workspace=daemon.workspace, profile="flood") as session:
            tell(f"memory: {output_mb} MiB of output")
            await _flood(session, 8)  # buffers that it will have anyway
            before = daemon.memory()
            daemon.forget_peak()
            received = sum([await _flood(session, CALL_MB) for _ in range(output_mb // CALL_MB)])
            grown = daemon.memory("VmHWM") - before
            rows.append(_row(f"daemon, {received >> 20} MiB of output streamed: RSS grows by", grown, "< 16 MiB"))
    return [Table("Memory", tuple(rows))]


def _row(what: str, size: float, aim: str, note: str = "") -> Row:
    return {"what": what, "MiB": rounded(size / 2**20), "aim": aim, "note": note}


async def _workers(daemon: Running, session: Session, tell: Callable[[str], None]) -> list[Row]:
    """The daemon with one session that has prepared workers, and what each process of those takes."""
    tell("memory: warm workers")
    for call in (read, shell):
        for _ in range(20):
            await call(session)
    rows = [_row("daemon, one session that worked: RSS", daemon.memory(), "≤ 90 MiB")]
    # Workers and templates have the same command line; a prepared worker is a pair: init, and the body that waits.
    try:
        pairs, template = await _prepared(daemon)
    except (PermissionError, TimeoutError) as error:
        why = "this user may not look" if isinstance(error, PermissionError) else "no worker stood ready"
        return [*rows, {"what": "warm worker: PSS", "MiB": None, "aim": "≤ 4 MiB", "note": f"not measured here: {why}"}]
    note = f"median of {len(pairs)} workers, init and waiting body together"
    rows.append(_row("warm worker: PSS", statistics.median(pairs), "≤ 4 MiB", note))
    rows.append(_row("the session's template: PSS", template, ""))
    return rows


async def _prepared(daemon: Running) -> tuple[list[int], int]:
    """PSS of the prepared workers, at least one of each kind, and of the template.

    Raises TimeoutError where they do not appear, PermissionError where this user may not look at them.
    """
    async with asyncio.timeout(10):
        while True:
            found = descendants(daemon.pid)
            tree = {pid: set(descendants(pid)) for pid in found}
            zygotes = [pid for pid, command in found.items() if "zygote" in command and len(tree[pid]) >= 2]
            # Below the mounter the template, below it each worker's init, below that its body.
            top = max(zygotes, key=lambda pid: len(tree[pid]), default=None)
            inits = [pid for pid in tree[top] if len(tree.get(pid, ())) == 1] if top is not None else []
            if top is not None and len(inits) >= 2:
                try:
                    return [sum(map(proportional, (pid, *tree[pid]))) for pid in inits], proportional(top)
                except (FileNotFoundError, ProcessLookupError):
                    pass  # the last call's worker, which has just ended
            await asyncio.sleep(0)


async def _flood(session: Session, megabytes: int) -> int:
    """Bytes of a command's output that reached this client as a stream."""
    call = await session.start("shell", command=f"yes 'one line of a build that says much' | head -c {megabytes}M")
    received = 0
    async with call.output() as stream:
        async for data in stream:
            received += len(data)
    await call.result()
    return received
