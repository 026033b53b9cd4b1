"""A session on a copy of its workspace: everything works as on the workspace itself, which is not touched."""

import asyncio
import os
import signal
from pathlib import Path

import pytest

from stockade_client import AlreadyExists, NoAnswer, NotPossible, connect, connection, link
from tests.end_to_end.stockaded import Stockaded
from tests.scripts.snapshot import differences, snapshot


def copies(shared: Stockaded) -> set[str]:
    """The sessions that have a copy: others' among them, whose clients were ended by other tests."""
    return {each.removeprefix("of-") for each in os.listdir(shared.state / "copies")}


async def test_what_a_session_on_a_copy_changes_the_workspace_and_other_copies_do_not_see(
    shared: Stockaded, workspace: Path
) -> None:
    (workspace / "absolute").symlink_to(workspace / "a.txt")
    (workspace / "second").hardlink_to(workspace / "a.txt")
    before = snapshot(workspace)
    async with (
        connect(shared.address) as daemon,
        daemon.session(workspace, "ci", workspace_view="copy") as one,
        daemon.session(workspace, "ci", workspace_view="copy") as other,
    ):
        assert one.info.workspace_view == "copy"
        assert one.info.workspace == str(workspace)
        # Tools, by relative and absolute names and through links; commands, on what tools have changed.
        assert (await one.call("read", path="absolute")).ok
        edited = await one.call("edit", path=str(workspace / "a.txt"), old_string="two", new_string="TWO")
        assert edited.ok, edited.error
        ran = await one.call("shell", command=f"pwd; cat {workspace}/second; echo new >> a.txt; mkdir d; mv a.txt d/")
        assert ran.ok, ran.error
        assert ran.field("stdout") == f"{workspace}\none\nTWO\nthree\n"
        assert ran.field("effects_disposition") == "committed"
        assert (await one.call("read", path="d/a.txt")).text.count("new") == 1
        seen = await other.call("shell", command="ls; cat a.txt")
        assert seen.field("stdout") == "a.txt\nabsolute\nsecond\none\ntwo\nthree\n"
        both = await asyncio.gather(
            *(each.call("write", path="same", content=each.session_id) for each in (one, other))
        )
        assert [each.ok for each in both] == [True, True]
        for each in (one, other):
            assert (await each.call("shell", command="cat same")).field("stdout") == each.session_id
    assert differences(before, snapshot(workspace)) == []
    assert copies(shared).isdisjoint({one.session_id, other.session_id})


async def test_discarded_effects_are_told_by_what_the_copy_has(shared: Stockaded, workspace: Path) -> None:
    discarding = 'approval.effects = "discard"'
    async with (
        connect(shared.address) as daemon,
        daemon.session(workspace, "ci", workspace_view="copy", tightening=discarding) as session,
    ):
        (workspace / "later").write_text("not in the copy")
        result = await session.call("shell", command="echo x > later; echo y >> a.txt")
    effects = result.field("effects")
    assert isinstance(effects, list)
    changes = {each["path"]: each["change"] for each in effects if isinstance(each, dict)}
    assert changes == {"later": "created", "a.txt": "changed"}


async def test_a_session_on_a_copy_is_resumed_as_one_and_as_nothing_else(shared: Stockaded, workspace: Path) -> None:
    async with connect(shared.address) as daemon:
        async with daemon.session(workspace, "ci", id="on-a-copy", workspace_view="copy") as session:
            assert (await session.call("shell", command="echo kept > b")).ok
        (workspace / "b").write_text("of the workspace")
        async with daemon.session(workspace, "ci", id="on-a-copy", workspace_view="copy") as session:
            assert (await session.call("shell", command="cat b")).field("stdout") == "kept\n"
        async with daemon.session(id="on-a-copy") as session:
            assert session.info.workspace_view == "copy"
        with pytest.raises(AlreadyExists, match="a copy of the workspace"):
            async with daemon.session(workspace, "ci", id="on-a-copy"):
                pass
        async with daemon.session(workspace, "ci", id="on-itself"):
            pass
        with pytest.raises(AlreadyExists, match="the workspace itself"):
            async with daemon.session(workspace, "ci", id="on-itself", workspace_view="copy"):
                pass
        await daemon.close_session("on-itself")
        await daemon.close_session("on-a-copy")
    assert "on-a-copy" not in copies(shared)


async def test_many_requests_for_one_session_make_one_copy(shared: Stockaded, workspace: Path) -> None:
    for number in range(300):
        (workspace / f"{number}").write_bytes(b"x" * 1000)

    async def opened() -> int:
        async with (
            connect(shared.address) as daemon,
            daemon.session(workspace, "ci", id="of-many", workspace_view="copy") as session,
        ):
            return session.info.opened_ms

    assert len(set(await asyncio.gather(*(opened() for _ in range(8))))) == 1
    assert [each for each in os.listdir(shared.state / "copies") if "of-many" in each] == ["of-of-many"]
    async with connect(shared.address) as daemon:
        await daemon.close_session("of-many")


async def test_names_that_a_command_guesses_do_not_keep_a_copy_from_being_removed(
    stockaded: Stockaded, workspace: Path
) -> None:
    stockaded.start()
    assert stockaded.process is not None
    async with connect(stockaded.address) as daemon:
        async with daemon.session(workspace, "ci", id="s", workspace_view="copy") as session:
            names = f"{{.,}}{{1..9}}-{stockaded.process.pid}/x"
            assert (await session.call("shell", command=f"mkdir -p {names} q/w r/w")).ok
            assert "s" in copies(stockaded)
        await daemon.close_session("s")
    assert os.listdir(stockaded.state / "copies") == []


async def test_a_session_on_a_copy_ends_with_a_daemon_that_is_killed(stockaded: Stockaded, workspace: Path) -> None:
    stockaded.start()
    before = snapshot(workspace)
    async with connect(stockaded.address) as daemon:
        async with daemon.session(workspace, "ci", id="s", workspace_view="copy") as session:
            assert (await session.call("shell", command="echo x > b")).ok
            call = await session.start("shell", call_id="c", command="touch begun; sleep 600")
            async with session.events(follow=True, call_id="c") as events:
                async for event in events:
                    if event.type == "call/dispatched":
                        break
            stockaded.end(signal.SIGKILL)
            stockaded.start()
            result = await call.result()
        assert result.error is not None
        assert result.error.code == "TOOL_OUTCOME_UNKNOWN"
        assert (await daemon.get_session("s")).state == "closed"
        with pytest.raises(NotPossible, match="closed"):
            async with daemon.session(workspace, "ci", id="s", workspace_view="copy"):
                pass
    assert os.listdir(stockaded.state / "copies") == []
    assert differences(before, snapshot(workspace)) == []
    assert stockaded.end() == 0
    assert not (stockaded.state / "copies").exists()


async def test_a_copy_may_take_longer_than_opening_a_session_does(
    shared: Stockaded, workspace: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with connect(shared.address) as daemon:
        monkeypatch.setattr(link, "ANSWER_S", 0.0)
        monkeypatch.setattr(connection, "OPEN_S", 0.000001)
        with pytest.raises(NoAnswer):
            async with daemon.session(workspace, "ci"):
                pass
        async with daemon.session(workspace, "ci", workspace_view="copy") as session:
            assert (await session.call("read", path="a.txt")).ok
