"""Sessions and the versions of their profile, without a daemon around them: what seldom meets is made to meet."""

from collections.abc import AsyncIterator
from dataclasses import dataclass
from pathlib import Path

import pytest
import pytest_asyncio

from stockade_daemon.gate.copies import Copies
from stockade_daemon.ledger.ledger import Ledger
from stockade_daemon.pipeline import sessions as module
from stockade_daemon.pipeline.opening import Opening
from stockade_daemon.pipeline.rules import Rules
from stockade_daemon.pipeline.sessions import Sessions
from stockade_daemon.profiles import read as profiles
from stockade_daemon.sandbox.pool import Pool


@dataclass(slots=True)
class Open:
    """Sessions "s" and "t" are open under profile `mine`."""

    sessions: Sessions
    ledger: Ledger
    path: Path  # of the profile

    def write(self, wall_s: int) -> None:
        self.path.write_text(f"limits.wall_s = {wall_s}\n")

    async def wall_s(self, session_id: str) -> float:
        return (await self.sessions.live(session_id)).session.profile.limits.wall_s

    async def count(self, session_id: str, type: str) -> int:
        return len([event for event in await self.ledger.read(session_id) if event.type == type])


@pytest_asyncio.fixture
async def opened(tmp_path: Path) -> AsyncIterator[Open]:
    state, workspace, own = (tmp_path / name for name in ("state", "workspace", "profiles"))
    for place in (state, workspace, own):
        place.mkdir(mode=0o700)
    rules = Rules(private=True, workspaces=(), profile_directories=(profiles.shipped(), own), own=(state,))
    async with Ledger.open(str(state / "ledger")) as ledger, Pool.start(state) as pool:
        found = Open(Sessions(ledger, pool, rules, Copies(state / "copies")), ledger, own / "mine.toml")
        found.write(5)
        for session_id in ("s", "t"):
            await found.sessions.open(Opening(session_id, str(workspace), "mine", None, "ask"))
        yield found
        found.sessions.close()


async def test_what_was_looked_at_before_an_edit_does_not_undo_it(opened: Open) -> None:
    """A look may be overtaken by another one on its way from its thread."""
    early = await opened.sessions.profiles.current("mine")
    opened.write(6)
    assert await opened.wall_s("s") == 6
    await opened.sessions.follow(early)
    live = await opened.sessions.live("s")
    assert live.session.profile.limits.wall_s == 6
    assert await opened.sessions._versions.at(live, early) is live
    assert await opened.count("s", "session/profile") == 1


async def test_the_same_news_again_is_told_once(opened: Open) -> None:
    opened.path.write_text("limits = ")
    for _ in range(3):
        await opened.sessions.follow(await opened.sessions.profiles.current("mine"))
        await opened.wall_s("s")
    await opened.ledger.append("s", "x")  # what was noted before is recorded with it
    assert [await opened.count(each, "profile/refused") for each in ("s", "t")] == [1, 1]


async def test_a_session_that_was_let_go_of_comes_back_under_the_present_version(
    opened: Open, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "_MOST_LIVE", 1)
    assert await opened.wall_s("s") == 5
    assert not opened.sessions.is_live("t")
    opened.write(6)
    await opened.sessions.follow(await opened.sessions.profiles.current("mine"))
    assert [await opened.count(each, "session/profile") for each in ("s", "t")] == [1, 0]
    assert await opened.wall_s("t") == 6
    record = await opened.sessions.record("t")
    assert (await opened.count("t", "session/profile"), record.profile_digest) == (
        1,
        (await opened.sessions.live("t")).digest,
    )


async def test_a_session_that_ends_while_its_profile_changes_ends(opened: Open) -> None:
    opened.write(6)
    standing = await opened.sessions.profiles.current("mine")
    await opened.ledger.close_session("s")
    await opened.sessions.follow(standing)
    await opened.sessions.end("s")
    assert await opened.wall_s("t") == 6
    assert await opened.count("s", "session/profile") == 0
