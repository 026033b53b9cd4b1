"""Commands that leave processes behind in every way there is: none of them outlives its call, and no call hangs."""

import asyncio
import random
import secrets
import subprocess
from collections import Counter
from contextlib import suppress
from dataclasses import dataclass
from typing import Final

from stockade_client import CallResult
from stockade_client.session import Session
from tests.end_to_end.stockaded import running
from tests.figures import Figures, above, differ, look
from tests.floods.daemon import Place, Report

_HANG_S: Final = 120.0  # a hang detector, for one call, and for the daemon to come to rest
_AT_ONCE: Final = 8
_UNCHANGED: Final = 5  # looks that are alike


@dataclass(frozen=True, slots=True)
class Way:
    """How processes are left: `{mark}` becomes a word that they have on their command line."""

    name: str
    command: str
    ends: str = "exit"  # or timeout, cancel
    timeout_s: float = _HANG_S


_LEFT: Final = "exec -a {mark} sleep 600"
_DEAF: Final = f"trap '' TERM HUP INT QUIT PIPE; {_LEFT}"
WAYS: Final = (
    Way("setsid", f'setsid bash -c "{_LEFT}" & echo begun; exit 3'),
    Way("holds the pipes", f"({_LEFT}) & disown; echo begun; exit 3"),
    Way("holds one pipe", f"({_LEFT}) >/dev/null & echo begun; exit 3"),
    Way("deaf", f'bash -c "{_DEAF}" & echo begun; exit 3'),
    Way("double fork", f'( ( setsid bash -c "{_DEAF}" & ) & ); echo begun; exit 3'),
    Way("no descriptors", f'setsid bash -c "{_LEFT}" <&- >&- 2>&- & echo begun; exit 3'),
    Way("many", f'for i in 1 2 3 4 5 6; do nohup setsid bash -c "{_DEAF}" >&2 & done; echo begun; exit 3'),
    Way("bash is gone first", f"({_LEFT}) & ({_LEFT}) & echo begun; kill -9 $$", ends="kill"),
    Way("stopped", f'bash -c "{_LEFT}" & kill -STOP $!; echo begun; exit 3'),
    Way("deaf until its time is up", f'echo begun; setsid bash -c "{_DEAF}" & {_DEAF}', "timeout", 0.5),
    Way("waits until its time is up", f"echo begun; ( ({_DEAF}) & ); wait; while :; do :; done", "timeout", 0.5),
    Way("deaf until it is cancelled", f'echo begun; setsid bash -c "{_DEAF}" & {_DEAF}', "cancel"),
    Way("forks until it is cancelled", f"echo begun; while :; do ({_LEFT}) & sleep 0.01; done", "cancel"),
)


async def survivors(place: Place, report: Report, *, calls: int, seed: int) -> None:
    """`calls` of them, some at a time; each is looked for as soon as its call has its result."""
    chance = random.Random(seed)
    ways = [WAYS[number % len(WAYS)] for number in range(calls)]
    chance.shuffle(ways)
    campaign = f"left{secrets.token_hex(4)}"
    room = asyncio.Semaphore(_AT_ONCE)

    async def one(session: Session, number: int, way: Way) -> None:
        async with room:
            mark = f"{campaign}x{number}x"
            try:
                async with asyncio.timeout(_HANG_S):
                    result = await _result(session, way, mark)
            except TimeoutError:
                report.faults.append(f"call {number} ({way.name}) hangs")
                return
            # No wait: with the result nothing of the call is left.
            if found := await asyncio.to_thread(running, mark):
                report.faults.append(f"call {number} ({way.name}) left the processes {found}")
            if fault := _fault(way, result):
                report.faults.append(f"call {number} ({way.name}): {fault}")

    async with place.daemon.session(place.workspace, "truncate") as session:
        assert (await session.call("shell", command="true")).ok
        before = await _at_rest(place)
        async with asyncio.TaskGroup() as tasks:
            for number, way in enumerate(ways):
                tasks.create_task(one(session, number, way))
        after = await _at_rest(place, before)
    if found := running(campaign):
        report.faults.append(f"processes are left: {found}")
    report.faults += above(after, before)
    count = Counter(way.ends for way in ways)
    report.say(
        f"{calls} calls that leave processes in {len(set(ways))} ways "
        f"({', '.join(f'{number} by {end}' for end, number in sorted(count.items()))}): {len(running(campaign))} left; "
        f"processes {before.processes} before, {after.processes} after; control groups {before.groups}, "
        f"{after.groups}; descriptors {before.descriptors}, {after.descriptors}"
    )


async def _result(session: Session, way: Way, mark: str) -> CallResult:
    call = await session.start("shell", command=way.command.format(mark=mark), timeout_s=way.timeout_s)
    if way.ends == "cancel":
        async with call.output() as pieces:
            assert await anext(pieces) == b"begun\n"
        await call.cancel()
    return await call.result()


def _fault(way: Way, result: CallResult) -> str:
    """Where the result is not what the call did."""
    wanted = {"exit": "ok", "kill": "ok", "timeout": "TOOL_TIMEOUT", "cancel": "ABORTED"}[way.ends]
    code = result.error.code if result.error else "ok"
    if code != wanted:
        return f"it came to {result.error or 'a success'}, not to {wanted}"
    if result.field("stdout") != "begun\n":
        return f"it printed {result.field('stdout')!r}"
    ended = (result.field("exit_code"), result.field("signal"))
    if way.ends == "exit" and ended != (3, None):
        return f"it ended with {ended}"
    if way.ends == "kill" and ended[0] is not None:
        return f"it ended with {ended}"
    return ""


async def _at_rest(place: Place, base: Figures | None = None) -> Figures:
    """What the daemon holds once it changes no more, or once it is nothing above `base`; or at the latest look."""
    process, unchanged = place.stockaded.process, 0
    assert process is not None
    seen = look(place.pid, place.stockaded.state, 0)
    with suppress(TimeoutError):
        async with asyncio.timeout(_HANG_S):
            while unchanged < _UNCHANGED if base is None else above(seen, base):
                with suppress(subprocess.TimeoutExpired):
                    raise RuntimeError(f"the daemon ended with status {await asyncio.to_thread(process.wait, 0.1)}")
                now = look(place.pid, place.stockaded.state, 0)
                unchanged = 0 if differ(seen, now) else unchanged + 1
                seen = now
    return seen
