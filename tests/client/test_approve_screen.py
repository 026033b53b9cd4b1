"""The screen of `stockade approve`, driven by keys against a real daemon; and its pictures."""

import asyncio
import re
import signal
from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path

import pytest
from textual.binding import Binding
from textual.events import Key
from textual.keys import _character_to_key
from textual.pilot import Pilot
from textual.widgets import Input, Static

from stockade_client import Call, CallResult, Daemon, Session, connect
from stockade_client.approving import queue as queues
from stockade_client.approving.card_view import CardView
from stockade_client.approving.queue import BACK, GONE, Entry, Queue
from stockade_client.approving.screen import LOOK_S, ApproveScreen
from tests.client import screens
from tests.client.served import Served, running

EDIT = {"path": "a.txt", "old_string": "two", "new_string": "2"}
DOCS = Path(__file__).parents[2] / "docs" / "approving"
HANG_S = 120.0  # a hang detector, for all that is done while a screen is there


class Clock:
    """Seconds that pass when a test says so."""

    seconds = 0.0

    def __call__(self) -> float:
        return self.seconds


class Screen(ApproveScreen):
    """Tells whenever it has drawn what there is."""

    drawn: asyncio.Event

    def on_load(self) -> None:
        self.drawn = asyncio.Event()

    def _draw(self) -> None:
        super()._draw()
        self.drawn.set()

    def _drawn(self, entry: Entry) -> None:
        super()._drawn(entry)
        self.drawn.set()


class Seen:
    """A screen, its keys, and what stands on it."""

    def __init__(self, app: Screen, pilot: Pilot[int], queue: Queue, clock: Clock) -> None:
        self.app, self.pilot, self.queue, self.clock = app, pilot, queue, clock

    async def until(self, condition: Callable[[], bool]) -> None:
        while not condition():
            self.app.drawn.clear()
            await self.app.drawn.wait()
        await self.settled()

    async def settled(self) -> None:
        """All messages of the screen are handled; Pilot.pause waits for an idle process besides, which ours is not."""
        for _ in range(3):
            await self.pilot._wait_for_screen()

    async def press(self, *keys: str) -> None:
        """Long enough after the card could be seen."""
        await self.until(lambda: self.app._chosen is None or self.app._drawn_s is not None)
        self.clock.seconds += LOOK_S
        await self.type(*keys)

    async def type(self, *keys: str) -> None:
        for key in keys:
            named = _character_to_key(key) if len(key) == 1 else key
            self.app.post_message(Key(named, key if len(key) == 1 else None))
            await self.settled()

    def text(self) -> str:
        strips = self.app.screen._compositor.render_strips()
        return "\n".join("".join(segment.text for segment in strip).rstrip() for strip in strips)

    def status(self) -> str:
        return str(self.app.query_one("#status", Static).visual)


@asynccontextmanager
async def screen(daemon: Daemon, session_id: str, size: tuple[int, int] = (80, 24)) -> AsyncIterator[Seen]:
    clock = Clock()
    async with asyncio.timeout(HANG_S), queues.opened(daemon, session_id, name="the tests") as queue:
        app = Screen(queue, monotonic_s=clock)
        async with app.run_test(size=size) as pilot:
            yield Seen(app, pilot, queue, clock)


async def asked(session: Session, seen: Seen, **arguments: str) -> Call:
    """An edit that waits on the screen."""
    read = await session.call("read", path="a.txt")
    assert read.ok, read.error
    waiting = len(seen.queue.waiting)
    call = await session.start("edit", **(arguments or EDIT))
    await seen.until(lambda: len(seen.queue.waiting) > waiting)
    return call


def code(result: CallResult) -> str:
    return result.error.code if result.error else ""


async def test_yes_to_the_difference_on_the_screen_commits_it(daemon: Daemon, workspace: Path) -> None:
    async with daemon.session(workspace, "dev") as session, screen(daemon, session.session_id) as seen:
        assert "nothing waits" in seen.text()
        call = await asked(session, seen)
        parts = ("Edit a.txt", "tool edit", "profile dev", "-two", "+2", "asked by", "waited", "y Yes")
        await seen.until(lambda: all(part in seen.text() for part in parts))  # a card is drawn in several frames
        for part in parts:
            assert part in seen.text()
        await seen.press("y")
        assert (await call.result()).ok
        await seen.until(lambda: not seen.queue.waiting)
        assert "You said yes." in seen.status()
    assert (workspace / "a.txt").read_text() == "one\n2\nthree\n"


