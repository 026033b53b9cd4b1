"""Others change the workspace while a commit is under way: nothing of theirs is lost, nothing outside is touched."""

import asyncio
import os
import threading
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from stockade_daemon.errors import GateRefusal, Refusal
from stockade_daemon.gate import locks, syscalls
from stockade_daemon.gate.content import digest_of
from stockade_daemon.gate.gate import Gate
from stockade_daemon.gate.intents import Committed
from stockade_daemon.gate.workspace import Workspace
from stockade_daemon.values import Json

if TYPE_CHECKING:
    from tests.gate.conftest import Actor

Refused = Callable[..., AbstractContextManager[None]]


async def test_of_two_edits_one_wins_and_the_other_is_stale(
    sessions: Callable[[], "Actor"], root: Path, refused: Refused
) -> None:
    (root / "a").write_bytes(b"0\n")
    (root / "link").symlink_to("a")
    one, two = sessions(), sessions()
    await one.read("a")
    await two.read("link")
    plans = [await one.plan_edit("a", b"0", b"one"), await two.plan_edit("link", b"0", b"two")]
    results = await asyncio.gather(one.commit(plans[0]), two.commit(plans[1]), return_exceptions=True)
    losers = [result for result in results if isinstance(result, GateRefusal)]
    assert [loser.code for loser in losers] == ["FS_STALE_VERSION"]
    winner = next(result for result in results if isinstance(result, Committed))
    assert (root / "a").read_bytes() == {0: b"one\n", 1: b"two\n"}[results.index(winner)]
    assert not locks._entries


async def test_two_names_of_one_file_exclude_each_other(sessions: Callable[[], "Actor"], root: Path) -> None:
    (root / "a").write_bytes(b"0\n")
    os.link(root / "a", root / "b")
    one, two = sessions(), sessions()
    await one.read("a")
    await two.read("b")
    plans = [await one.plan_write("a", b"one\n"), await two.plan_write("b", b"two two\n")]
    results = await asyncio.gather(one.commit(plans[0]), two.commit(plans[1]), return_exceptions=True)
    assert sorted(type(result).__name__ for result in results) == ["Committed", "GateRefusal"]
    assert (root / "a").read_bytes() in (b"one\n", b"two two\n")


async def test_sessions_on_a_directory_and_on_one_within_share_the_lock(root: Path, actor: "Actor") -> None:
    (root / "d").mkdir()
    (root / "d/a").write_bytes(b"0\n")
    with Workspace.open(str(root / "d")) as inner:
        other = type(actor)(Gate(inner), [])
        await actor.read("d/a")
        await other.read("a")
        plans = [await actor.plan_write("d/a", b"one\n"), await other.plan_write("a", b"two\n")]
        results = await asyncio.gather(actor.commit(plans[0]), other.commit(plans[1]), return_exceptions=True)
    assert sorted(type(result).__name__ for result in results) == ["Committed", "GateRefusal"]


@pytest.mark.parametrize("change", ["replaced", "written", "removed", "directory", "link"])
async def test_what_happens_at_the_last_moment_survives(
    actor: "Actor", root: Path, outside: Path, refused: Refused, monkeypatch: pytest.MonkeyPatch, change: str
) -> None:
    """The outsider acts between our last look and the exchange."""
    (root / "a").write_bytes(b"1\n")
    (outside / "s").write_bytes(b"1\n")
    await actor.read("a")
    planned = await actor.plan_edit("a", b"1", b"2")

    def outsider() -> None:
        match change:
            case "replaced":
                (root / "t").write_bytes(b"theirs\n")
                (root / "t").rename(root / "a")
            case "written":
                (root / "a").write_bytes(b"theirs\n")
            case "removed":
                (root / "a").unlink()
            case "directory":
                (root / "a").unlink()
                (root / "a").mkdir()
                (root / "a/theirs").touch()
            case "link":
                (root / "a").unlink()
                (root / "a").symlink_to(outside / "s")

    real = syscalls.renameat2
    once = iter([outsider])

    def renameat2(directory: int, old: bytes, new: bytes, flags: int) -> None:
        next(once, lambda: None)()
        real(directory, old, new, flags)

    monkeypatch.setattr(syscalls, "renameat2", renameat2)
    codes = {"directory": "FS_IS_DIRECTORY", "link": "FS_OUTSIDE_WORKSPACE"}
    with refused(codes.get(change, "FS_STALE_VERSION")):
        await actor.commit(planned)
    assert os.listdir(root) == ([] if change == "removed" else ["a"])
    if change in ("replaced", "written"):
        assert (root / "a").read_bytes() == b"theirs\n"
    if change == "directory":
        assert os.listdir(root / "a") == ["theirs"]
    assert (outside / "s").read_bytes() == b"1\n"


