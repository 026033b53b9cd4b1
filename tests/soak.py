"""Thousands of calls in a row at one daemon, which must hold no more at the end than at the beginning.

    python -m tests.soak [--calls 5000] [--warm-up 1000] [--jobs 4] [--workspace DIR] [--seed N]

Clients read, edit, run commands that succeed, fail and are killed by their timeout, call tools of their own, take calls
back, drop their connections, have profiles probed and tool files checked, and open and close sessions, half of them
under a profile that hides names, with a `stockaded serve` of its own. After a warm-up, in which buffers fill and pools
reach their size, the calls begin to count; twenty times all clients pause and the daemon is looked at
(tests/figures.py).

Exit status: 0 nothing grows; 1 something does, or a call ended otherwise than it should; 130 interrupted.
"""

import argparse
import asyncio
import gc
import os
import random
import signal
import sqlite3
import subprocess
import sys
import tempfile
import time
from collections import Counter
from contextlib import AsyncExitStack, suppress
from pathlib import Path
from typing import Final

from stockade_client import Daemon, connect
from stockade_client.results import CallResult
from stockade_client.session import Session
from stockade_daemon.removing import remove_tree
from tests import figures
from tests.end_to_end.stockaded import Stockaded

LOOKS: Final = 20
SESSION_CALLS: Final = 25  # of one session, before another one is opened
SETTLE_S: Final = 10.0  # for what ends by itself after a call: its worker, the next one's preparation
UNCHANGED: Final = 10  # looks, a tenth of a second apart
# How often each kind of call, by weight. Kinds that kill take a process tree with them.
KINDS: Final = {
    "read": 40,
    "edit": 15,
    "true": 20,
    "fails": 8,
    "changes": 6,
    "refused": 3,
    "timeout": 4,
    "cancelled": 4,
    "tool": 6,
    "program": 4,
    "checked": 2,
    "probed": 1,
}
WARM_UP: Final = 1000
PROFILE: Final = 'extends = "dev"\nwiden = ["approval.writes"]\n[approval]\nwrites = "allow"\neffects = "discard"\n'
PROFILES: Final = {"soak": PROFILE, "soak-hidden": f'{PROFILE}[filesystem]\nhidden = ["**/.env", "keys"]\n'}
TOOLS: Final = {
    "lines.py": '''
from stockade_toolkit import Files, tool

@tool
def lines(path: str, files: Files) -> int:
    """Counts the lines of a file.

    path: The file.
    """
    return files.open(path).content().count(b"\\n")
''',
    "hidden.toml": """
description = "Looks for names that a profile hides."
access = "read"
[program]
argv = ["sh", "-c", "ls -d keys web/.env 2>/dev/null; echo looked"]
""",
}


class Unexpected(Exception):
    """A call ended otherwise than it should."""


