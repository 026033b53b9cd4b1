"""A person settles what a killed daemon could not: by the SDK, by the command, and in a session that is closed."""

import json
import signal
from pathlib import Path

import pytest

from stockade_client import AlreadyExists, InvalidRequest, NotFound, NotPossible, connect
from tests.end_to_end.conftest import Stockade
from tests.end_to_end.stockaded import Stockaded


async def cut_off(stockaded: Stockaded, workspace: Path, *calls: tuple[str, str]) -> None:
    """A daemon that was killed while these calls, (session, id), ran, and its successor."""
    stockaded.start()
    async with connect(stockaded.address) as daemon:
        for session_id, call_id in calls:
            async with daemon.session(workspace, "dev", id=session_id) as session:
                call = await session.start("shell", call_id=call_id, command="echo begun; sleep 60")
                async with call.output() as chunks:
                    await anext(chunks)
        stockaded.end(signal.SIGKILL)
    stockaded.start()


async def test_the_sdk_resolves_a_call_once_and_every_wait_shows_it(stockaded: Stockaded, workspace: Path) -> None:
    await cut_off(stockaded, workspace, ("s", "c"))
    async with connect(stockaded.address) as daemon, daemon.session(id="s") as session:
        result = await daemon.resolve_unknown("s", "c", "done", "looked at the log")
        assert result.error is not None
        assert result.error.code == "TOOL_OUTCOME_UNKNOWN"
        assert result.resolution is not None
        assert (result.resolution.outcome, result.resolution.note) == ("done", "looked at the log")
        assert await daemon.resolve_unknown("s", "c", "done", "looked at the log") == result
        again = await session.start("shell", call_id="c", command="echo begun; sleep 60")
        assert (await again.result()).resolution == result.resolution
        with pytest.raises(AlreadyExists, match="resolved before"):
            await daemon.resolve_unknown("s", "c", "not-done")
        with pytest.raises(NotFound):
            await daemon.resolve_unknown("s", "nobody", "done")
        with pytest.raises(InvalidRequest, match="4096 bytes"):
            await daemon.resolve_unknown("s", "c", "done", "x" * 4097)
        other = await session.start("read", path="a.txt")
        assert (await other.result()).resolution is None
        with pytest.raises(NotPossible, match="ended with ok"):
            await other.resolve_unknown("done")


async def test_the_command_resolves_and_the_ledger_shows_it(
    stockaded: Stockaded, stockade: Stockade, workspace: Path
) -> None:
    await cut_off(stockaded, workspace, ("s", "c"), ("s", "twice"), ("t", "twice"))
    async with connect(stockaded.address) as daemon, daemon.session(id="s") as session:
        await session.close()
    done = stockade("resolve", "c", "--as", "not-done", "--note", "nothing is there", daemon=stockaded)
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout == "c of session s is resolved as not-done: nothing is there\n"
    shown = stockade("ledger", "c", daemon=stockaded).stdout.splitlines()
    assert "call/resolved" in shown[-1]
    assert "nothing is there" in shown[-1]
    for arguments, said in (
        (("c", "--as", "done"), "resolved before, as not done"),
        (("nobody", "--as", "done"), "there is no call 'nobody'"),
        (("twice", "--as", "done"), "the sessions s, t have a call 'twice'; name one with --session"),
        (("c",), "Missing option '--as'"),
    ):
        refused = stockade("resolve", *arguments, daemon=stockaded)
        assert refused.returncode == 2
        assert said in refused.stderr
    one = stockade("resolve", "twice", "--as", "done", "--session", "t", "--json", daemon=stockaded)
    assert one.returncode == 0
    found = json.loads(one.stdout)
    assert found["resolution"].keys() == {"outcome", "note", "time_ms"}
    assert (found["resolution"]["outcome"], found["error"]["code"]) == ("done", "TOOL_OUTCOME_UNKNOWN")
