"""The asks that wait, as one approver sees them: they come, somebody answers them here or elsewhere, they go.

The screen and the plain lines both look at one of these. An answer is sent in the background and belongs to the entry
that was shown: whatever else comes or goes meanwhile, it cannot reach another ask.
"""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Final

from stockade_client import approvals
from stockade_client.approvals import Ask
from stockade_client.connection import Daemon
from stockade_client.errors import AskAlreadyDecided, NoAnswer, NotFound, StockadeError

GONE: Final = "The daemon is gone; waiting for it to come back."
BACK: Final = "The daemon is back."
_NAMED: Final = 3  # of those who look at one ask; the others are counted
_VOID: Final = "It has ended: what was shown is no longer what would be done. Nothing was answered."

# How an ask ended, for somebody who was looking at it and did not answer it.
_ENDINGS: Final = {
    "allowed": "Somebody else said yes{by}.",
    "rejected": "Somebody else said no{by}{why}.",
    "withdrawn": "It was withdrawn: its call was taken back.",
    "expired": "It has expired: nobody answered in time.",
    "unavailable": "It has ended: it does not wait for an approver.",
    "changed": _VOID,
    "gone": "It has ended while the daemon could not be reached.",
}


class Entry:
    """An ask in the queue, or one that has left it."""

    def __init__(self, ask: Ask) -> None:
        self.ask = ask  # what is shown and answered
        self.latest = ask  # the same ask in the daemon's last word: who looks at it
        self.sending: bool | None = None  # the answer that is on its way
        self.ended = ""  # what became of it, in words; empty: it waits
        self.fault = ""  # why the last answer was not taken, while it waits


