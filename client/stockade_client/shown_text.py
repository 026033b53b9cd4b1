"""Text of unknown origin, styled for a person: nothing in it is markup, and everything hidden is made visible."""

from typing import Final

from rich.text import Text

from stockade_client.visible import segments

_DIFFERENCE_STYLES: Final = (
    ("+++", "bold"),
    ("---", "bold"),
    ("@@", "cyan"),
    ("+", "green"),
    ("-", "red"),
)


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