async def test_a_no_takes_its_reason_to_the_agent_and_its_letters_decide_nothing(
    daemon: Daemon, workspace: Path
) -> None:
    async with daemon.session(workspace, "dev") as session, screen(daemon, session.session_id) as seen:
        call = await asked(session, seen)
        await seen.press("n", *"yyy", "escape")
        assert len(seen.queue.waiting) == 1
        await seen.press("n", *"not so, q y", "enter")
        result = await call.result()
        assert code(result) == "APPROVAL_REJECTED"
        assert "not so, q y" in str(result.error)
        await seen.until(lambda: not seen.queue.waiting)
        assert "You said no: not so, q y." in seen.status()
    assert (workspace / "a.txt").read_text() == "one\ntwo\nthree\n"


async def test_an_ask_that_expires_says_so_and_leaves_the_queue(daemon: Daemon, workspace: Path) -> None:
    profile = workspace / "short.toml"
    profile.write_text('extends = "dev"\nwiden = ["approval.wait_s"]\n[approval]\nwait_s = 1\n')
    async with daemon.session(workspace, profile) as session, screen(daemon, session.session_id) as seen:
        call = await asked(session, seen)
        assert "valid until" in seen.text()
        assert code(await call.result()) == "APPROVAL_EXPIRED"
        await seen.until(lambda: not seen.queue.waiting)
        assert "has expired" in seen.status()
        await seen.press("y")  # decides nothing, and is no error


async def test_what_is_answered_elsewhere_or_withdrawn_says_so_and_no_key_falls_on_the_next(
    daemon: Daemon, workspace: Path
) -> None:
    parallel = [daemon.session(workspace, "dev") for _ in range(3)]
    async with parallel[0] as one, parallel[1] as two, parallel[2] as three, screen(daemon, "") as seen:
        first = await asked(one, seen)
        second = await asked(two, seen)
        third = await asked(three, seen)
        chosen = seen.app._chosen
        assert chosen is not None
        assert chosen.ask.call == first.call_id  # those that came did not take its place
        await seen.until(lambda: chosen.latest.claimed_ms > 0)  # the daemon has the claim
        async with daemon.approvals(one.session_id) as asks:
            await (await anext(asks)).decide(False, "from elsewhere")
        await seen.until(lambda: bool(chosen.ended))
        assert "Somebody else said no" in seen.status()
        assert "from elsewhere" in seen.status()
        await seen.press("y", "y")
        assert [entry.sending for entry in seen.queue.waiting] == [None, None]
        assert len(seen.queue.waiting) == 2
        await seen.press("j")
        assert seen.app._chosen is seen.queue.waiting[0]
        await second.cancel()
        await seen.until(lambda: len(seen.queue.waiting) == 1)
        assert "withdrawn" in seen.status()
        await seen.press("j")
        await seen.press("y")
        # The file has changed for nobody yet: this one is the yes that counts.
        assert (await third.result()).ok


async def test_a_yes_to_what_is_no_longer_what_would_be_done_says_so_and_nothing_is_run(
    daemon: Daemon, workspace: Path
) -> None:
    (workspace / "asks.toml").write_text('extends = "dev"\n[approval]\ncommands = "ask"\n')
    (workspace / "run.sh").write_text("echo shown\n")
    profile = workspace / "asks.toml"
    async with daemon.session(workspace, profile) as session, screen(daemon, session.session_id, (100, 24)) as seen:
        call = await session.start("shell", command="bash run.sh")
        await seen.until(lambda: len(seen.queue.waiting) == 1)
        (entry,) = seen.queue.waiting
        (workspace / "run.sh").write_text("echo other\n")
        await seen.press("y")
        assert code(await call.result()) == "APPROVAL_MISMATCH"
        await seen.until(lambda: not seen.queue.waiting)
        assert entry.sending is None
        assert "It has ended: what was shown is no longer what would be done. Nothing was answered." in seen.text()
        await seen.press("y", "n")  # the card stays, and takes no answer
        assert not seen.app.query_one(Input).has_focus
        async with session.events(call_id=call.call_id) as events:
            assert "call/dispatched" not in [event.type async for event in events]


