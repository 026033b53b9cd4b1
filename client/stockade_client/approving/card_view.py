"""The card on the screen: all of it, to be scrolled, drawn line by line so that a long one costs no more than it shows.

It knows whether its end has been on the screen: a yes before that would be a yes to something that nobody looked for.
"""

from bisect import bisect_right
from itertools import accumulate

from rich.cells import cell_len, chop_cells
from rich.segment import Segment
from rich.text import Text
from textual.events import Resize
from textual.geometry import Size
from textual.scroll_view import ScrollView
from textual.strip import Strip

_WRAPPED_BY_WORDS = 2000  # characters; a longer line is no prose, and is cut where the screen ends


class CardView(ScrollView, can_focus=True):
    """Text in lines as wide as the screen. `show` gives it another one."""

    def __init__(self, *, id: str) -> None:
        super().__init__(id=id)
        self._lines: list[Text] = []
        self._ends: list[int] = []  # rows up to and including each line, at this width
        self._laid_out_for = 0
        self._wrapped: tuple[int, list[Text]] = (-1, [])  # the line that was drawn last, and its rows
        self.seen_to_its_end = False  # whether the last row has been drawn since the text is there
        self.show_horizontal_scrollbar = False

    def show(self, parts: list[Text]) -> None:
        """Other text, from its top."""
        self._lines = [line for part in parts for line in part.split("\n", allow_blank=True)]
        for line in self._lines:
            line.expand_tabs(8)
        self.seen_to_its_end = False
        self._lay_out()
        self.scroll_home(animate=False, immediate=True)

    def on_resize(self, event: Resize) -> None:
        if self.scrollable_content_region.width != self._laid_out_for:
            self._lay_out()

    def render_line(self, y: int) -> Strip:
        width = self.scrollable_content_region.width
        row = y + self.scroll_offset.y
        if row >= self.virtual_size.height or not self._ends:
            return Strip.blank(width, self.rich_style)
        self.seen_to_its_end |= row + 1 == self.virtual_size.height
        index = bisect_right(self._ends, row)
        first = self._ends[index - 1] if index else 0
        if self._wrapped[0] != index:
            self._wrapped = index, self._rows(self._lines[index], width)
        drawn = self._wrapped[1][row - first].render(self.app.console)
        segments = Segment.apply_style(drawn, self.rich_style)
        return Strip(segments).adjust_cell_length(width, self.rich_style)

    def _lay_out(self) -> None:
        width = self.scrollable_content_region.width
        self._laid_out_for, self._wrapped = width, (-1, [])
        self._ends = list(accumulate(len(self._rows(line, width)) for line in self._lines)) if width else []
        self.virtual_size = Size(width, self._ends[-1] if self._ends else 0)
        self.refresh()

    def _rows(self, line: Text, width: int) -> list[Text]:
        if cell_len(line.plain) <= width:
            return [line]
        if len(line.plain) <= _WRAPPED_BY_WORDS:
            return list(line.wrap(self.app.console, width, overflow="fold", no_wrap=False))
        cuts = list(accumulate(len(piece) for piece in chop_cells(line.plain, width)))
        return list(line.divide(cuts[:-1]))
