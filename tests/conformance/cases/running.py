"""All cases of a run: which can be asked, beside whom each runs, and its verdict."""

import asyncio
import tempfile
import time
import traceback
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import Any, Final

from stockade_client import Daemon, connect
from stockade_daemon.removing import remove_tree
from tests.conformance.cases import asking, judging, pausing, planting, profiles
from tests.conformance.cases.daemons import CaseDaemon, Shared, forget_peak, resident, running
from tests.conformance.cases.filling import Places
from tests.conformance.cases.playing import Player
from tests.conformance.cases.reading import ANYWHERE, ITEMS, Case, calls_of, items_of
from tests.conformance.cases.replies import Played
from tests.conformance.cases.verdicts import Fails, Missing, Verdict

_CASE_S: Final = 300.0  # a hang detector
_OWN: Final = {"umask", "pause", "fault_injection"}


async def run(
    cases: Sequence[Case],
    *,
    jobs: int,
    told: Callable[[Verdict], object] = lambda verdict: None,
    within: Path | None = None,
) -> list[Verdict]:
    """The verdicts, in the order of the cases; `told` is given each as it comes, in no order.

    within: the directory in which one is made for all that a run needs; a socket's path, it is to be short.
    """
    base = Path(tempfile.mkdtemp(prefix="cases-", dir=within))
    own = base / "profiles"
    own.mkdir()
    places: dict[str, Places] = {}
    verdicts: dict[str, Verdict] = {}
    try:
        for case in cases:
            try:
                places[case.id] = _prepare(case, base, own)
            except Missing as missing:
                verdicts[case.id] = Verdict(case.id, case.area, "SKIP", str(missing))
            except Fails as failure:
                verdicts[case.id] = Verdict(case.id, case.area, "FAIL", str(failure))
            except Exception as error:  # as below: the others still run
                why = f"the runner met {type(error).__name__}: {error}"
                verdicts[case.id] = Verdict(case.id, case.area, "FAIL", why, trace=traceback.format_exc())
            else:
                continue
            told(verdicts[case.id])
        turns = asyncio.Semaphore(jobs)
        async with Shared(base, own) as shared:

            async def one(case: Case) -> None:
                async with turns:
                    verdicts[case.id] = await _verdict(case, places[case.id], shared, base, own)
                told(verdicts[case.id])

            async with asyncio.TaskGroup() as group:
                for case in cases:
                    if case.id in places:
                        group.create_task(one(case))
    finally:
        # A killed daemon leaves an overlay's work directory, which has no mode bits.
        await asyncio.to_thread(remove_tree, base)
    return [verdicts[case.id] for case in cases]


def _prepare(case: Case, base: Path, own: Path) -> Places:
    """Directories and profile; both have to be there before the daemon is. Raises Missing for what cannot be asked,
    Fails for a case that is at fault itself."""
    if case.fault:
        raise Fails(f"the case is malformed: {case.fault}")
    if lacking := judging.missing(case.id, case.expect):
        raise Missing(lacking)
    for item in items_of(case.calls):
        kind = next((name for name in ITEMS if name in item), None)
        if kind is None:
            raise Missing(f"a way to play {', '.join(sorted(item)) or 'an empty item'}")
        if more := sorted(set(item) - {kind} - ITEMS[kind] - ANYWHERE):
            raise Missing(f"a way to play {', '.join(more)}")
        if strange := [each for each in item.get("batch_in_order", ()) if "tool" not in each]:
            raise Missing(f"a way to play {', '.join(sorted(strange[0]))} within a turn")
        if "then" in item and not asking.known(item["then"]):
            raise Missing(f"a way to answer {item['then'][:80]!r}")
        for name in ("outside", "at_pause", "while_pending"):
            if name in item and item[name] not in profiles.TIGHTENED:
                _must_compile(item[name], name)
    if "pause" in case.config():
        pausing.point_of(str(case.config()["pause"]))
    if "fault_injection" in case.config():
        raise Missing(f"a way to make {case.config()['fault_injection']!r} happen")
    places = planting.laid_out(case, base)
    text = profiles.text_for(case, places)
    if text is not None:
        (own / f"{profiles.name_of(case)}.toml").write_text(text)
    return places


