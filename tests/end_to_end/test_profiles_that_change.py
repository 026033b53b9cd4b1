"""Profiles are edited while a real daemon runs: what the next call gets, and what goes on as it began."""

import asyncio
import json
import random
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
import pytest_asyncio

from stockade_client import Daemon, connect
from stockade_client.approvals import Ask
from stockade_client.errors import NotFound
from stockade_client.session import Session
from tests.end_to_end.conftest import Stockade
from tests.end_to_end.profile_admin import HANG_S, Admin, bodies, code, logged, news, printed, said
from tests.end_to_end.stockaded import Stockaded
from tests.sandbox.conftest import children


@pytest.fixture
def admin(stockaded: Stockaded, directory: Path) -> Admin:
    """`mine` is installed, and the daemon runs."""
    admin = Admin.of(stockaded, directory)
    admin.says("mine", "before")
    stockaded.start()
    return admin


@pytest_asyncio.fixture
async def daemon(admin: Admin) -> AsyncIterator[Daemon]:
    async with connect(admin.daemon.address) as daemon:
        yield daemon


@pytest_asyncio.fixture
async def session(daemon: Daemon, workspace: Path) -> AsyncIterator[Session]:
    async with daemon.session(workspace, "mine") as session:
        yield session


async def test_an_edit_is_in_force_for_the_next_call_and_a_call_under_way_goes_on(
    admin: Admin, session: Session
) -> None:
    first = session.info.profile_digest
    await asyncio.to_thread((Path(session.info.workspace) / ".env").write_text, "TOKEN\n")
    call = await session.start("shell", command="echo begun; sleep 2; echo $WORD; cat .env a.txt")
    async with call.output() as chunks:
        async for _ in chunks:
            break
    admin.says("mine", "after", 'filesystem.hidden = [".env"]')
    word, second = await said(session)
    assert (word, second != first) == ("after", True)
    seen = await session.call("shell", command="ls -A")
    assert printed(seen) == "a.txt\n"
    assert code(await session.call("read", path=".env")) == "FS_NOT_FOUND"
    result = await call.result()
    assert (printed(result), result.profile_digest) == ("begun\nbefore\nTOKEN\none\ntwo\nthree\n", first)
    (told,) = await bodies(session, "session/profile")
    assert told == {"name": "mine", "digest": second, "before": first, "source": str(admin.path("mine"))}
    calls = await bodies(session, "tool/call")
    assert [each["profile_digest"] for each in calls] == [first, second, second, second]


async def test_a_yes_to_a_change_does_not_hold_under_another_version_of_the_profile(
    admin: Admin, daemon: Daemon, workspace: Path
) -> None:
    asked = asyncio.Event()
    edited = asyncio.Event()

    async def yes(ask: Ask) -> bool:
        asked.set()
        await edited.wait()
        return True

    async with daemon.session(workspace, "mine", approve=yes) as session:
        first = session.info.profile_digest
        assert (await session.call("read", path="a.txt")).ok
        call = await session.start("edit", path="a.txt", old_string="one", new_string="1")
        await asked.wait()
        admin.says("mine", "after", 'filesystem.protected = ["a.txt"]')
        refused = await session.call("edit", path="a.txt", old_string="two", new_string="2")
        edited.set()
        done = await call.result()
    assert (code(refused), code(done)) == ("FS_PROTECTED", "APPROVAL_MISMATCH")
    assert done.profile_digest == first != refused.profile_digest
    assert await asyncio.to_thread((workspace / "a.txt").read_text) == "one\ntwo\nthree\n"


async def test_every_edit_that_is_complete_before_a_call_is_in_force_for_it(admin: Admin, session: Session) -> None:
    """In place and by renaming, of the same length, without a moment in between."""
    seed = random.randrange(1 << 32)
    print("seed", seed)
    choice = random.Random(seed)
    for _ in range(12):
        word = f"{choice.randrange(100, 999)}"
        if choice.random() < 0.5:
            admin.says("mine", word)
        else:
            text = await asyncio.to_thread(admin.path("mine").read_text)
            await asyncio.to_thread(admin.path("mine").write_text, text.rpartition("WORD")[0] + f'WORD = "{word}"\n')
        assert (await said(session))[0] == word


async def test_no_call_is_under_a_version_older_than_the_last_complete_edit(admin: Admin, session: Session) -> None:
    """Calls side by side while versions follow one another; afterwards one template is left, that of the last."""
    complete = 0
    admin.says("mine", "0")

    async def edit() -> None:
        nonlocal complete
        for number in range(1, 9):
            admin.says("mine", str(number))
            complete = number
            await said(session)

    async def call() -> None:
        seen = 0
        while seen < 8:
            floor = max(complete, seen)
            word, _ = await said(session)
            seen = int(word)
            assert seen >= floor

    async with asyncio.TaskGroup() as tasks:
        tasks.create_task(edit())
        for _ in range(3):
            tasks.create_task(call())
    changes = [each["digest"] for each in await bodies(session, "session/profile")]
    assert len(changes) == len(set(changes)) <= 9
    assert admin.daemon.process is not None
    (mounter,) = (pid for pid in children(admin.daemon.process.pid) if children(pid))
    async with asyncio.timeout(HANG_S):
        while len(await asyncio.to_thread(children, mounter)) > 1:  # noqa: ASYNC110 (a process's end)
            await asyncio.sleep(0)