async def test_who_else_looks_at_an_ask_is_shown_until_he_looks_away(daemon: Daemon, workspace: Path) -> None:
    async with (
        daemon.session(workspace, "dev") as session,
        asyncio.timeout(HANG_S),
        queues.opened(daemon, session.session_id, name="zoe at pts/7") as other,
    ):
        async with screen(daemon, session.session_id, (110, 24)) as seen:
            call = await asked(session, seen)
            (entry,) = seen.queue.waiting
            await seen.until(lambda: entry.latest.claimed_ms > 0)
            assert "looks at it too" not in seen.text()  # this screen itself does, though not for others
            while not other.waiting or not other.waiting[0].latest.claimed_ms:
                await other.change()
            (theirs,) = other.waiting
            assert re.fullmatch(r"the tests \(\S+\) looks at it too", other.others_at(theirs))
            other.look_at(theirs)
            # Who looked first is shown who came later.
            await seen.until(lambda: bool(re.search(r"zoe at pts/7 \(\S+\) looks at it too", seen.text())))
        while other.others_at(theirs):  # the screen has gone
            await other.change()
        async with screen(daemon, session.session_id, (110, 24)) as seen:
            await seen.until(lambda: "zoe at pts/7" in seen.text())
            assert re.search(r"zoe at pts/7 \(\S+\) looks at it too", seen.text())
            other.look_at(None)
            await seen.until(lambda: "looks at it too" not in seen.text())
            await seen.press("y")
            assert (await call.result()).ok


async def test_all_who_look_at_an_ask_are_named_or_counted(daemon: Daemon, workspace: Path) -> None:
    async with (
        daemon.session(workspace, "dev") as session,
        screen(daemon, session.session_id, (110, 24)) as seen,
        AsyncExitStack() as others,
    ):
        call = await asked(session, seen)
        (entry,) = seen.queue.waiting
        for number, name in enumerate(("the tests", "ben", "cleo", "dan", "eve"), 1):
            asks = await others.enter_async_context(daemon.approvals(session.session_id))
            await others.enter_async_context((await anext(asks)).claim(name))
            await seen.until(lambda number=number: len(entry.latest.claims) > number)  # type: ignore[misc]
            if number == 2:  # of the same name as this screen, and yet somebody else
                words = re.sub(r" \(\S+\)", "", seen.queue.others_at(entry))
                assert words == "the tests and ben look at it too"
        words = re.sub(r" \(\S+\)", "", seen.queue.others_at(entry))
        assert words == "the tests, ben, cleo and 2 more look at it too"
        await seen.until(lambda: "2 more look at it too" in " ".join(seen.text().split()))
        await seen.press("y")
        assert (await call.result()).ok


async def test_a_key_typed_before_the_card_was_seen_decides_nothing(daemon: Daemon, workspace: Path) -> None:
    async with daemon.session(workspace, "dev") as session, screen(daemon, session.session_id) as seen:
        call = await asked(session, seen)
        await seen.type("y", "n", "enter")
        assert "came before the card could be read" in seen.status()
        assert len(seen.queue.waiting) == 1
        await seen.press("y")
        assert (await call.result()).ok


async def test_a_long_card_wants_to_be_seen_to_its_end_before_a_yes(daemon: Daemon, workspace: Path) -> None:
    long = "".join(f"line {number}\n" for number in range(2000))
    async with daemon.session(workspace, "dev") as session, screen(daemon, session.session_id) as seen:
        call = await asked(session, seen, path="a.txt", old_string="two", new_string=long)
        await seen.press("y")
        assert "goes on below" in seen.status()
        assert len(seen.queue.waiting) == 1
        await seen.press("end")
        await seen.until(lambda: seen.app.query_one(CardView).seen_to_its_end)
        assert "+line 1999" in seen.text()
        await seen.press("y")
        assert (await call.result()).ok