def _must_compile(code: str, what: str) -> None:
    try:
        compile(code, "<case>", "exec")
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        raise Missing(f"`{what}` in words: {code[:80]!r}") from None


async def _verdict(case: Case, places: Places, shared: Shared, base: Path, own: Path) -> Verdict:
    started = time.monotonic()

    def verdict(word: Any, why: str = "", trace: str = "") -> Verdict:
        return Verdict(case.id, case.area, word, why, time.monotonic() - started, trace)

    try:
        async with asyncio.timeout(_CASE_S), _daemon(case, shared, base, own) as (daemon, connection):
            await _played(case, places, daemon, connection, own)
    except Missing as missing:
        return verdict("SKIP", str(missing))
    except Fails as failure:
        return verdict("FAIL", str(failure))
    except TimeoutError:
        return verdict("FAIL", f"it was not over after {_CASE_S:g} s")
    except Exception as error:
        # Whatever one case does to the runner, the others still run.
        inner: BaseException = error
        while isinstance(inner, BaseExceptionGroup):
            inner = inner.exceptions[0]
        if isinstance(inner, Missing):
            return verdict("SKIP", str(inner))
        if isinstance(inner, Fails):
            return verdict("FAIL", str(inner))
        return verdict("FAIL", f"the runner met {type(inner).__name__}: {inner}", traceback.format_exc())
    return verdict("PASS")


async def _played(case: Case, places: Places, daemon: CaseDaemon, connection: Daemon, own: Path) -> None:
    """Raises Fails, Missing."""
    offered = {tool.name for tool in await connection.tools()}
    wanted = dict.fromkeys(call["tool"] for item in case.calls for call in calls_of(item))
    if absent := [name for name in wanted if name not in offered]:
        raise Missing(f"the tool{'s' if len(absent) > 1 else ''} {', '.join(absent)}")
    profile = await _profile(case, places, connection, own)
    planting.plant(case, places)
    played = Played(case, places, daemon_pid=daemon.pid)
    judging.remember(played)
    measured = "max_rss_growth_mb" in case.expect
    resting = resident(daemon.pid)
    if measured:
        forget_peak(daemon.pid)
    async with AsyncExitStack() as owned:
        await Player(played, daemon, connection, profile, owned).play(asks=bool(profiles.asking(case)))
        played.daemon_pid = daemon.pid
        if measured:
            played.grown = resident(daemon.pid, "VmHWM") - resting
        judging.judge(played)


async def _profile(case: Case, places: Places, connection: Daemon, own: Path) -> str:
    text = profiles.text_for(case, places)
    if text is None:
        return "ci"
    name = profiles.name_of(case)
    if mistakes := await connection.profiles.check(own / f"{name}.toml"):
        raise Missing(f"a profile that says so: {mistakes[0].reason}")
    return name


@asynccontextmanager
async def _daemon(case: Case, shared: Shared, base: Path, own: Path) -> AsyncIterator[tuple[CaseDaemon, Daemon]]:
    """The shared one, or one of the case's own where it changes it or measures it."""
    config = case.config()
    environment: dict[str, str] = {}
    for item in case.setup:
        if item["kind"] == "daemon_env":
            environment |= item["vars"]
    environment |= config.get("daemon_env", {})
    changes = any("daemon" in item or "daemon_event" in item for item in items_of(case.calls))
    if not (environment or changes or _OWN & config.keys() or "max_rss_growth_mb" in case.expect):
        yield await shared.get()
        return
    directory = base / f"own-{profiles.name_of(case)}"
    daemon = CaseDaemon(directory, base, own, environment, umask=int(str(config.get("umask", "022")), 8))
    if "pause" in config:
        daemon.environment = {**environment, **pausing.variables(str(directory), str(config["pause"]))}
        daemon.module = pausing.MODULE
    async with running(daemon), connect(daemon.address) as connection:
        yield daemon, connection