class Job:
    """One client: it works in a session for a while, then drops it and its connection."""

    def __init__(self, number: int, address: str, workspace: Path, seed: int, *, lasting: bool) -> None:
        self._address = address
        self._workspace = workspace
        self._random = random.Random(f"{seed}/{number}")
        self._file = f"counter-{number}.txt"
        self._count = 0
        self._lasting = lasting  # keeps one session: what leaks into a session would go with it
        self._stack = AsyncExitStack()
        self._daemon: Daemon | None = None
        self._session: Session | None = None
        self._profile = "soak"
        self._left = 0
        (workspace / self._file).write_text("count 0\n")

    async def close(self) -> None:
        self._session = None
        await self._stack.aclose()

    async def work(self, calls: int, done: Counter[str]) -> None:
        for _ in range(calls):
            kind = self._random.choices(list(KINDS), list(KINDS.values()))[0]
            session = await self._open()
            if kind in ("probed", "checked"):
                await self._ask(kind)
            else:
                await self._one(session, kind)
            done[kind] += 1
        if not self._lasting:
            await self.close()

    async def rest(self) -> None:
        """One call of each access, so that the same workers stand ready whatever came before."""
        session = await self._open()
        expect(await session.call("read", path=self._file), "")
        expect(await session.call("shell", command="true"), "", status=0)

    async def _open(self) -> Session:
        if self._session is not None and self._left == 0 and not self._lasting:
            await self.close()
        if self._session is None:
            self._daemon = await self._stack.enter_async_context(connect(self._address))
            self._profile = "soak" if self._lasting else self._random.choice(list(PROFILES))
            opened = self._daemon.session(workspace=self._workspace, profile=self._profile)
            self._session = await self._stack.enter_async_context(opened)
            self._left = SESSION_CALLS
            # An edit wants its file to have been seen by its session.
            expect(await self._session.call("read", path=self._file), "")
        self._left = max(0, self._left - 1)
        return self._session

    async def _one(self, session: Session, kind: str) -> None:
        match kind:
            case "read":
                expect(await session.call("read", path=self._file), "")
            case "edit":
                old, self._count = f"count {self._count}\n", self._count + 1
                new = f"count {self._count}\n"
                expect(await session.call("edit", path=self._file, old_string=old, new_string=new), "")
            case "true":
                expect(await session.call("shell", command="true"), "", status=0)
            case "fails":
                expect(await session.call("shell", command="echo out; echo err >&2; exit 3"), "", status=3)
            case "changes":
                command = "mkdir -p made/deep; seq 1000 > made/deep/file; rm counter-0.txt; setsid sleep 60 &"
                expect(await session.call("shell", command=command), "", status=0)
            case "refused":
                expect(await session.call("edit", path="none.txt", old_string="a", new_string="b"), "FS_NOT_FOUND")
            case "timeout":
                expect(await session.call("shell", command="echo begun; sleep 60", timeout_s=0.2), "TOOL_TIMEOUT")
            case "cancelled":
                await self._cancel(session)
            case "tool":
                expect(await session.call("lines", path=self._file), "")
            case "program":
                result = await session.call("hidden")
                expect(result, "", status=0)
                shown = "" if self._profile == "soak-hidden" else "keys\nweb/.env\n"
                if result.field("stdout") != f"{shown}looked\n":
                    raise Unexpected(f"{self._profile} shows {result.field('stdout')!r}")

    async def _ask(self, kind: str) -> None:
        """What starts workers of the daemon's, outside of any session."""
        assert self._daemon is not None
        if kind == "checked":
            found = await self._daemon.check_tool("lines.py", TOOLS["lines.py"].encode())
            wrong = found.fault
        else:
            probed = await self._daemon.profiles.probe(self._random.choice(list(PROFILES)))
            wrong = "" if probed.ok else str([each for each in probed.attempts if each.verdict != "held"])
        if wrong:
            raise Unexpected(f"what was {kind} is wrong: {wrong}")

    async def _cancel(self, session: Session) -> None:
        call = await session.start("shell", command="echo begun; exec sleep 60")
        if self._random.random() < 0.5:  # else it may not even have been given a worker
            async with call.output() as chunks:
                async for _ in chunks:
                    break
        await call.cancel()
        expect(await call.result(), "ABORTED", "ABORTED_BEFORE_DISPATCH")


def expect(result: CallResult, *codes: str, status: int | None = None) -> None:
    code = result.error.code if result.error else ""
    found = result.value.get("exit_code") if isinstance(result.value, dict) else None
    if code not in codes or (status is not None and found != status):
        raise Unexpected(
            f"{result.tool} {result.call_id} ended with {code or 'success'}, status {found}: {result.error}"
        )


async def settled(daemon: Stockaded, jobs: list[Job], calls: int, base: figures.Figures | None) -> figures.Figures:
    """The daemon at rest: with as much as at the first look. Where there was none, or what it holds is another number
    for SETTLE_S, then as it is."""
    await jobs[0].rest()
    gc.collect()  # a connection that this client has closed is open as long as an object of it is not collected
    assert daemon.process is not None
    deadline = time.monotonic() + SETTLE_S
    unchanged = 0
    before: figures.Figures | None = None
    while True:
        found = figures.look(daemon.process.pid, daemon.state, calls)
        unchanged = unchanged + 1 if before is not None and not figures.differ(found, before) else 0
        rests = unchanged >= UNCHANGED if base is None else not figures.differ(found, base)
        if rests or time.monotonic() > deadline:
            return found
        before = found
        await asyncio.to_thread(_pause, daemon.process)


def _pause(daemon: subprocess.Popen[bytes]) -> None:
    """A tenth of a second, in which the daemon should go on."""
    with suppress(subprocess.TimeoutExpired):
        raise Unexpected(f"the daemon ended with status {daemon.wait(0.1)}")


async def share(calls: int, jobs: list[Job], done: Counter[str]) -> None:
    async with asyncio.TaskGroup() as working:
        for index, job in enumerate(jobs):
            part = calls * (index + 1) // len(jobs) - calls * index // len(jobs)
            working.create_task(job.work(part, done))


