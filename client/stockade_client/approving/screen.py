"""The screen of `stockade approve`: the queue, the card of the chosen ask, and the keys for yes and no.

A key decides only what the person has before his eyes. So the chosen ask stays until he takes another one: those that
come do not push it away, and when it is answered its place stays taken, by the word of what became of it. A key that
was typed before its card could be seen decides nothing, and a yes needs the card to have been looked at to its end.
"""

import time
from collections.abc import Callable
from typing import ClassVar, Final

from rich.text import Text
from textual.app import App, ComposeResult
from textual.binding import Binding, BindingType
from textual.widgets import Footer, Input, Static

from stockade_client import card
from stockade_client.approving.ages import span, validity
from stockade_client.approving.card_view import CardView
from stockade_client.approving.queue import BACK, GONE, Entry, Queue
from stockade_client.approving.queue_view import QueueView
from stockade_client.shown_text import text
from stockade_client.visible import visible

LOOK_S: Final = 0.6  # a key that comes sooner after a card was drawn was typed for something else
_REASON_CHARACTERS: Final = 2000  # as many as the daemon keeps
_INTERRUPTED: Final = 130


def _now_ms() -> float:
    return time.time() * 1000


class ApproveScreen(App[int]):
    """Runs until the person leaves; its return value is the exit status.

    now_ms: milliseconds since 1970, for ages. monotonic_s: for how long a card has been on the screen.
    """

    TITLE = "stockade approve"
    ENABLE_COMMAND_PALETTE = False
    CSS: ClassVar[str] = """
    Screen { layout: vertical; }
    #top { height: 1; text-style: bold; }
    #queue { height: auto; max-height: 25%; }
    #head { height: auto; max-height: 4; border-top: solid $primary; }
    #card { height: 1fr; scrollbar-size-vertical: 1; }
    #status { height: auto; max-height: 3; border-top: solid $primary; }
    #reason { height: 1; border: none; padding: 0; display: none; }
    #reason.asked { display: block; }
    """
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("y", "yes", "Yes"),
        Binding("n", "no", "No…"),
        Binding("j", "choose(1)", "Next"),
        Binding("k", "choose(-1)", "Previous"),
        Binding("q", "leave", "Quit"),
        Binding("escape", "go_back", "Back", show=False),
        Binding("ctrl+c,ctrl+q", "interrupt", "Quit", show=False, priority=True),
    ]

    def __init__(
        self,
        queue: Queue,
        *,
        now_ms: Callable[[], float] = _now_ms,
        monotonic_s: Callable[[], float] = time.monotonic,
    ) -> None:
        super().__init__(ansi_color=True)  # the terminal's own colours: its person has chosen them to be read
        self._queue = queue
        self._now_ms = now_ms
        self._monotonic_s = monotonic_s
        self._chosen: Entry | None = None
        self._drawn_s: float | None = None  # since when the card of the chosen one can be seen
        self._refusing: Entry | None = None  # the ask that a reason is being typed for
        self._word = ""  # said once, until something else is to be said
        self._was_away = False
        self._top, self._head = Static(id="top", markup=False), Static(id="head", markup=False)
        self._queue_view, self._card = QueueView(id="queue"), CardView(id="card")
        self._status = Static(id="status", markup=False)
        self._reason = Input(id="reason", placeholder="why not?", max_length=_REASON_CHARACTERS)

    def compose(self) -> ComposeResult:
        yield from (self._top, self._queue_view, self._head, self._card, self._status, self._reason)
        yield Footer(compact=True, show_command_palette=False)

    def on_mount(self) -> None:
        self._card.focus()
        self.set_interval(1.0, self._draw)
        self.run_worker(self._follow())
        self._draw()

    async def _follow(self) -> None:
        while True:
            await self._queue.change()
            self._draw()

    def action_yes(self) -> None:
        entry = self._answerable()
        if entry is None:
            return
        if not self._card.seen_to_its_end:
            self._say("The card goes on below: look at it to its end (End, PgDn), then say yes.")
            return
        self._queue.answer(entry, True)

    def action_no(self) -> None:
        entry = self._answerable()
        if entry is not None:
            self._refusing = entry
            self._reason.value = ""
            self._reason.add_class("asked")
            self._reason.focus()
            self.refresh_bindings()
            self._say("")

    def on_input_submitted(self, event: Input.Submitted) -> None:
        entry = self._refusing
        self.action_go_back()
        if entry is not None:
            self._queue.answer(entry, False, event.value.strip())

    def action_go_back(self) -> None:
        """Closes the question for a reason; nothing is sent."""
        self._refusing = None
        self._reason.remove_class("asked")
        self._card.focus()
        self.refresh_bindings()  # and only here: the footer is made anew each time, which flickers

    def action_choose(self, step: int) -> None:
        waiting = self._queue.waiting
        if not waiting:
            self._say("Nothing waits. A new ask appears by itself.")
        elif self._chosen in waiting:
            self._take(waiting[(waiting.index(self._chosen) + step) % len(waiting)])
        else:
            self._take(waiting[0 if step > 0 else -1])

    async def action_leave(self) -> None:
        self.exit(0)

    async def action_interrupt(self) -> None:
        self.exit(_INTERRUPTED)

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        """While a reason is typed, letters are letters."""
        return self._refusing is None or action in ("go_back", "interrupt")

    def _answerable(self) -> Entry | None:
        """The chosen ask, if the key can have been meant for it."""
        entry = self._chosen
        if entry is None:
            self._say("Nothing waits, and nothing was answered.")
        elif entry.ended:
            self._say("This one has ended, and nothing was answered. j shows the next." if self._queue.waiting else "")
        elif entry.sending is not None:
            self._say("The answer is on its way already.")
        elif self._drawn_s is None or self._monotonic_s() - self._drawn_s < LOOK_S:
            self._say("That key came before the card could be read, and nothing was answered.")
        else:
            return entry
        return None

    def _take(self, entry: Entry) -> None:
        """Makes it the chosen one, and shows its card from the top."""
        self._chosen, self._drawn_s, self._word = entry, None, ""
        self._queue.look_at(entry)
        self._card.show(card.parts(entry.ask))
        self._draw()
        self.call_after_refresh(self._drawn, entry)

    def _drawn(self, entry: Entry) -> None:
        if entry is self._chosen:
            self._drawn_s = self._monotonic_s()

    def _say(self, word: str) -> None:
        self._word = word
        self._draw()

    def _draw(self) -> None:
        if not self._status.is_attached:
            return  # not there yet, or taken down already
        queue, now = self._queue, self._now_ms()
        waiting = queue.waiting
        if self._chosen is None and waiting:
            self._take(waiting[0])
            return
        if self._refusing is not None and self._refusing.ended:
            self.action_go_back()
        if queue.away != self._was_away:
            self._was_away = queue.away
            self._word = "" if queue.away else BACK
        self._top.update(f"stockade approve: {len(waiting)} waiting")
        self._queue_view.show(waiting, self._chosen, now)
        self._head.update(self._facts(now))
        self._status.update(self._news())

    def _facts(self, now: float) -> Text:
        if self._chosen is None:
            return Text("When a call asks, its card is shown here.")
        ask = self._chosen.ask
        waited = f"waited {span(now - ask.asked_ms)} · {validity(ask.expires_ms, now)}"
        facts = [f"session {visible(ask.session_id)}"]
        if ask.asked_by:
            facts.append(f"asked by {visible(ask.asked_by)}")
        facts.append(f"card {ask.shown_hash[:8]}")
        if not self._chosen.ended:
            others = self._queue.others_at(self._chosen)
            facts += [waited, visible(others)] if others else [waited]
        return text(card.title(ask), "bold").append("\n").append(" · ".join(facts), style="not bold")

    def _news(self) -> Text:
        entry = self._chosen
        if self._queue.away:
            return Text(GONE, style="bold red")
        if self._refusing is not None:
            return Text("No, and why, for the agent. Enter sends it, Esc goes back:", style="bold")
        if entry is not None and entry.ended:
            more = f" {len(self._queue.waiting)} more waiting: j shows the next." if self._queue.waiting else ""
            return text(entry.ended, "bold").append(more)
        if entry is not None and entry.sending is not None:
            return Text(f"Sending {'yes' if entry.sending else 'no'} …")
        if entry is not None and entry.fault and not self._word:
            return text(entry.fault, "bold red")
        return text(self._word)