async def test_an_edited_base_is_an_edit_of_what_extends_it(admin: Admin, session: Session) -> None:
    admin.write("mine", 'extends = "base"\n')
    admin.says("base", "low")
    assert (await said(session))[0] == "low"
    admin.says("base", "high")
    assert (await said(session))[0] == "high"
    admin.write("base", "limits = 1\n")
    assert (await said(session))[0] == "high"
    assert f"{admin.path('base')}:1:1: `limits`" in (await bodies(session, "profile/refused"))[-1]["reason"]


async def test_a_broken_edit_is_refused_and_the_last_good_version_stays(
    admin: Admin, daemon: Daemon, session: Session, workspace: Path
) -> None:
    before = await said(session)
    admin.write("mine", "[limits]\nwal_s = 3\n")
    assert await said(session) == before
    async with daemon.session(workspace, "mine") as other:
        assert await said(other) == before
        assert len(await bodies(other, "profile/refused")) == 1
    place = f"{admin.path('mine')}:2:1: unknown key 'wal_s'"
    (told,) = await bodies(session, "profile/refused")
    assert told["reason"].startswith(place)
    assert (told["name"], told["digest"], told["calls"]) == ("mine", before[1], "run")
    assert "its last good version stays" in await logged(admin.daemon, place)
    admin.write("mine", "[limits]\nwal_s = 4\n")
    assert await said(session) == before
    assert await said(session) == before
    assert len(await bodies(session, "profile/refused")) == 2
    admin.says("mine", "mended")
    assert (await said(session))[0] == "mended"


async def test_open_sessions_hear_of_edits_without_a_call(admin: Admin, session: Session) -> None:
    admin.says("mine", "after")
    (changed,) = await news(session, "session/profile", 1)
    admin.write("mine", "limits = ")
    (refused,) = await news(session, "profile/refused", 1)
    assert refused["digest"] == changed["digest"]
    admin.path("mine").unlink()
    gone = (await news(session, "profile/refused", 2))[1]
    assert "no profile is named 'mine'" in gone["reason"]
    await logged(admin.daemon, "profile mine is gone")
    admin.says("mine", "after")
    assert (await said(session))[1] == changed["digest"]


async def test_a_profile_that_is_gone_stays_for_open_sessions_alone(
    admin: Admin, daemon: Daemon, session: Session, workspace: Path
) -> None:
    before = await said(session)
    admin.path("mine").unlink()
    assert await said(session) == before
    with pytest.raises(NotFound, match="no profile is named 'mine'"):
        async with daemon.session(workspace, "mine"):
            pass
    admin.says("mine", "again")
    assert (await said(session))[0] == "again"


async def test_a_tightening_is_applied_to_each_version(admin: Admin, daemon: Daemon, workspace: Path) -> None:
    async with daemon.session(workspace, "mine", tightening='filesystem.hidden = ["a.txt"]') as session:
        admin.says("mine", "after", 'filesystem.hidden = [".env"]')
        result = await session.call("shell", command="echo $WORD; ls -A; echo > .env; ls -A")
        assert printed(result) == "after\n.env\n"
        assert code(await session.call("read", path="a.txt")) == "FS_NOT_FOUND"
        assert result.profile_digest != session.info.profile_digest


async def test_where_a_tightening_would_now_allow_more_the_calls_are_refused_and_recorded(
    admin: Admin, daemon: Daemon, workspace: Path
) -> None:
    async with daemon.session(workspace, "mine", id="s", tightening="limits.wall_s = 300") as session:
        before = await said(session)
        admin.says("mine", "after", "limits.wall_s = 200")
        refused = await session.call("shell", command="touch ran; echo $WORD")
        assert code(refused) == "DENIED"
        assert "tightening:1:1: `limits.wall_s` is 300, more than 200" in str(refused.error)
        assert refused.profile_digest != before[1]
        async with session.events() as events:
            story = [event.type async for event in events][-3:]
        assert story == ["profile/refused", "tool/call", "tool/result"]
        assert (await bodies(session, "tool/call"))[-1]["profile_digest"] == refused.profile_digest
        (told,) = await bodies(session, "profile/refused")
        assert (told["calls"], told["digest"]) == ("refused", refused.profile_digest)
        # What the admin no longer wants is not brought back by a broken file, its removal or a restart.
        admin.write("mine", "limits = ")
        assert code(await session.call("shell", command="true")) == "DENIED"
        admin.path("mine").unlink()
        assert code(await session.call("shell", command="true")) == "DENIED"
        await asyncio.to_thread(admin.daemon.end)
        await asyncio.to_thread(admin.daemon.start)
        again = await session.call("shell", command="true")
        assert (code(again), again.profile_digest) == ("DENIED", refused.profile_digest)
        admin.says("mine", "wide", "limits.wall_s = 400")
        assert (await said(session))[0] == "wide"
        (there,) = await bodies(session, "session/profile")
        assert there["before"] == before[1]


