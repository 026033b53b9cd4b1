"""What a run tells while it goes on, and its last words: plain lines, a progress bar at a terminal, or JSON lines."""

import json
import sys
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Final

from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

from stockade_client.results import Json
from stockade_client.runs.entries import Fault
from stockade_client.runs.outcomes import Kind, Outcome
from stockade_client.streams import complain
from stockade_client.terminal import console
from stockade_client.visible import one_line, visible

_SLOWEST: Final = 5
_WORDS: Final[dict[Kind, str]] = {
    "passed": "ok",
    "failed": "FAILED",
    "timeout": "TIME UP",
    "infrastructure": "INFRASTRUCTURE",
    "not run": "not run",
}
_ORDER: Final[tuple[Kind, ...]] = ("passed", "failed", "timeout", "infrastructure", "not run")


class Telling:
    """An audience of a run."""

    def __init__(self, *, as_json: bool, total: int) -> None:
        self._as_json = as_json
        self._total = total
        self._progress: Progress | None = None
        self._known: set[tuple[str, int]] = set()

    @contextmanager
    def shown(self) -> Iterator[None]:
        """A progress bar on stderr where that is a terminal."""
        if not sys.stderr.isatty() or self._as_json:
            yield
            return
        columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
        # Lines stand above the bar where both are of one terminal; elsewhere they would go to the bar's stream.
        above = sys.stdout.isatty()
        bar = Progress(*columns, console=console(stderr=True), transient=True, redirect_stdout=above)
        with bar as self._progress:
            self._task = self._progress.add_task("entries", total=self._total)
            yield
        self._progress = None

    def came(self, outcome: Outcome) -> None:
        key = (outcome.entry.file, outcome.entry.line)
        if self._progress is not None:
            self._progress.update(self._task, advance=int(key not in self._known))
            if outcome.kind == "passed" and not outcome.retried:
                self._known.add(key)
                return
        self._known.add(key)
        if self._as_json:
            print(json.dumps(outcome.as_json(), ensure_ascii=False), flush=True)
        else:
            print(line_of(outcome), flush=True)

    def over(self, outcomes: Sequence[Outcome], faults: Sequence[Fault], wall_s: float) -> None:
        """The last words."""
        counts = Counter(each.kind for each in outcomes)
        if self._as_json:
            summary: dict[str, Json] = {kind.replace(" ", "_"): counts[kind] for kind in _ORDER}
            retried = sum(bool(each.retried) for each in outcomes)
            summary |= {"total": len(outcomes), "refused": sum(each.refused for each in outcomes)}
            summary |= {"retried": retried, "malformed": len(faults), "wall_s": round(wall_s, 3)}
            print(json.dumps({"summary": summary}), flush=True)
            return
        for each in last_words(outcomes, len({(each.file, each.line) for each in faults}), wall_s):
            print(visible(each), flush=True)


def line_of(outcome: Outcome) -> str:
    """One line of an entry, and below it why it did not pass."""
    entry = outcome.entry
    again = f", attempt {outcome.attempts}" if outcome.attempts > 1 else ""
    word = "REFUSED" if outcome.refused else _WORDS[outcome.kind]
    lines = [f"{word:<8} {one_line(entry.name, 200)} ({outcome.wall_s:.2f} s{again})  {entry.file}:{entry.line}"]
    reasons = [*outcome.reasons]
    if outcome.retried:
        reasons.append(f"played again because of the infrastructure: {outcome.retried}")
    lines += [f"         {line}" for reason in reasons for line in reason.splitlines()]
    return visible("\n".join(lines))


def last_words(outcomes: Sequence[Outcome], malformed: int, wall_s: float) -> list[str]:
    """Counts, of lines that are no entries as well; the refused, the retried and the slowest."""
    counts = Counter(each.kind for each in outcomes)
    parts = [f"{counts[kind]} {kind}" for kind in _ORDER if counts[kind] or kind == "passed"]
    unused = f"; {counted(malformed, 'line', 'lines')} malformed" if malformed else ""
    lines = [f"{counted(len(outcomes), 'entry', 'entries')} in {wall_s:.1f} s: {', '.join(parts)}{unused}"]
    for title, chosen in (
        ("refused", [each for each in outcomes if each.refused]),
        ("played twice", [each for each in outcomes if each.retried]),
    ):
        if chosen:
            lines.append(f"{title} ({len(chosen)}):")
            lines += [f"  {one_line(each.entry.name, 100)}" for each in chosen[:20]]
    played = sorted((each for each in outcomes if each.kind != "not run"), key=lambda each: -each.wall_s)[:_SLOWEST]
    if len(played) > 1:
        lines.append("slowest:")
        lines += [f"  {each.wall_s:7.2f} s  {one_line(each.entry.name, 100)}" for each in played]
    return lines


def counted(number: int, one: str, several: str) -> str:
    return f"{number} {one if number == 1 else several}"


def tell_faults(faults: Sequence[Fault]) -> None:
    for fault in faults:
        complain(str(fault))
