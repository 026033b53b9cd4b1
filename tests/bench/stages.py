"""Where the time of a call goes: the daemon's stages, as it notes them itself."""

import json
import time
from bisect import bisect_left
from collections import defaultdict
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Final

from stockade_client import connect
from stockade_client.session import Session
from tests.bench.calls import read, shell, timed
from tests.bench.daemon import running
from tests.bench.figures import Row, Table, quantile, rounded

# In the order of a call's way; those below another one are part of it.
STAGES: Final = (
    ("rpc", "the request in the daemon, from its parsing to the answer"),
    ("ledger: tool/call", "the call is recorded"),
    ("policy: pre-execute", "rules of the profile"),
    ("policy: guards", ""),
    ("take a worker", "a prepared one, as a rule"),
    ("ledger: call/dispatched", "recorded before the worker hears"),
    ("body", "the worker does it: all of the next eight"),
    ("conversation", "of a function, from its job to its value: the next four"),
    ("the job is sent", ""),
    ("the worker's turns", "three: it opens the file, says what it showed, gives its value"),
    ("answers to it", "to the first two, with the file"),
    ("gate: read", "of which the gate reads the file"),
    ("command runs", "from the job to the end of its first process"),
    ("its processes end", "until nothing of it is left"),
    ("effects", "what its overlay holds"),
    ("policy: post-execute", ""),
    ("finalize", "output cap, lossless JSON"),
    ("ledger: tool/result", "the result is recorded"),
    ("ledger: look-up", "none, unless a start is repeated or its answer waited for again"),
    ("ledger: notes", "what was observed; nobody waits for it"),
    ("the last worker is closed", "after the answer: its processes, mounts and control group go"),
    ("prepare the next worker", "after that, on nobody's way while calls are apart: the next five"),
    ("its scratch directory", "for a command's changes"),
    ("its mount", "the workspace, by the mounter"),
    ("its clone", "by the template, into new namespaces"),
    ("its control group", "made, limited and joined"),
    ("its sealing", "all that it still does itself after it has joined"),
)
_AFTERWARDS: Final = (*(stage for stage, _ in STAGES[-7:]),)
_SHARED: Final = ("ledger: tool/call", "ledger: call/dispatched", "ledger: tool/result", "ledger: look-up",
    "ledger: notes", "policy: pre-execute", "policy: guards", "policy: post-execute")  # fmt: skip
_PAUSE_S: Final = 0.03


async def measured(place: Path, tell: Callable[[str], None], *, quick: bool) -> list[Table]:
    """The table "stages" of a read and of a shell, and the ledger's and policy's share of each."""
    count = 100 if quick else 500
    kinds: dict[str, Callable[[Session], Awaitable[None]]] = {"read": read, "shell": shell}
    spent: dict[str, list[tuple[int, int]]] = {}
    spans = place / "stages"
    async with (
        running(place, module="tests.bench.staged_daemon", environment={"BENCH_STAGES": str(spans)}) as daemon,
        connect(daemon.address) as client,
    ):
        (daemon.workspace / "a.txt").write_bytes(b"0123456789abcde\n" * 64)
        async with client.session(workspace=daemon.workspace, profile="dev") as session:
            for kind, call in kinds.items():
                tell(f"stages: {count} times {kind}")
                await timed(call, session, 20)
                spent[kind] = []
                for _ in range(count):
                    [milliseconds] = await timed(call, session, 1, pause_s=_PAUSE_S)
                    ended = time.monotonic_ns()
                    spent[kind].append((ended - int(milliseconds * 1e6), ended))
    noted = [json.loads(line) for line in spans.read_text().splitlines()]
    return _tables(spent, [(str(stage), int(begun), int(ended)) for stage, begun, ended in noted])


def _tables(calls: dict[str, list[tuple[int, int]]], noted: list[tuple[str, int, int]]) -> list[Table]:
    stages: list[Row] = []
    shares: list[Row] = []
    found = {kind: _by_call(each, noted) for kind, each in calls.items()}
    for stage, meaning in STAGES:
        row: Row = {"stage": stage}
        for kind in found:
            values = [call[stage] for call in found[kind] if stage in call]
            row[f"{kind} p50 ms"] = rounded(quantile(values, 0.5)) if values else None
        stages.append({**row, "what": meaning})
    whole: Row = {"stage": "client to result"}
    for kind, each in calls.items():
        taken = [(ended - begun) / 1e6 for begun, ended in each]
        whole[f"{kind} p50 ms"] = rounded(quantile(taken, 0.5))
        own = [sum(call.get(stage, 0.0) for stage in _SHARED) for call in found[kind]]
        part = [mine / all_of_it for mine, all_of_it in zip(own, taken, strict=True)]
        shares.append({
            "call": kind,
            "n": len(taken),
            "ledger and policy p50 ms": rounded(quantile(own, 0.5)),
            "of the call, %": rounded(quantile(part, 0.5) * 100),
            "aim, %": 25,
        })  # fmt: skip
    stages.insert(0, {**whole, "what": "with the client's own work and gRPC on both sides"})
    return [
        Table("Where the time goes, one call at a time", tuple(stages)),
        Table("Ledger's and policy's share of a call", tuple(shares)),
    ]


def _by_call(calls: list[tuple[int, int]], noted: list[tuple[str, int, int]]) -> list[dict[str, float]]:
    """For each call the milliseconds of each stage that began during it, or until the next one did."""
    starts = [begun for begun, _ in calls]
    last = calls[-1][0]  # what follows the last call is not told from what comes after
    found: list[dict[str, float]] = [defaultdict(float) for _ in calls]
    for stage, begun, ended in noted:
        if starts[0] <= begun <= last:
            number = bisect_left(starts, begun) - 1
            if number < 0 or (stage not in _AFTERWARDS and begun > calls[number][1]):
                continue
            found[number][stage] += (ended - begun) / 1e6
    return found
