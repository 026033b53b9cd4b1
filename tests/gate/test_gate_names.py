"""One file under several names (hard links), and what a session knows of it after its own change."""

import asyncio
import os
import threading
from collections.abc import Callable
from contextlib import AbstractContextManager
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from stockade_daemon.gate.gate import Gate
from stockade_daemon.gate.intents import Committed, Planned
from stockade_daemon.gate.publish import Method, publish
from stockade_daemon.gate.workspace import Workspace
from stockade_daemon.values import Json

if TYPE_CHECKING:
    from tests.gate.conftest import Actor

Refused = Callable[..., AbstractContextManager[None]]


@pytest.fixture
def names(root: Path) -> Path:
    """h1 and h2 are one file; same has the same bytes and is another."""
    for name in ("h1", "same"):
        (root / name).write_bytes(b"one\ntwo\nthree\n")
    os.link(root / "h1", root / "h2")
    return root


async def test_an_own_change_by_one_name_is_known_by_the_others(actor: "Actor", names: Path) -> None:
    for name in ("h1", "h2", "same"):
        await actor.read(name)
    done = await actor.edit("h1", b"one", b"1")
    assert [(seen.path, seen.digest, seen.whole) for seen in done.names_seen] == [(b"h2", done.after, True)]
    assert await actor.gate.changed_outside(100) == []
    await actor.edit("h2", b"two", b"2")
    await actor.write("h1", b"whole\n")
    assert (names / "h2").read_bytes() == b"whole\n"
    # Another file stays what it was, though its bytes were the same.
    await actor.edit("same", b"one", b"1")
    assert (names / "same").read_bytes() == b"1\ntwo\nthree\n"


async def test_what_was_seen_in_part_stays_a_part(actor: "Actor", names: Path, refused: Refused) -> None:
    await actor.read("h1")
    await actor.read("h2", 1, 1)
    done = await actor.edit("h1", b"one", b"1")
    assert [seen.whole for seen in done.names_seen] == [True]  # what h1 shows is the same bytes, and was seen whole
    await actor.read("same", 1, 1)
    os.link(names / "same", names / "again")
    await actor.read("again", 1, 1)
    done = await actor.edit("same", b"one", b"1")
    assert [(seen.path, seen.lines) for seen in done.names_seen] == [(b"again", ((1, 1),))]
    with refused("FS_PARTIAL_OBSERVATION"):
        await actor.edit("again", b"three", b"3")


async def test_what_had_become_stale_by_another_name_stays_so(actor: "Actor", names: Path, refused: Refused) -> None:
    await actor.read("h2")
    (names / "h1").write_bytes(b"theirs\n")
    await actor.read("h1")
    done = await actor.edit("h1", b"theirs", b"ours")
    assert done.names_seen == ()
    with refused("FS_STALE_VERSION"):
        await actor.write("h2", b"x\n")


async def test_a_name_that_leads_elsewhere_by_now_is_no_other_name(
    actor: "Actor", names: Path, refused: Refused
) -> None:
    await actor.read("h1")
    await actor.read("h2")
    os.link(names / "h1", names / "h3")
    (names / "h2").unlink()
    (names / "h2").write_bytes(b"theirs\n")
    done = await actor.edit("h1", b"one", b"1")
    assert done.names_seen == ()
    with refused("FS_STALE_VERSION"):
        await actor.write("h2", b"x\n")


async def test_a_session_that_is_taken_up_again_knows_it_too(actor: "Actor", workspace: Workspace, names: Path) -> None:
    await actor.read("h1")
    await actor.read("h2")
    done = await actor.edit("h1", b"one", b"1")
    again = type(actor)(Gate(workspace), [])
    again.gate.restore(done.body())
    await again.edit("h2", b"two", b"2")
    assert (names / "h1").read_bytes() == b"1\n2\nthree\n"


async def test_another_sessions_change_by_another_name_is_told(
    sessions: Callable[[], "Actor"], names: Path, refused: Refused
) -> None:
    one, two = sessions(), sessions()
    await one.read("h1")
    await two.read("h2")
    done = await one.edit("h1", b"one", b"1")
    assert [(each.path, each.digest) for each in await two.gate.changed_outside(100)] == [(b"h2", done.after)]
    with refused("FS_STALE_VERSION"):
        await two.write("h2", b"x\n")


async def test_while_a_change_is_made_no_name_of_it_is_told_as_changed(
    actor: "Actor", names: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A look between the bytes and what the session knows of them, and an edit by the other name."""
    await actor.read("h1")
    await actor.read("h2")
    planned = await actor.plan_edit("h1", b"one", b"1")
    written, looked = threading.Event(), threading.Event()

    def slow(workspace: Workspace, planned: Planned, method: Method, name: bytes) -> str:
        happened = publish(workspace, planned, method, name)
        written.set()
        assert looked.wait(30)
        return happened

    monkeypatch.setattr("stockade_daemon.gate.gate.publish", slow)
    async with asyncio.TaskGroup() as tasks:
        commit: asyncio.Task[Committed] = tasks.create_task(actor.commit(planned))
        assert await asyncio.to_thread(written.wait, 30)
        found = await actor.gate.changed_outside(100)
        monkeypatch.setattr("stockade_daemon.gate.gate.publish", publish)
        edit = tasks.create_task(actor.edit("h2", b"two", b"2"))
        looked.set()
    assert found == []
    assert commit.result().after != edit.result().after
    assert (names / "h1").read_bytes() == b"1\n2\nthree\n"


@pytest.mark.parametrize("value", ["h2", [1], [{"path": "h2"}], {"path": "h2"}])
async def test_a_recorded_commit_whose_names_are_none_is_refused(actor: "Actor", names: Path, value: Json) -> None:
    await actor.read("h1")
    done = await actor.edit("h1", b"one", b"1")
    with pytest.raises(ValueError, match="recorded"):
        actor.gate.restore(done.body() | {"names_seen": value})
