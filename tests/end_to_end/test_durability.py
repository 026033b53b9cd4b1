"""A daemon that is to survive power cuts syncs what it records, and the outputs beside it, before it answers."""

import shutil
import signal
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from stockade_client import connect
from tests.end_to_end.stockaded import COMMAND_S, Stockaded

STRACE = shutil.which("strace")


@contextmanager
def traced(pid: int, into: Path) -> Iterator[None]:
    """Has strace write down what a process syncs: its threads of now and those to come, and its children."""
    options = ["-f", "-y", "-e", "trace=fsync,fdatasync", "-o", str(into)]
    tracer = subprocess.Popen([str(STRACE), *options, "-p", str(pid)], stderr=subprocess.PIPE, text=True)
    assert tracer.stderr is not None
    try:
        line = tracer.stderr.readline()
        if "attached" not in line:
            pytest.skip(f"this host does not let strace look: {line.strip()}")
        yield
    finally:
        tracer.send_signal(signal.SIGINT)
        tracer.communicate(timeout=COMMAND_S)


@pytest.mark.skipif(STRACE is None, reason="strace is not installed")
@pytest.mark.parametrize(("durability", "syncs"), [("process", False), ("power", True)])
async def test_a_daemon_syncs_by_its_configuration(
    stockaded: Stockaded, workspace: Path, durability: str, syncs: bool
) -> None:
    with stockaded.configuration.open("a") as configuration:
        configuration.write(f'[ledger]\ndurability = "{durability}"\n')
    stockaded.start()
    assert stockaded.process is not None
    seen = stockaded.directory / "strace"
    with traced(stockaded.process.pid, seen):
        async with connect(stockaded.address) as daemon, daemon.session(workspace, "dev") as session:
            assert (await session.call("shell", command="head -c 100000 /dev/zero")).ok
    synced = seen.read_text()
    assert ("ledger.sqlite3-wal>" in synced) == syncs, synced
    assert (".stdout>" in synced) == syncs, synced


@pytest.mark.skipif(STRACE is None, reason="strace is not installed")
async def test_the_record_of_a_change_in_place_is_synced_before_the_old_bytes_that_it_leads_to(
    stockaded: Stockaded, workspace: Path
) -> None:
    (workspace / "alone").write_text("1\n")
    (workspace / "one").write_text("1\n")
    (workspace / "other").hardlink_to(workspace / "one")
    stockaded.start()
    assert stockaded.process is not None
    async with connect(stockaded.address) as daemon, daemon.session(workspace, "ci") as session:
        for name, records in (("alone", False), ("one", True)):
            assert (await session.call("read", path=name)).ok
            seen = stockaded.directory / f"strace-{name}"
            with traced(stockaded.process.pid, seen):
                assert (await session.call("edit", path=name, old_string="1", new_string="2")).ok
            synced = [line for line in seen.read_text().splitlines() if "sync(" in line]
            if not records:
                assert not any("ledger.sqlite3-wal>" in line for line in synced), synced
                continue
            assert "ledger.sqlite3-wal>" in synced[0], synced
            assert any(".stockade-" in line for line in synced[1:]), synced
    assert (workspace / "other").read_text() == "2\n"
