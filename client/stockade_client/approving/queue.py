"""The asks that wait, as one approver sees them: they come, somebody answers them here or elsewhere, they go.

The screen and the plain lines both look at one of these. An answer is sent in the background and belongs to the entry
that was shown: whatever else comes or goes meanwhile, it cannot reach another ask.
"""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from stockade_client.approvals import Ask
from stockade_client.approving.endings import ending
from stockade_client.connection import Daemon
from stockade_client.errors import AskAlreadyDecided, NoAnswer, NotFound, StockadeError

GONE = "the daemon is gone; waiting for it to come back"
BACK = "the daemon is back"


class Entry:
    """An ask in the queue, or one that has left it."""

    def __init__(self, ask: Ask) -> None:
        self.ask = ask
        self.sending: bool | None = None  # the answer that is on its way
        self.ended = ""  # what became of it, in words; empty: it waits
        self.fault = ""  # why the last answer was not taken, while it waits


class Queue:
    """Made by `opened`. Usable from the event loop that made it."""

    def __init__(self, daemon: Daemon, session_id: str, group: asyncio.TaskGroup) -> None:
        self._daemon = daemon
        self._session_id = session_id
        self._group = group
        self._entries: dict[str, Entry] = {}  # those that wait, in the order of asking
        self._known: set[str] = set()
        self._answers: set[asyncio.Task[None]] = set()
        self._watching: set[asyncio.Task[None]] = set()
        self._changed = asyncio.Event()
        self.away = False  # the daemon is gone, and waited for
        self.complete = False  # what waited when we came has been told

    @property
    def waiting(self) -> tuple[Entry, ...]:
        """Those that nobody has answered yet, oldest first."""
        return tuple(self._entries.values())

    async def change(self) -> None:
        """Returns at the next change of anything here; one caller at a time."""
        await self._changed.wait()
        self._changed.clear()

    def answer(self, entry: Entry, allow: bool, reason: str = "") -> None:
        """Sends the answer to exactly what the entry shows; `ended` or `fault` tell what came of it.

        An entry that has ended, or whose answer is on its way, is left alone.
        """
        if entry.ended or entry.sending is not None:
            return
        entry.sending, entry.fault = allow, ""
        task = self._group.create_task(self._send(entry, allow, reason))
        self._answers.add(task)
        task.add_done_callback(self._answers.discard)
        self._changed.set()

    async def answered(self) -> None:
        """Returns when no answer is on its way any more."""
        while self._answers:
            await asyncio.wait(set(self._answers))

    def is_away(self) -> None:
        """For `connect`: the daemon does not answer."""
        self.away = True
        self._changed.set()

    def is_back(self) -> None:
        """For `connect`: it answers again."""
        self.away = False
        self._changed.set()

    async def _send(self, entry: Entry, allow: bool, reason: str) -> None:
        said = "You said yes." if allow else f"You said no{f': {reason}' if reason else '.'}"
        try:
            await entry.ask.decide(allow, reason)
        except AskAlreadyDecided:
            self._end(entry, "Somebody else has answered already; your answer was not taken.")
        except NotFound:
            self._end(entry, "The ask was withdrawn; nothing is to be answered any more.")
        except NoAnswer:
            entry.fault = "The daemon is gone, and perhaps your answer did not reach it. Give it again: it counts once."
        except StockadeError as error:
            entry.fault = f"Not taken: {error}"
        else:
            self._end(entry, said)
        finally:
            entry.sending = None
            self._changed.set()

    def _end(self, entry: Entry, words: str) -> None:
        """The first word counts: what a person did here says more than the daemon's record of it."""
        entry.ended = entry.ended or words
        self._entries.pop(entry.ask.ask_id, None)
        self._changed.set()

    async def _follow(self) -> None:
        """Takes asks as they come, for as long as it takes."""
        while True:
            try:
                async with self._daemon.approvals(self._session_id) as asks:
                    self.is_back()
                    async for ask in asks:
                        self._came(ask)
            except NoAnswer:
                self.is_away()  # and is asked again: a person who waits has more patience than a program

    def _came(self, ask: Ask) -> None:
        if ask.ask_id in self._known:
            return
        self._known.add(ask.ask_id)
        entry = self._entries[ask.ask_id] = Entry(ask)
        task = self._group.create_task(self._watch(entry))
        self._watching.add(task)
        task.add_done_callback(self._watching.discard)
        self._changed.set()

    async def _watch(self, entry: Entry) -> None:
        """Waits until the ledger says what became of an ask."""
        while not entry.ended:
            try:
                words = await ending(self._daemon, entry.ask)
            except NoAnswer:
                continue
            except StockadeError as error:
                words = f"What became of it is not known: {error}"
            if entry.sending is not None:
                # The record of our own answer may come before the answer to it does.
                await self.answered()
            self._end(entry, words)


@asynccontextmanager
async def opened(daemon: Daemon, session_id: str = "") -> AsyncIterator[Queue]:
    """A queue of one session's asks, or of all that this caller may see, followed for as long as the block runs.

    Answers that are on their way at the end are waited for. Raises what the daemon refuses to tell.
    """
    async with asyncio.TaskGroup() as group:
        queue = Queue(daemon, session_id, group)
        following = group.create_task(queue._follow())
        try:
            yield queue
            await queue.answered()
        finally:
            for task in (following, *queue._watching):
                task.cancel()