async def test_a_formatter_that_writes_the_same_bytes_at_the_last_moment_is_no_reason_to_refuse(
    actor: "Actor", root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (root / "a").write_bytes(b"1\n")
    await actor.read("a")
    real = syscalls.renameat2
    once = iter([True])

    def renameat2(directory: int, old: bytes, new: bytes, flags: int) -> None:
        if next(once, False):
            (root / "t").write_bytes(b"1\n")
            (root / "t").chmod(0o755)
            (root / "t").rename(root / "a")
        real(directory, old, new, flags)

    monkeypatch.setattr(syscalls, "renameat2", renameat2)
    await actor.edit("a", b"1", b"2")
    assert (root / "a").read_bytes() == b"2\n"
    assert (root / "a").stat().st_mode & 0o777 == 0o755  # the newest mode is the one that is kept
    assert os.listdir(root) == ["a"]


@pytest.mark.usefixtures("either_way")
async def test_a_directory_exchanged_with_a_link_leads_nowhere(actor: "Actor", root: Path, outside: Path) -> None:
    """`d` is a directory and a link out by turns, as fast as a thread can, while files in it are made and changed."""
    (root / "real").mkdir()
    (root / "evil").symlink_to(outside)
    for directory in (root / "real", outside):
        (directory / "victim").write_bytes(b"0\n")
    (root / "d").symlink_to("real")
    stop = threading.Event()
    descriptor = os.open(root, os.O_PATH)

    def exchange() -> None:
        (root / "d").unlink()
        os.rename(root / "real", root / "d")
        while not stop.is_set():
            syscalls.renameat2(descriptor, b"d", b"evil", syscalls.RENAME_EXCHANGE)

    thread = threading.Thread(target=exchange)
    thread.start()
    made = 0
    try:
        for number in range(400):
            try:
                await actor.write(f"d/{number}", b"x\n")
                made += 1
                await actor.read("d/victim")
                await actor.write("d/victim", b"%d\n" % number)
            except Refusal as refusal:
                assert refusal.code in (  # noqa: PT017
                    "FS_OUTSIDE_WORKSPACE", "FS_CONFLICT", "FS_STALE_VERSION", "FS_NOT_FOUND", "FS_NOT_OBSERVED"
                ), refusal.message  # fmt: skip
    finally:
        stop.set()
        thread.join()
        os.close(descriptor)
    assert os.listdir(outside) == ["victim"]
    assert (outside / "victim").read_bytes() == b"0\n"
    assert made


async def test_a_file_that_is_a_fifo_by_turns_hangs_nothing(actor: "Actor", root: Path) -> None:
    (root / "a").write_bytes(b"1\n")
    os.mkfifo(root / "p")
    with _exchanging(root, b"a", b"p"):
        for _ in range(300):
            try:
                assert await actor.read("a") == b"1\n"
            except Refusal as refusal:
                assert refusal.code in ("FS_NOT_REGULAR_FILE", "FS_CONFLICT")  # noqa: PT017


async def test_an_editor_that_saves_all_the_time_loses_nothing(actor: "Actor", root: Path) -> None:
    """The editor saves by rename, as editors do, and looks whether its last version was seen before it was replaced."""
    file = root / "a"
    file.write_bytes(b"editor 0\n")
    stop = threading.Event()
    saved: list[bytes] = []

    def editor() -> None:
        while not stop.is_set() and len(saved) < 2000:
            text = b"editor %d\n" % (len(saved) + 1)
            (root / "t").write_bytes(text)
            os.rename(root / "t", file)
            saved.append(text)

    thread = threading.Thread(target=editor)
    thread.start()
    committed = 0
    try:
        while thread.is_alive() and committed < 50:
            try:
                await actor.read("a")
                await actor.write("a", b"ours\n")
                committed += 1
            except Refusal as refusal:
                assert refusal.code in ("FS_STALE_VERSION", "FS_CONFLICT"), refusal.message  # noqa: PT017
    finally:
        stop.set()
        thread.join()
    assert file.read_bytes() in (saved[-1], b"ours\n")
    if file.read_bytes() == b"ours\n":
        # Ours stands last only if what it replaced was the editor's last version, or ours again.
        assert actor.begun[-1]["before"] in (digest_of(saved[-1]), digest_of(b"ours\n"))
    assert [name for name in os.listdir(root) if name != "t"] == ["a"]


async def test_a_refusal_after_begun_leaves_the_old_bytes(actor: "Actor", root: Path, refused: Refused) -> None:
    (root / "a").write_bytes(b"1\n")
    await actor.read("a")
    planned = await actor.plan_edit("a", b"1", b"2")

    async def begun(body: dict[str, Json]) -> None:
        (root / "a").write_bytes(b"theirs\n")

    with refused("FS_STALE_VERSION"):
        await actor.gate.commit(planned, begun=begun)
    assert (root / "a").read_bytes() == b"theirs\n"


async def test_begun_is_recorded_before_anything_changes(actor: "Actor", root: Path) -> None:
    (root / "a").write_bytes(b"1\n")
    await actor.read("a")
    planned = await actor.plan_edit("a", b"1", b"2")
    then: list[bytes] = []

    async def begun(body: dict[str, Json]) -> None:
        then.append((root / "a").read_bytes())
        assert os.listdir(root) == ["a"]
        assert (body["path"], body["operation"], body["before"]) == ("a", "update", digest_of(b"1\n"))

    await actor.gate.commit(planned, begun=begun)
    assert then == [b"1\n"]


async def test_a_ledger_that_cannot_record_stops_the_commit(actor: "Actor", root: Path) -> None:
    planned = await actor.plan_write("a", b"1\n")

    async def begun(body: dict[str, Json]) -> None:
        raise OSError("disk full")

    with pytest.raises(OSError, match="disk full"):
        await actor.gate.commit(planned, begun=begun)
    assert os.listdir(root) == []
    await actor.write("a", b"2\n")  # the lock was let go


async def test_a_cancelled_commit_that_has_begun_is_finished_and_recorded(actor: "Actor", root: Path) -> None:
    (root / "a").write_bytes(b"1\n")
    await actor.read("a")
    planned = await actor.plan_edit("a", b"1", b"2")
    reached, go_on = asyncio.Event(), asyncio.Event()
    recorded: list[Committed] = []

    async def begun(body: dict[str, Json]) -> None:
        reached.set()
        await go_on.wait()

    async def committed(done: Committed) -> None:
        recorded.append(done)

    task = asyncio.create_task(actor.gate.commit(planned, begun=begun, committed=committed))
    await reached.wait()
    task.cancel()
    await asyncio.sleep(0)
    task.cancel()
    go_on.set()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert [done.after for done in recorded] == [digest_of(b"2\n")]
    assert (root / "a").read_bytes() == b"2\n"
    await actor.edit("a", b"2", b"3")


async def test_a_cancelled_read_leaves_no_descriptor(actor: "Actor", root: Path) -> None:
    (root / "a").write_bytes(b"1\n")
    await actor.read("a")
    loop = asyncio.get_running_loop()
    before = len(os.listdir("/proc/self/fd"))
    for _ in range(20):
        task = asyncio.create_task(actor.gate.read("a"))
        await asyncio.sleep(0)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
    await loop.shutdown_default_executor()  # all threads are done, and what they made has come back
    await asyncio.sleep(0)
    assert len(os.listdir("/proc/self/fd")) <= before


@contextmanager
def _exchanging(directory: Path, one: bytes, other: bytes) -> Iterator[None]:
    """Two names change places all the time, as long as the context lasts."""
    stop = threading.Event()
    descriptor = os.open(directory, os.O_PATH)

    def exchange() -> None:
        while not stop.is_set():
            syscalls.renameat2(descriptor, one, other, syscalls.RENAME_EXCHANGE)

    thread = threading.Thread(target=exchange)
    thread.start()
    try:
        yield
    finally:
        stop.set()
        thread.join()
        os.close(descriptor)
