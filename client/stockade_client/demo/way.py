"""One call's way through the stages, drawn from its recorded events."""

from collections.abc import Sequence
from typing import Final

from rich.text import Text

from stockade_client.events_text import picked
from stockade_client.values import Event
from stockade_client.visible import one_line

# What each event means, in the order of the stages (docs/architecture.md), and what of its body tells the most.
_STAGES: Final[dict[str, tuple[str, tuple[str, ...]]]] = {
    "tool/call": ("recorded before anything else happens", ("tool", "digest")),
    "policy/pre-execute": ("hooks, rules and profile judge the call", ("decision", "reason")),
    "policy/guards": ("guards may still deny", ("decision", "denied", "reason")),
    "call/dispatched": ("a single-use worker gets the body", ("worker", "attempt")),
    "fs/observed": ("what the body was shown of a file", ("path", "digest", "lines")),
    "fs/edit-intent": ("the body asks for a change", ("path", "operation", "decision", "added", "removed")),
    "fs/write-intent": ("the gate has the exact bytes", ("path", "operation", "decision", "before", "after")),
    "approval/asked": ("a person is shown exactly this", ("title", "shown_hash")),
    "approval/decided": ("and answers once", ("allow", "outcome", "reason")),
    "policy/transaction": ("guards may still deny the change", ("decision", "reason")),
    "fs/begun": ("recorded before the first byte changes", ("path", "before", "after")),
    "fs/committed": ("the gate has changed the workspace", ("path", "operation", "before", "after")),
    "policy/post-execute": ("hooks look at the outcome", ("decision", "reason")),
    "tool/result": ("the one result", ("ok",)),
    "context/message": ("told to the model beside the result", ()),
}


def drawn(events: Sequence[Event], width: int) -> list[Text]:
    """The events from top to bottom: when, what, what it means, what was decided."""
    if not events:
        return []
    start = events[0].time_ms
    column = max(len(event.type) for event in events)
    lines: list[Text] = []
    for number, event in enumerate(events):
        first, last = number == 0, number == len(events) - 1
        knot = "┌" if first else "└" if last else "├"
        means, names = _STAGES.get(event.type, ("", ()))
        line = Text(f"  {event.time_ms - start:>6} ms ", style="dim")
        line.append(f"{knot}─ ", style="cyan").append(f"{event.type:<{column}}", style="bold")
        line.append(f"  {means}".rstrip())
        line.truncate(width)
        lines.append(line)
        details = "  ".join(f"{name} {value}" for name, value in picked(event.body, names))
        if details:
            below = Text(" " * 12).append(" " if last else "│", style="cyan").append("  ")
            room = width - len(below.plain)
            lines.append(below.append(one_line(details, room), style="dim"))
    return lines
