"""Asking the person at the terminal: the card, and y or n.

Where there is nobody to ask the answer is no. Everything that is shown passes through `visible`.
"""

import asyncio
import contextlib
import json
import os
import sys
import termios
from collections.abc import Mapping
from typing import Final

from rich.console import Console, Group
from rich.panel import Panel
from rich.text import Text

from stockade_client.approvals import Approve, Ask
from stockade_client.events_text import scalar
from stockade_client.results import Json
from stockade_client.visible import segments, visible

NOBODY: Final = "nobody to ask: pass --yes or run at a terminal"
ASKED_AGAIN: Final = 3  # times that a person is asked who answers neither yes nor no
WIDTH: Final = 110  # lines longer than this are hard to read however wide the terminal

_DIFFERENCE_STYLES: Final = (
    ("+++", "bold"),
    ("---", "bold"),
    ("@@", "cyan"),
    ("+", "green"),
    ("-", "red"),
)
_WHERE: Final = ("tool", "profile", "workspace", "path", "operation", "added", "removed")
_BOUND: Final = ("session", "profile_digest", "before", "after")  # what the answer is bound to besides
_SHOWN_APART: Final = frozenset({"title", "arguments", "difference", "reason", *_WHERE, *_BOUND})


def console(*, stderr: bool = False) -> Console:
    """A console that shows text as it is: no markup, no emoji, no guesses.

    Honours NO_COLOR and plain pipes.
    """
    made = Console(stderr=stderr, markup=False, emoji=False, highlight=False, soft_wrap=False)
    if made.width > WIDTH:
        made.width = WIDTH
    return made


def text(content: str, style: str = "") -> Text:
    """The content with hidden characters shown as escapes, set off from text that merely looks like them."""
    made = Text(style=style)
    for piece, hidden in segments(content):
        made.append(piece, style="reverse" if hidden else None)
    return made


def difference(content: str) -> Text:
    """A unified difference, coloured by line."""
    made = Text()
    for line in content.split("\n"):
        style = next((style for prefix, style in _DIFFERENCE_STYLES if line.startswith(prefix)), "")
        made.append_text(text(line, style))
        made.append("\n")
    made.rstrip()
    return made


def card(ask: Ask, *, width: int = WIDTH) -> Panel:
    """What a person is shown before saying yes: all of the card, whatever keys it has.

    Only two things are left out: empty values, and the arguments where the exact difference that they make is shown.
    """
    shown = {name: value for name, value in ask.card.items() if value not in (None, "", [], {})}
    parts = [_inline(shown, _WHERE)] if any(name in shown for name in _WHERE) else []
    if "reason" in shown:
        parts.append(text(_as_text(shown["reason"])))
    arguments = shown.get("arguments", {})
    if "difference" not in shown:
        parts.extend(
            [_argument(name, value) for name, value in arguments.items()]
            if isinstance(arguments, dict)
            else [text(_as_text(arguments))]
        )
    parts.extend(_argument(name, value) for name, value in shown.items() if name not in _SHOWN_APART)
    if "difference" in shown:
        parts.append(difference(_as_text(shown["difference"])))
    if any(name in shown for name in _BOUND):
        parts.append(_inline(shown, _BOUND))
    title = Text(" ").append_text(text(_as_text(shown.get("title", ask.tool)), "bold")).append(" ")
    return Panel(
        Group(*parts),
        title=title,
        title_align="left",
        subtitle=Text(f" card {ask.shown_hash[:8]} "),
        subtitle_align="right",
        border_style="yellow",
        width=width,
    )


def _inline(shown: Mapping[str, Json], names: tuple[str, ...]) -> Text:
    """Short facts side by side."""
    facts = (f"{name} {visible(scalar(shown[name]))}" for name in names if name in shown)
    return Text(" · ".join(facts), style="dim")


def _argument(name: str, value: Json) -> Text:
    shown = text(_as_text(value))
    made = Text().append(f"{visible(name)}: ", style="bold")
    # Text of several lines starts on its own, so that its columns stand as they are in it.
    return made.append("\n").append_text(shown) if "\n" in shown.plain else made.append_text(shown)


def _as_text(value: Json) -> str:
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)


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
