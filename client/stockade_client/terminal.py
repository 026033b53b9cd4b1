"""Asking the person at the terminal: the card, and y or n.

Where there is nobody to ask the answer is no. Everything that is shown passes through `visible`.
"""

import asyncio
import contextlib
import os
import sys
import termios
from typing import Final

from rich.console import Console

from stockade_client.approvals import Approve, Ask
from stockade_client.card import WIDTH, card

NOBODY: Final = "nobody to ask: pass --yes or run at a terminal"
ASKED_AGAIN: Final = 3  # times that a person is asked who answers neither yes nor no


def console(*, stderr: bool = False) -> Console:
    """A console that shows text as it is: no markup, no emoji, no guesses.

    Honours NO_COLOR and plain pipes.
    """
    made = Console(stderr=stderr, markup=False, emoji=False, highlight=False, soft_wrap=False)
    if made.width > WIDTH:
        made.width = WIDTH
    return made


def approver(*, yes: bool) -> Approve:
    """Answers asks for a command: yes to all with `--yes`, by asking at a terminal, and otherwise no."""
    if yes:
        return _say_yes
    if sys.stdin.isatty() and sys.stderr.isatty():
        return Person(console(stderr=True)).asked
    return _nobody


async def _say_yes(ask: Ask) -> bool:
    return True


async def _nobody(ask: Ask) -> None:
    await ask.decide(False, NOBODY)


class Person:
    """The person at the terminal, asked one thing at a time."""

    def __init__(self, shown_on: Console) -> None:
        self._console = shown_on
        # Two calls may ask at once; their cards and answers must not interleave.
        self._one_at_a_time = asyncio.Lock()

    async def asked(self, ask: Ask) -> None:
        """Shows the card and sends the answer; silence, or ASKED_AGAIN answers that are none, are a no."""
        async with self._one_at_a_time:
            self._console.print(card(ask, width=self._console.width))
            allow, reason = await self._answer()
            await ask.decide(allow, reason)

    async def _answer(self) -> tuple[bool, str]:
        for _ in range(ASKED_AGAIN):
            _forget_what_was_typed()
            self._console.print("Allow this? [y/N] ", end="")
            answer = (await self._typed()).strip().lower()
            if answer in ("y", "yes"):
                return True, ""
            if answer in ("", "n", "no"):
                return False, "the person at the terminal said no"
            self._console.print("Please answer y or n.")
        self._console.print("That was neither yes nor no, and so it is no.")
        return False, "the person at the terminal said neither yes nor no"

    async def _typed(self) -> str:
        """One line; the next output begins on a line of its own however this one ended."""
        typed = ""
        try:
            typed = await _line()
        finally:
            # Ctrl-D and signals leave the cursor behind the question.
            if not typed.endswith("\n"):
                self._console.print()
        return typed


def _forget_what_was_typed() -> None:
    """What was typed before the card was seen is no answer to it."""
    with contextlib.suppress(termios.error):
        termios.tcflush(sys.stdin.fileno(), termios.TCIFLUSH)


async def _line() -> str:
    """One line typed after the question was shown; empty at the end of input.

    Read by the event loop, not in a thread: a thread that waits for a key would keep Ctrl-C from ending the
    command.
    """
    terminal = sys.stdin.fileno()
    loop = asyncio.get_running_loop()
    ready = asyncio.Event()
    loop.add_reader(terminal, ready.set)
    try:
        await ready.wait()
        return os.read(terminal, 4096).decode("utf-8", "replace")
    finally:
        loop.remove_reader(terminal)
