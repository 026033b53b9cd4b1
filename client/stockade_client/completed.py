"""The completed card of a call, for a person at a terminal: one line that says what it came to."""

from collections.abc import Mapping

from rich.text import Text

from stockade_client.results import Json
from stockade_client.shown_text import text


def heading(card: Mapping[str, Json]) -> Text:
    """A mark, the title, and what the view has. A card that lacks any of them is shown without."""
    ok = card.get("ok") is True
    line = Text("✓ ", style="bold green") if ok else Text("✗ ", style="bold red")
    line.append_text(text(str(card.get("title", "")), "bold"))
    said = facts(card)
    if said:
        line.append_text(text(f"  {said}", "dim"))
    return line


def facts(card: Mapping[str, Json]) -> str:
    """What the view has, in words; empty where it has nothing, or not what it should have."""
    match card:
        case {"view": "terminal", "timed_out": True}:
            return "timed out"
        case {"view": "terminal", "signal": int(number)}:
            return f"killed by signal {number}"
        case {"view": "terminal", "exit_code": int(code)}:
            return f"exit status {code}"
        case {"view": "read", "total": 0}:
            return "an empty file"
        case {"view": "read", "first": int(first), "last": int(last), "total": int(total)}:
            return f"lines {first} to {last} of {total}"
        case {"view": "search", "total": int(total), "truncated": bool(truncated)}:
            return f"{total} found{', not all shown' if truncated else ''}"
        case {"view": "diff", "difference": str(difference)}:
            lines = [each for each in difference.split("\n") if not each.startswith(("+++", "---"))]
            return f"+{sum(each[:1] == '+' for each in lines)} -{sum(each[:1] == '-' for each in lines)}"
    return ""
