"""`stockade run`: recorded calls in isolated workers, with a report."""

import asyncio
import time
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import replace
from typing import Literal

import click

import stockade_client as client
from stockade_client.commands import options
from stockade_client.commands.running import FAILED, INFRASTRUCTURE, OK, USAGE, a_daemon, run
from stockade_client.runs import junit, reading
from stockade_client.runs.entries import CallsFile, Fault
from stockade_client.runs.outcomes import Outcome
from stockade_client.runs.scheduling import Run, Terms, lease_of, units
from stockade_client.runs.telling import Telling, counted, tell_faults
from stockade_client.streams import complain


class _Shard(click.ParamType[tuple[int, int]]):
    name = "i/n"

    def convert(self, value: object, param: click.Parameter | None, ctx: click.Context | None) -> tuple[int, int]:
        first, _, second = str(value).partition("/")
        numbers = all(each.isascii() and each.isdigit() for each in (first, second))
        if numbers and 1 <= int(first) <= int(second):
            return int(first), int(second)
        self.fail(f"{value!r} is no part of a whole; give one such as 1/3, 2/3 or 3/3", param, ctx)


@click.command()
@click.argument("places", metavar="FILE.jsonl|DIR…", nargs=-1, required=True, callback=options.each_named)
@options.profile()
@options.workspace()
@click.option(
    "--jobs", "-j", type=click.IntRange(min=1, max=256), default=1, show_default=True, help="So many at once."
)
@click.option("--junit", "report", metavar="FILE", callback=options.named, help="Write a report as JUnit XML.")
@options.as_json()
@click.option(
    "--isolation",
    type=click.Choice(["entry", "run"]),
    help="Each entry on a copy of its own, or the entries of a file, in their order, on one.  [default: what the file "
    "says, else entry]",
)
@click.option("--only", metavar="PATTERN", default="", help="Entries whose names match, with * ? [ ].")
@click.option("--shard", type=_Shard(), default="1/1", help="The i-th of n parts of the entries.")
@click.option(
    "--timeout",
    type=click.FloatRange(min=0, min_open=True),
    metavar="SECONDS",
    help="For each entry that has no timeout_s of its own.",
)
@click.option("--fail-fast", is_flag=True, help="Begin nothing more after the first that does not pass.")
@click.option("--keep-going", is_flag=True, help="Where lines cannot be used, play the others.")
@options.yes()
@options.private()
def command(
    places: tuple[str, ...],
    profile: str,
    workspace: str,
    jobs: int,
    report: str | None,
    as_json: bool,
    isolation: Literal["entry", "run"] | None,
    only: str,
    shard: tuple[int, int],
    timeout: float | None,
    fail_fast: bool,
    keep_going: bool,
    yes: bool,
) -> None:
    """Play recorded calls, each entry in workers and on a copy of the workspace of its own.

    A line of a FILE is an entry: a call, or calls that belong together, and what they are expected to come to;
    docs/ci.md has the format, and `stockade record` writes it. Of a DIR all *.jsonl in it and below are played. The
    workspace is not changed, and entries that go on at once never see each other.

    What an entry runs on may fail (a worker is killed from outside, the daemon goes away): it is played once more, and
    if that happens again it is reported as infrastructure, not as a failure of the tool.

    Exit status: 0 all passed, 1 some did not, 2 usage, or lines that cannot be used, 3 daemon or infrastructure,
    130 interrupted; the report tells what was played until then.
    """

    async def body() -> int:
        junit.check(report)
        files = [reading.read(each) for each in reading.files_of(places)]
        faults = [fault for file in files for fault in file.faults]
        terms = Terms(workspace, profile, jobs, yes, fail_fast, timeout)

        def planned(files: list[CallsFile]) -> tuple[Run, Telling]:
            chosen = units(files, isolation=isolation, only=only, shard=shard)
            telling = Telling(as_json=as_json, total=sum(len(unit.entries) for unit in chosen))
            return Run(chosen, terms, telling), telling

        played, telling = planned(files)
        if not played.outcomes and not faults:
            raise client.InvalidRequest(_none_chosen(only, shard))
        written = _Report(report, {"profile": profile, "workspace": workspace})
        # At once, and again when more is known: what stands there is never the report of an earlier run.
        written.write(played.outcomes, faults)
        examined = False
        try:
            async with a_daemon() as daemon:
                written.properties, unknown = await _examined(daemon, workspace, profile, files)
                faults = sorted([*faults, *unknown], key=lambda each: (each.file, each.line, each.column))
                examined = True
                played, telling = planned(_without(files, unknown))
                if faults and not keep_going:
                    written.write(played.outcomes, faults)
                    return _nothing_run(faults)
                tell_faults(faults)
                try:
                    with telling.shown():
                        await played.play(_first(daemon))
                finally:
                    # Before a private daemon is waited for, and also where the run was interrupted.
                    written.write(played.outcomes, faults)
                    telling.over(played.outcomes, faults, written.seconds)
        except client.StockadeError as error:
            if examined or not faults:
                raise
            # The lines are wrong whatever the daemon says; only its tools and codes are not known.
            complain(str(error))
            return _nothing_run(faults)
        except asyncio.CancelledError:
            complain(_interrupted(played.outcomes, report))
            raise
        return _status(played.outcomes, faults)

    run(body)


