"""Asks as plain lines, answered by lines: for screen readers, pipes, and terminals that cannot be drawn on.

One ask at a time, and all of its card. What was typed at a terminal before the question is thrown away; a program,
which can be late as well, names the card that it answers.
"""

import asyncio
import contextlib
import os
import re
import termios
import time
from collections.abc import Callable
from typing import Final, TextIO

from stockade_client import card
from stockade_client.approving.ages import span, validity
from stockade_client.approving.queue import BACK, GONE, Entry, Queue
from stockade_client.visible import visible

_ANSWER: Final = re.compile(r"\s*(y|yes|n|no|s|skip|q|quit)(?:\s+([0-9a-f]{8}))?(?:\s+(.*?))?\s*", re.IGNORECASE)
_LONGEST_LINE: Final = 64 * 1024
_NO_MORE: Final = "The input has ended; what waits goes on waiting."
_UNUSED: Final = " The lines that came last answered nothing: nothing waits that they could be for."
_HOW: Final = "Answer y, n, n and a reason, s to leave it for later, or q to quit."


class Lines:
    """Prints asks to `written` and reads answers from `read`, which has a descriptor."""

    def __init__(
        self, queue: Queue, read: TextIO, written: TextIO, *, now_ms: Callable[[], float] = lambda: time.time() * 1000
    ) -> None:
        self._queue = queue
        self._descriptor = read.fileno()
        self._terminal = read.isatty()
        self._written = written
        self._now_ms = now_ms
        self._later: set[str] = set()  # ids of asks that were left for later
        self._typed = b""
        self._at_an_end = False
        self._away = False
        self._prompt = ""  # the question that was printed last, while its line has no end
        self._others = ""  # who else was said to look at what is asked about

    async def run(self) -> None:
        """Until q or the end of input."""
        self._print("Waiting for asks. Ctrl-C leaves, and leaves them waiting.")
        going_on = True
        while going_on:
            entry = self._next()
            going_on = await (self._ask(entry) if entry is not None else self._idle())

    def _next(self) -> Entry | None:
        """The oldest that was not left for later."""
        return next((entry for entry in self._queue.waiting if entry.ask.ask_id not in self._later), None)

    async def _ask(self, entry: Entry) -> bool:
        """Shows an ask and takes its answer. False: nobody answers any more."""
        self._queue.look_at(entry)
        self._show(entry)
        self._forget_what_was_typed()
        while True:
            self._prompt = f"Yes to card {entry.ask.shown_hash[:8]}? [y, n REASON, s, q] "
            self._print(self._prompt, end="")
            line = await self._answer(entry)
            self._prompt = ""
            if self._has_ended(entry):
                break
            if line is None:
                self._print(f"\n{_NO_MORE}")
                return False
            if not await self._take(entry, line):
                return False
            if self._has_ended(entry):
                break
            if entry.ask.ask_id in self._later:
                return True
        self._print(visible(entry.ended))
        return True

    def _has_ended(self, entry: Entry) -> bool:
        """Asked anew after each wait."""
        return bool(entry.ended)

    async def _take(self, entry: Entry, line: str) -> bool:
        """Does what a line says. False: it says to quit."""
        found = _ANSWER.fullmatch(line)
        word = found[1][0].lower() if found else ""
        named, said = (found[2] or "", found[3] or "") if found else ("", "")
        if named and named.lower() != entry.ask.shown_hash[:8]:
            self._print(f"Card {named} is not the one that is asked about. Nothing was answered.")
        elif word == "q":
            return False
        elif word == "s":
            self._later.add(entry.ask.ask_id)
            self._print("Left for later: it is shown again when this is started again.")
        elif word == "n" or (word == "y" and not said):
            self._queue.answer(entry, word == "y", said)
            await self._queue.answered()
            if entry.fault:
                self._print(visible(entry.fault))
        else:
            self._print(_HOW)
        return True

    def _show(self, entry: Entry) -> None:
        ask, now = entry.ask, self._now_ms()
        self._others = self._queue.others_at(entry)
        self._print(f"\nAsk: {visible(card.title(ask))}")
        self._print(f"{len(self._queue.waiting)} waiting. This one: session {visible(ask.session_id)}")
        if ask.asked_by:
            self._print(f"asked by {visible(ask.asked_by)}")
        self._print(f"waited {span(now - ask.asked_ms)}, {validity(ask.expires_ms, now)}")
        if self._others:
            self._print(visible(self._others))
        for part in card.parts(ask):
            self._print(part.plain)  # hidden characters stand in it as escapes already

    def _tell_of_the_daemon(self) -> None:
        if self._queue.away != self._away:
            self._away = self._queue.away
            self._tell(GONE if self._away else BACK)

    def _tell_of_others(self, entry: Entry) -> None:
        """Of those who began to look at it after it was shown, and of those who went."""
        others = self._queue.others_at(entry)
        if others != self._others:
            self._others = others
            self._tell(visible(others) if others else "Nobody else looks at it any more.")

    def _tell(self, words: str) -> None:
        """Words that nobody has asked for: a question that waits is asked again beneath them."""
        if self._prompt:
            self._print(f"\n{words}")
            self._print(self._prompt, end="")
        else:
            self._print(words)

    async def _idle(self) -> bool:
        """Waits for a change, or for the end of input. False: nobody answers any more.

        Lines of a pipe that come already are kept for the asks that they are meant for, but for one that says to quit;
        once it has ended, and nothing waits, there is nothing that they could be meant for.
        """
        await self._line_or_change(idle=True)
        if self._next() is not None:
            return True
        line, newline, rest = self._typed.partition(b"\n")
        if line.strip().lower() in (b"q", b"quit") and (newline or self._at_an_end):
            return False
        if self._terminal and newline:
            self._typed = rest  # nobody types ahead for a card that has not been seen
        over = self._at_an_end and self._queue.complete
        if over:
            self._print(_NO_MORE + (_UNUSED if self._typed.strip() else ""))
        return not over

    async def _answer(self, entry: Entry) -> str | None:
        """The next line, or None at the end of input, or when the ask has ended meanwhile."""
        while not await self._line_or_change():
            if entry.ended:
                self._print("")
                return None
            self._tell_of_others(entry)
        line, newline, self._typed = self._typed.partition(b"\n")
        return line.decode("utf-8", "replace").rstrip("\r") if line or newline else None

    async def _line_or_change(self, *, idle: bool = False) -> bool:
        """Whether there is a line in what was typed, or no more to come; else something has changed in the queue."""
        waits = [asyncio.ensure_future(self._queue.change())]
        kept = self._next() is None and self._has_a_line()  # a line, for an ask that is to come
        typing = asyncio.ensure_future(self._read() if kept else self._fill())
        # Beyond a line that is kept the end of input alone is of interest, and that while nothing is asked.
        if not kept or (idle and not self._at_an_end and len(self._typed) <= _LONGEST_LINE):
            waits.append(typing)
        try:
            await asyncio.wait(waits, return_when=asyncio.FIRST_COMPLETED)
            return typing.done()
        finally:
            for each in (typing, *waits):
                each.cancel()
            self._tell_of_the_daemon()

    def _has_a_line(self) -> bool:
        return b"\n" in self._typed or (self._at_an_end and bool(self._typed))

    async def _fill(self) -> None:
        """Until a whole line was typed, or the input has ended."""
        while b"\n" not in self._typed and not self._at_an_end:
            await self._read()
            self._at_an_end |= b"\n" not in self._typed and len(self._typed) > _LONGEST_LINE

    async def _read(self) -> None:
        """Takes what comes next.

        Read by the event loop, not in a thread: a thread that waits for a key keeps Ctrl-C from ending the command.
        """
        loop = asyncio.get_running_loop()
        ready = asyncio.Event()
        try:
            loop.add_reader(self._descriptor, ready.set)
        except PermissionError:
            ready.set()  # a file, which epoll does not take, and which never makes one wait
        try:
            await ready.wait()
        finally:
            with contextlib.suppress(PermissionError):
                loop.remove_reader(self._descriptor)
        try:
            more = os.read(self._descriptor, 4096)
        except OSError:
            more = b""  # the terminal is gone
        self._at_an_end = not more
        self._typed += more

    def _forget_what_was_typed(self) -> None:
        if self._terminal:
            self._typed = b""
            with contextlib.suppress(termios.error):
                termios.tcflush(self._descriptor, termios.TCIFLUSH)

    def _print(self, line: str, end: str = "\n") -> None:
        print(line, end=end, file=self._written, flush=True)
