"""`stockade demo`: prepares a workspace, plays the recorded conversation on it, leaves nothing behind."""

import contextlib
import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import click

from stockade_client.commands import options
from stockade_client.commands.running import FAILED, OK, a_daemon, run
from stockade_client.demo.play import play
from stockade_client.demo.prepare import NotPrepared, prepare
from stockade_client.streams import complain
from stockade_client.terminal import console
from stockade_client.transcript import NotAsRecorded


@click.command()
@click.option(
    "--prepare",
    "prepare_only",
    metavar="DIR",
    callback=options.named,
    help="Only make the workspace, in this directory.",
)
@click.option(
    "--workspace", metavar="DIR", callback=options.named, help="Play on a directory that was prepared before."
)
@click.option(
    "--cache",
    metavar="DIR",
    callback=options.named,
    help="Keep the fetched archive here.  [default: the user's cache]",
)
@click.option("--keep", is_flag=True, help="Keep the temporary workspace and print where it is.")
@options.private()
def command(prepare_only: str | None, workspace: str | None, cache: str | None, keep: bool) -> None:
    """Watch an agent fix a fault in a real program.

    The program is a small package from PyPI, fetched by pip and pinned by its hash. The model and the person are
    recorded; the daemon, its sandboxes, the gate and the ledger are real.

    Exit status: 0 all went as recorded, 1 something did not.
    """
    if prepare_only is not None and workspace is not None:
        raise click.UsageError("give --prepare or --workspace, not both")

    async def body() -> int:
        if prepare_only is not None:
            return await _prepared(Path(prepare_only), cache)
        if workspace is not None:
            return await _played(workspace)
        with _temporary(keep) as directory:
            target = directory / "xmltodict"
            status = await _prepared(target, cache)
            if status != OK:
                return status
            if keep:
                print(f"the workspace stays in {target}", flush=True)
            return await _played(str(target))

    run(body)


async def _prepared(target: Path, cache: str | None) -> int:
    try:
        with _cache(cache) as kept:
            await prepare(target, kept)
    except NotPrepared as error:
        complain(str(error))
        return FAILED
    return OK


async def _played(workspace: str) -> int:
    async with a_daemon() as daemon:
        try:
            await play(daemon, workspace, console())
        except NotAsRecorded as error:
            complain(str(error))
            return FAILED
    return OK


@contextmanager
def _temporary(keep: bool) -> Iterator[Path]:
    if keep:
        directory = Path(tempfile.mkdtemp(prefix="stockade-demo-"))
        try:
            yield directory
        finally:
            # Nothing was made in it where the archive could not be fetched.
            with contextlib.suppress(OSError):
                directory.rmdir()
        return
    with tempfile.TemporaryDirectory(prefix="stockade-demo-") as name:
        yield Path(name)


@contextmanager
def _cache(named: str | None) -> Iterator[Path]:
    """The directory given, else the user's cache, else one that is thrown away: a home can be read-only."""
    if named is not None:
        yield Path(named)
        return
    base = os.environ.get("XDG_CACHE_HOME") or os.path.join(os.path.expanduser("~"), ".cache")
    usual = Path(base, "stockade")
    with contextlib.suppress(OSError):
        usual.mkdir(parents=True, exist_ok=True)
    if os.access(usual, os.W_OK):
        yield usual
        return
    with tempfile.TemporaryDirectory(prefix="stockade-cache-") as name:
        yield Path(name)