class _Report:
    """The report of one run, where one is wanted."""

    def __init__(self, path: str | None, properties: dict[str, str]) -> None:
        self._path = path
        self._began, self._before = time.time(), time.monotonic()
        self.properties = properties

    @property
    def seconds(self) -> float:
        """Since the run began."""
        return time.monotonic() - self._before

    def write(self, outcomes: Sequence[Outcome], faults: Sequence[Fault]) -> None:
        """Raises OSError."""
        if self._path is not None:
            junit.write(self._path, outcomes, faults, self.properties, began=self._began)


def _interrupted(outcomes: Sequence[Outcome], report: str | None) -> str:
    over = sum(each.kind != "not run" for each in outcomes)
    told = "" if report is None else f"; the report {report!r} has the others as skipped"
    return f"interrupted: {over} of {counted(len(outcomes), 'entry', 'entries')} came to an end{told}"


def _none_chosen(only: str, shard: tuple[int, int]) -> str:
    chosen = [f"--only {only!r}"] if only else []
    if shard != (1, 1):
        chosen.append(f"--shard {shard[0]}/{shard[1]}")
    return f"no entry is chosen by {' and '.join(chosen)}"


def _nothing_run(faults: Sequence[Fault]) -> int:
    tell_faults(faults)
    complain("nothing was run; put that right, or have everything else run with --keep-going")
    return USAGE


async def _examined(
    daemon: "client.Daemon", workspace: str, profile: str, files: list[CallsFile]
) -> tuple[dict[str, str], list[Fault]]:
    """What a report says of the run, and the calls that cannot be. Raises where no session can be opened."""
    async with daemon.session(workspace, profile, lease_s=lease_of(daemon)) as session:
        info = session.info
        tools = [each.name for each in await session.tools()]
    codes = [each.code for each in (await daemon.catalog()).errors]
    properties = {"profile": profile, "profile_digest": info.profile_digest, "workspace": info.workspace}
    properties["stockade"] = daemon.info.version
    return properties, list(reading.unknown(files, tools, codes))


def _without(files: list[CallsFile], faults: Sequence[Fault]) -> list[CallsFile]:
    """The files without the entries that have a call with one of these faults."""
    lines = {(fault.file, fault.line) for fault in faults}
    return [
        replace(file, entries=tuple(each for each in file.entries if (each.file, each.line) not in lines))
        for file in files
    ]


def _first(daemon: "client.Daemon") -> Callable[[], AbstractAsyncContextManager["client.Daemon"]]:
    """This daemon, and if it has gone the next one that there is."""
    given: list[client.Daemon] = []

    @asynccontextmanager
    async def one() -> AsyncIterator[client.Daemon]:
        if given:
            async with a_daemon() as another:
                yield another
        else:
            given.append(daemon)
            yield daemon

    return one


def _status(outcomes: Sequence[Outcome], faults: Sequence[Fault]) -> int:
    """A line that cannot be used says the most, then a failure: an infrastructure that failed as well is no excuse."""
    if faults:
        return USAGE
    kinds = {each.kind for each in outcomes}
    if kinds & {"failed", "timeout"}:
        return FAILED
    return INFRASTRUCTURE if "infrastructure" in kinds else OK
