"""What a session may use in all: the budget of its profile."""

import asyncio
from pathlib import Path
from typing import Any

import pytest

from stockade_client import Daemon
from stockade_daemon.policy.budget import Spent
from stockade_daemon.policy.decisions import Deny
from tests.end_to_end.stockaded import Stockaded
from tests.pipeline.conftest import Staged


def code(result: Any) -> str:
    return "ok" if result["ok"] else str(result["error"]["code"])


@pytest.mark.parametrize("settings", ["budget.calls = 2\n"])
async def test_calls_that_policy_lets_run_are_counted_and_no_others(staged: Staged) -> None:
    async def no_writes(judged: Any, following: Any) -> Any:
        return Deny("no") if judged.call.tool == "edit" else await following()

    staged.services.pre_execute.add(no_writes)
    staged.services.guards.add(lambda judged: "no" if judged.call.call_id == "guarded" else None)
    await staged.call("denied", "edit", path="a.txt", old_string="a", new_string="b")
    await staged.call("guarded", "read", path="a.txt")
    assert [code(await staged.call(f"c{n}", "read", path="a.txt")) for n in range(3)] == ["ok", "ok", "DENIED"]
    assert "budget of 2 calls (budget.calls)" in (await staged.body("c2", "policy/guards"))["reason"]
    assert "call/dispatched" not in await staged.types("c2")


@pytest.mark.parametrize("settings", ["budget.calls = 5\n"])
async def test_calls_at_the_same_time_do_not_exceed_the_budget(staged: Staged) -> None:
    results = await asyncio.gather(*(staged.call(f"c{n}", "read", path="a.txt") for n in range(20)))
    assert [code(result) for result in results].count("ok") == 5


@pytest.mark.parametrize("settings", ["budget.seconds = 1\n"])
async def test_the_time_of_bodies_is_counted(staged: Staged) -> None:
    assert code(await staged.call("c1", "shell", command="sleep 1.05")) == "ok"
    assert "budget.seconds" in (await staged.call("c2", "shell", command="true"))["error"]["message"]


@pytest.mark.parametrize("settings", ["budget.output_mb = 1\n"])
async def test_the_bytes_of_results_are_counted(staged: Staged) -> None:
    count = 0
    command = "seq 100000 | head -c 200000"
    while code(result := await staged.call(f"c{count}", "shell", command=command)) == "ok":
        count += 1
    assert "budget.output_mb" in result["error"]["message"]
    spent = Spent()
    for event in await staged.ledger.read("s"):
        spent.learn(event.type, event.body)
    assert spent.calls == count
    assert spent.output_bytes >= 1024 * 1024


async def test_a_session_may_be_given_less_and_never_more(daemon: Daemon, workspace: Path) -> None:
    async with daemon.session(workspace=workspace, profile="dev", tightening="budget.calls = 1") as session:
        assert (await session.call("read", path="a.txt")).ok
        result = await session.call("read", path="a.txt")
        assert result.error is not None
        assert result.error.code == "DENIED"


def test_what_is_spent_survives_a_restart_of_the_daemon(scratch: Path, workspace: Path) -> None:
    place = scratch / "budget"
    place.mkdir()
    daemon = Stockaded(place, workspaces=workspace)
    daemon.start()
    try:
        assert asyncio.run(_call(daemon, workspace)) == "ok"
        daemon.end()
        daemon.start()
        assert asyncio.run(_call(daemon, workspace)) == "DENIED"
    finally:
        daemon.end()


async def _call(stockaded: Stockaded, workspace: Path) -> str:
    from stockade_client import connect

    async with (
        connect(stockaded.address) as daemon,
        daemon.session(workspace=workspace, profile="dev", id="kept", tightening="budget.calls = 1") as session,
    ):
        result = await session.call("read", path="a.txt")
        return result.error.code if result.error else "ok"
