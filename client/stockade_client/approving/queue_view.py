"""The queue on the screen: a line for each ask, those around the chosen one."""

from collections.abc import Sequence

from rich.cells import cell_len
from rich.text import Text
from textual.widget import Widget

from stockade_client import card
from stockade_client.approving.ages import span
from stockade_client.approving.queue import Entry
from stockade_client.visible import one_line

_LEAST_FOR_SESSIONS = 64  # columns; on a narrower screen the title has them
_SESSION = 18


class QueueView(Widget):
    """Draws what `show` was given last. Nothing here takes keys: the screen does."""

    def __init__(self, *, id: str) -> None:
        super().__init__(id=id)
        self._waiting: Sequence[Entry] = ()
        self._chosen: Entry | None = None
        self._now_ms = 0.0

    def show(self, waiting: Sequence[Entry], chosen: Entry | None, now_ms: float) -> None:
        """`chosen` may have left the queue already: then none is marked."""
        self._waiting, self._chosen, self._now_ms = waiting, chosen, now_ms
        self.refresh(layout=True)

    def get_content_height(self, container: object, viewport: object, width: int) -> int:
        return max(1, len(self._waiting))

    def render(self) -> Text:
        width, height = self.size.width, max(1, self.size.height)
        if not self._waiting:
            return Text("nothing waits", style="dim")
        place = self._waiting.index(self._chosen) if self._chosen in self._waiting else 0
        first = max(0, min(place - height // 2, len(self._waiting) - height))
        rows = [
            self._row(number, entry, width)
            for number, entry in enumerate(self._waiting[first : first + height], first + 1)
        ]
        return Text("\n").join(rows)

    def _row(self, number: int, entry: Entry, width: int) -> Text:
        chosen = entry is self._chosen
        row = Text(f"{'>' if chosen else ' '}{number:>3} ", style="bold reverse" if chosen else "", no_wrap=True)
        age = f" {span(self._now_ms - entry.ask.asked_ms):>10}"
        session = f" {one_line(entry.ask.session_id, _SESSION):<{_SESSION}}" if width >= _LEAST_FOR_SESSIONS else ""
        left = max(1, width - cell_len(row.plain) - cell_len(session) - len(age))
        line = Text(one_line(card.title(entry.ask), left))
        line.truncate(left, pad=True)  # wide characters take two columns
        row.append_text(line).append(session).append(age)
        return row