async def test_a_version_that_must_not_be_used_on_the_workspace_refuses_its_calls_alone(
    admin: Admin, daemon: Daemon, session: Session, workspace: Path, directory: Path
) -> None:
    other = directory / "other"
    other.mkdir()
    mount = f'[[filesystem.mounts]]\npath = "{workspace}"\n'
    async with daemon.session(other, "mine") as elsewhere:
        admin.write("mine", f'extends = "dev"\nwiden = ["filesystem.mounts"]\nfilesystem.hidden = [".env"]\n{mount}')
        refused = await session.call("shell", command="true")
        assert (code(refused), (await elsewhere.call("shell", command="true")).ok) == ("DENIED", True)
        assert "where they could be seen all the same" in str(refused.error)
    state = f'[[filesystem.mounts]]\npath = "{admin.daemon.state}"\n'
    admin.write("mine", f'extends = "dev"\nwiden = ["filesystem.mounts"]\n{state}')
    refused = await session.call("read", path="a.txt")
    assert "the daemon keeps its own files in" in str(refused.error)
    admin.says("mine", "fine")
    assert (await said(session))[0] == "fine"


@asynccontextmanager
async def restarted(admin: Admin) -> AsyncIterator[Daemon]:
    await asyncio.to_thread(admin.daemon.end)
    await asyncio.to_thread(admin.daemon.start)
    async with connect(admin.daemon.address) as daemon:
        yield daemon


async def test_a_restarted_daemon_looks_at_the_files_again(admin: Admin, session: Session, workspace: Path) -> None:
    name = session.session_id
    admin.says("mine", "second")
    async with restarted(admin) as daemon, daemon.session(workspace, "mine", id=name) as again:
        assert (await said(again))[0] == "second"


@pytest.mark.parametrize("lies_there", ["limits = ", None])
async def test_a_restarted_daemon_runs_nothing_of_a_session_whose_profile_cannot_be_used(
    admin: Admin, session: Session, workspace: Path, lies_there: str | None
) -> None:
    """Which version was the last good one it does not know, and that of the session may be wider."""
    name = session.session_id
    _, digest = await said(session)
    if lies_there is None:
        admin.path("mine").unlink()
    else:
        admin.write("mine", lies_there)
    async with restarted(admin) as daemon, daemon.session(workspace, "mine", id=name) as again:
        assert again.info.profile_digest == digest
        refused = await again.call("shell", command="true")
        assert refused.error is not None
        assert (refused.error.code, "cannot be used" in refused.error.message) == ("DENIED", True)
        assert [each["calls"] for each in await bodies(again, "profile/refused")] == ["refused"]
        admin.says("mine", "third")
        assert (await said(again))[0] == "third"


async def test_what_the_command_line_tells_is_what_is_in_force_and_what_lies_there(
    admin: Admin, session: Session, stockade: Stockade
) -> None:
    _, digest = await said(session)

    def run(*words: str) -> tuple[int, str, str]:
        done = stockade("profile", *words, daemon=admin.daemon)
        return done.returncode, done.stdout, done.stderr

    async def asked(*words: str) -> tuple[int, str, str]:
        return await asyncio.to_thread(run, *words)

    admin.write("mine", "[limits]\nwal_s = 3\n")
    rows = [json.loads(line) for line in (await asked("list", "--json"))[1].splitlines()]
    (row,) = [row for row in rows if row["name"] == "mine"]
    assert (row["digest"], row["extends"]) == (digest, "dev")
    assert f"{admin.path('mine')}:2:1: unknown key 'wal_s'" in row["fault"]
    assert "(the last good version stays in force)" in (await asked("list"))[1]
    status, shown, fault = await asked("show", "mine")
    assert (status, 'WORD = "before"' in shown) == (0, True)
    assert "this is the last good version" in fault
    explained = (await asked("explain", "mine"))[1].splitlines()
    assert [line.split(" = ")[1] for line in explained if line.startswith("environment.set.WORD")] == [
        f'"before"  # {admin.path("mine")}:5'
    ]
    status, mistakes, _ = await asked("check", "mine")
    assert (status, mistakes.startswith(f"{admin.path('mine')}:2:1: unknown key")) == (1, True)
    assert (await asked("probe", "mine"))[0] == 2
    admin.says("mine", "after")
    assert await asked("check", "mine") == (0, "", "")
    admin.path("mine").unlink()
    assert '"mine"' not in (await asked("list", "--json"))[1]
    assert (await asked("show", "mine"))[0] == 2