class Queue:
    """Made by `opened`. Usable from the event loop that made it.

    name: how other approvers see who looks at an ask; see Ask.claim.
    """

    def __init__(self, daemon: Daemon, session_id: str, name: str, group: asyncio.TaskGroup) -> None:
        self._daemon = daemon
        self._link = daemon._link
        self._session_id = session_id
        self._name = name
        self._group = group
        self._entries: dict[str, Entry] = {}  # those that wait, in the order of asking
        self._over: set[str] = set()  # ids of those whose answer came back before the daemon's word that they ended
        self._answers: set[asyncio.Task[None]] = set()
        self._looking: tuple[Entry, asyncio.Task[None]] | None = None
        self._changed = asyncio.Event()
        self.away = False  # the daemon is gone, and waited for
        # Whether all that waited at the beginning is here; a daemon that does not say so is not waited for.
        self.complete = "ask-changes" not in daemon.info.features

    @property
    def waiting(self) -> tuple[Entry, ...]:
        """Those that nobody has answered yet, oldest first."""
        return tuple(self._entries.values())

    async def change(self) -> None:
        """Returns at the next change of anything here; one caller at a time."""
        await self._changed.wait()
        self._changed.clear()

    def look_at(self, entry: Entry | None) -> None:
        """Shows other approvers which ask this one looks at: one at a time, and none with None."""
        if self._looking is not None:
            if self._looking[0] is entry:
                return
            self._looking[1].cancel()
            self._looking = None
        if entry is not None and not entry.ended:
            self._looking = entry, self._group.create_task(self._claim(entry))

    def others_at(self, entry: Entry) -> str:
        """Who else looks at it, in words; empty: nobody does, as far as is known."""
        others = [
            " ".join(filter(None, [claim.name, f"({claim.by})" if claim.by else ""])) or "somebody"
            for claim in entry.latest.claims
            # Where the daemon does not say whose claim it is, it is known by the name.
            if (claim.claim_id != entry.ask.claim_id if claim.claim_id else claim.name != self._name)
        ]
        if len(others) > _NAMED:
            others[_NAMED:] = [f"{len(others) - _NAMED} more"]
        if len(others) < 2:
            return f"{others[0]} looks at it too" if others else ""
        return f"{', '.join(others[:-1])} and {others[-1]} look at it too"

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

    async def _claim(self, entry: Entry) -> None:
        async with entry.ask.claim(self._name):
            await asyncio.get_running_loop().create_future()  # until `look_at` cancels it

    async def _send(self, entry: Entry, allow: bool, reason: str) -> None:
        try:
            await entry.ask.decide(allow, reason)
        except AskAlreadyDecided:
            words = "Somebody else has answered already; your answer was not taken."
        except NotFound:
            words = "It was withdrawn, and nothing was answered."
        except NoAnswer:
            words = ""
            entry.fault = "The daemon is gone, and perhaps your answer did not reach it. Give it again: it counts once."
        except StockadeError as error:
            words = ""
            entry.fault = f"Not taken: {error}"
        else:
            words = "You said yes." if allow else f"You said no{f': {reason}' if reason else ''}."
        entry.sending = None
        if words:
            self._over.add(entry.ask.ask_id)
        # What a person did here says more than the daemon's word that somebody did something.
        self._end(entry, words or _ending(entry.latest))

    def _end(self, entry: Entry, words: str) -> None:
        """It leaves the queue with these words; without words it stays."""
        if words:
            entry.ended = entry.ended or words
            self._entries.pop(entry.ask.ask_id, None)
            if self._looking is not None and self._looking[0] is entry:
                self.look_at(None)
        self._changed.set()

    async def _follow(self) -> None:
        """Takes asks as they come, for as long as it takes."""
        while True:
            try:
                watching = approvals.watching(self._link, self._session_id, changes=True, caught_up=self._caught_up)
                async with watching as asks:
                    if self._entries:
                        await self._forget_those_that_ended_unseen()
                    self.is_back()
                    async for ask in asks:
                        self._told(ask)
            except NoAnswer:
                if self._daemon.info.private:
                    raise  # it never comes back
                self.is_away()  # and is asked again: a person who waits has more patience than a program

    def _caught_up(self) -> None:
        self.complete = True
        self._changed.set()

    async def _forget_those_that_ended_unseen(self) -> None:
        waiting = {call.ask_id for call in await self._daemon.calls(self._session_id)}
        for entry in self.waiting:
            if entry.ask.ask_id not in waiting:
                self._end(entry, _ENDINGS["gone"])

    def _told(self, ask: Ask) -> None:
        """The daemon's word of an ask: that it waits, who looks at it, or how it ended."""
        entry = self._entries.get(ask.ask_id)
        if ask.ask_id in self._over:
            # Who looks at it was on its way already when the answer came back: it waits no more.
            if ask.ended:
                self._over.discard(ask.ask_id)
            return
        if entry is not None and ask.shown_hash != entry.ask.shown_hash:
            self._end(entry, _VOID)
            entry = None
        if entry is None:
            if not ask.ended:
                self._entries[ask.ask_id] = Entry(ask)
        else:
            entry.latest = ask
            if entry.sending is None:  # else our own answer's answer says whose it was
                self._end(entry, _ending(ask))
        self._changed.set()


def _ending(ask: Ask) -> str:
    """How it ended; empty: it waits."""
    if not ask.ended:
        return ""
    by = f", {ask.ended_by}" if ask.ended_by else ""
    why = f": {ask.ended_reason}" if ask.ended_reason else ""
    return _ENDINGS.get(ask.ended, "It has ended.").replace("{by}", by).replace("{why}", why)


@asynccontextmanager
async def opened(daemon: Daemon, session_id: str = "", *, name: str = "") -> AsyncIterator[Queue]:
    """A queue of one session's asks, or of all that this caller may see, followed for as long as the block runs.

    Answers that are on their way at the end are waited for. Raises what the daemon refuses to tell.
    """
    async with asyncio.TaskGroup() as group:
        queue = Queue(daemon, session_id, name, group)
        following = group.create_task(queue._follow())
        try:
            yield queue
            await queue.answered()
        finally:
            queue.look_at(None)
            following.cancel()