async def test_a_daemon_that_goes_away_and_comes_back_is_told_of(served: Served, workspace: Path) -> None:
    async with running(served) as processes:
        away: list[Queue] = []
        async with (
            connect(served.address, on_away=lambda: away[0].is_away(), on_back=lambda: away[0].is_back()) as daemon,
            screen(daemon, "") as seen,
        ):
            away.append(seen.queue)
            processes[-1].send_signal(signal.SIGKILL)
            await processes[-1].wait()
            await seen.until(lambda: seen.status() == GONE)
            processes.append(await served.started())
            await seen.until(lambda: seen.status() == BACK)
            async with daemon.session(workspace, "dev") as session:
                call = await asked(session, seen)
                await seen.press("y")
                assert (await call.result()).ok


async def test_markup_and_hidden_characters_of_a_card_are_shown_as_they_are(daemon: Daemon, workspace: Path) -> None:
    profile = workspace / "asks.toml"
    profile.write_text('extends = "dev"\n[approval]\ncommands = "ask"\n')
    command = "echo [bold red]x[/] [@click=app.leave]y[/] \u202eevil\x1b[2J"
    async with daemon.session(workspace, profile) as session, screen(daemon, session.session_id, (110, 24)) as seen:
        call = await session.start("shell", command=command)
        await seen.until(lambda: len(seen.queue.waiting) == 1)
        assert "echo [bold red]x[/] [@click=app.leave]y[/] \\u202eevil\\x1b[2J" in seen.text()
        await seen.press("n", *"[b]", "enter")
        assert "said no: [b]." in str((await call.result()).error)
        await seen.until(lambda: "[b]" in seen.status())


async def test_forty_columns_have_room_for_everything(daemon: Daemon, workspace: Path) -> None:
    async with daemon.session(workspace, "dev") as session, screen(daemon, session.session_id, (40, 24)) as seen:
        call = await asked(session, seen)
        await seen.until(lambda: "q Quit" in seen.text())
        text = seen.text()
        for part in ("Edit a.txt", "-two", "+2", "y Yes n No", "q Quit"):
            assert part in text
        await seen.press("n")
        assert seen.app.query_one(Input).has_focus
        await seen.press("enter")
        assert code(await call.result()) == "APPROVAL_REJECTED"


async def test_leaving_is_0_and_ctrl_c_130_and_both_leave_the_ask(daemon: Daemon, workspace: Path) -> None:
    async with daemon.session(workspace, "dev") as session, daemon.approvals(session.session_id) as asks:
        call = None
        for key, status in (("q", 0), ("ctrl+c", 130)):
            async with screen(daemon, session.session_id) as seen:
                call = call or await asked(session, seen)
                await seen.until(lambda seen=seen: len(seen.queue.waiting) == 1)  # type: ignore[misc]
                await seen.press(key)
                assert seen.app.return_value == status
        assert call is not None
        await (await anext(asks)).decide(True)
        assert (await call.result()).ok


@pytest.mark.parametrize("name", screens.SCREENS)
async def test_the_pictures_of_the_docs_are_what_the_screen_draws(name: str) -> None:
    made = await screens.drawn(name)
    kept = (DOCS / f"{name}.svg").read_text()
    assert made == kept, f"look at {name}, then: python -m tests.client.screens docs/approving"


async def test_the_cards_of_the_pictures_have_what_a_daemon_sends(daemon: Daemon, workspace: Path) -> None:
    async with daemon.session(workspace, "dev") as session, screen(daemon, session.session_id) as seen:
        call = await asked(session, seen)
        card = seen.queue.waiting[0].ask.card
        assert {name: type(value) for name, value in card.items()} == {
            name: type(value) for name, value in screens.EDIT.items()
        }
        await call.cancel()


def test_the_page_names_the_keys_and_the_time_that_count() -> None:
    page = (DOCS.parent / "approving.md").read_text()
    assert f"within {LOOK_S:g} seconds" in page
    rows = [line for line in page.splitlines() if line.startswith("| `")]
    assert re.findall(r"`(.)`", " ".join(rows)) == ["y", "n", "j", "k", "q"]
    shown = [each.key for each in ApproveScreen.BINDINGS if isinstance(each, Binding) and each.show]
    assert shown == ["y", "n", "j", "k", "q"]
    assert set(re.findall(r"\((\S+\.svg)\)", page)) == {f"approving/{name}.svg" for name in screens.SCREENS}