async def soak(options: argparse.Namespace, daemon: Stockaded, workspace: Path) -> list[str]:
    """What grows, after all calls."""
    jobs = [Job(number, daemon.address, workspace, options.seed, lasting=number == 0) for number in range(options.jobs)]
    done: Counter[str] = Counter()
    looks: list[figures.Figures] = []
    began = time.monotonic()
    try:
        for number in range(LOOKS + 1):
            await share(options.warm_up + options.calls * number // LOOKS - done.total(), jobs, done)
            looks.append(await settled(daemon, jobs, done.total(), looks[0] if looks else None))
            rate = done.total() / (time.monotonic() - began)
            print(f"{rate:6.1f}/s  {figures.line(looks[-1])}", flush=True)
    finally:
        for job in jobs:
            await job.close()
    print(", ".join(f"{count} {kind}" for kind, count in sorted(done.items())))
    for name in (*figures.BOUNDED, "rss", "state"):
        rate = figures.slope([(each.calls, getattr(each, name)) for each in looks])
        print(f"{name}: {rate:+.0f} bytes a call")
    return figures.grown(looks)


def rows(ledger: Path) -> dict[str, int]:
    """How many rows each table has, of a ledger that no daemon has open."""
    with sqlite3.connect(f"file:{ledger}?mode=ro", uri=True) as file:
        tables = [name for (name,) in file.execute("SELECT name FROM sqlite_schema WHERE type = 'table'")]
        # The names are the ledger's own.
        return {name: file.execute(f'SELECT count(*) FROM "{name}"').fetchone()[0] for name in tables}


def main(arguments: list[str]) -> int:
    parser = argparse.ArgumentParser(prog="soak", description="Many calls in a row; fails where a daemon grows.")
    parser.add_argument("--calls", type=int, default=5000)
    parser.add_argument("--warm-up", type=int, default=WARM_UP, metavar="CALLS", help="calls before those that count")
    parser.add_argument("--jobs", type=int, default=4, help="clients at the same time")
    parser.add_argument("--workspace", type=Path, help="make the workspace below this directory, not in TMPDIR")
    parser.add_argument("--seed", type=int, default=random.randrange(10**6))
    options = parser.parse_args(arguments)
    if options.jobs < 1 or options.warm_up < 0 or options.calls < LOOKS * options.jobs:
        parser.error(f"--calls must be at least {LOOKS} for each of --jobs")
    print(
        f"soak: {options.calls} calls after {options.warm_up}, {options.jobs} jobs, --seed {options.seed}", flush=True
    )
    if options.calls < figures.SHORTEST:
        print(f"soak: memory is not judged over fewer than {figures.SHORTEST} calls: its noise is more than the bound")
    if options.warm_up < WARM_UP:
        print(f"soak: after fewer than {WARM_UP} calls of warm-up, what fills at the beginning may count as growth")
    directory = Path(tempfile.mkdtemp(prefix="soak-"))
    workspace = Path(tempfile.mkdtemp(prefix="soak-", dir=options.workspace))
    daemon = Stockaded(directory, workspaces=workspace)
    for place, texts in (("profiles", {f"{name}.toml": text for name, text in PROFILES.items()}), ("tools", TOOLS)):
        (directory / place).mkdir()
        for name, text in texts.items():
            (directory / place / name).write_text(text)
        with daemon.configuration.open("a") as configuration:
            configuration.write(f'[{place}]\npaths = ["{directory / place}"]\n')
    for name in ("keys/private", "web/.env"):
        (workspace / name).parent.mkdir()
        (workspace / name).touch()
    grown: list[str] = []
    try:
        daemon.start()
        grown = asyncio.run(soak(options, daemon, workspace))
        status = daemon.end()
        counts = rows(daemon.state / "ledger.sqlite3")
        print(", ".join(f"{name}: {count / counts['calls']:.2f} rows a call" for name, count in counts.items()))
        grown += [f"the daemon ended with status {status}"] if status else []
    except* Unexpected as unexpected:
        grown = [str(each) for each in unexpected.exceptions]
    finally:
        if daemon.process is not None:
            daemon.end(signal.SIGTERM)
        remove_tree(workspace)
        remove_tree(directory)
    for each in grown:
        print(f"soak: {each}", file=sys.stderr)
    print("soak: failed" if grown else "soak: nothing grows")
    return 1 if grown else 0


if __name__ == "__main__":
    os.umask(0o022)
    try:
        sys.exit(main(sys.argv[1:]))
    except KeyboardInterrupt:
        sys.exit(130)
