"""The card of an ask as styled text: all of what a person is shown before saying yes.

Nothing in it is markup, and everything hidden is made visible: the text is from a model, or from whoever spoke to it.
"""

import json
from collections.abc import Mapping
from typing import Final

from rich.console import Group
from rich.panel import Panel
from rich.text import Text

from stockade_client import effects_view
from stockade_client.approvals import Ask
from stockade_client.events_text import scalar
from stockade_client.results import Json
from stockade_client.shown_text import difference, text
from stockade_client.visible import visible

WIDTH: Final = 110  # lines longer than this are hard to read however wide the terminal

_BETWEEN: Final = " · "
_WHERE: Final = ("tool", "profile", "workspace", "path", "operation", "added", "removed")
_BOUND: Final = ("session", "profile_digest", "tool_digest", "before", "after")  # what the answer is bound to besides
_SHOWN_APART: Final = frozenset({"title", "arguments", "difference", "reason", "expires_ms", *_WHERE, *_BOUND})


def title(ask: Ask) -> str:
    """What the call would do, in its tool's words, as they came: for `text` or `visible`."""
    return _as_text(ask.card.get("title") or ask.tool)


def parts(ask: Ask) -> list[Text]:
    """All of the card but its title, part by part, whatever keys it has.

    Left out are empty values, the time that the head says, and the arguments where the exact difference that they make
    is shown. What a command did is shown below the arguments that it did it with.
    """
    shown = {name: value for name, value in ask.card.items() if value not in (None, "", [], {})}
    made = [_inline(shown, _WHERE)] if any(name in shown for name in _WHERE) else []
    if "reason" in shown:
        made.append(text(_as_text(shown["reason"])))
    arguments = shown.get("arguments", {})
    if "difference" not in shown:
        made.extend(
            [_argument(name, value) for name, value in arguments.items()]
            if isinstance(arguments, dict)
            else [text(_as_text(arguments))]
        )
    has_effects = "effects" in ask.card
    # How long the arguments are is of use beside them alone.
    apart = _SHOWN_APART | ({"lengths"} if "difference" in shown else effects_view.SHOWN if has_effects else set())
    made.extend(_argument(name, value) for name, value in shown.items() if name not in apart)
    if "difference" in shown:
        made.append(difference(_as_text(shown["difference"])))
    if has_effects:
        made.extend(effects_view.parts(ask.card))
    if any(name in shown for name in _BOUND):
        made.append(_inline(shown, _BOUND))
    return made


def card(ask: Ask, *, width: int = WIDTH) -> Panel:
    """The card in a frame."""
    return Panel(
        Group(*parts(ask)),
        title=Text(" ").append_text(text(title(ask), "bold")).append(" "),
        title_align="left",
        subtitle=Text(f" card {ask.shown_hash[:8]} "),
        subtitle_align="right",
        border_style="yellow",
        width=width,
    )


def _inline(shown: Mapping[str, Json], names: tuple[str, ...]) -> Text:
    """Short facts side by side."""
    facts = (f"{name} {_fact(scalar(shown[name]))}" for name in names if name in shown)
    return Text(_BETWEEN.join(facts), style="dim")


def _fact(value: str) -> str:
    """A file may be named as if other facts followed it."""
    return visible(json.dumps(value, ensure_ascii=False) if _BETWEEN.strip() in value else value)


def _argument(name: str, value: Json) -> Text:
    shown = text(_as_text(value))
    made = Text().append(f"{visible(name)}: ", style="bold")
    # Text of several lines starts on its own, so that its columns stand as they are in it.
    return made.append("\n").append_text(shown) if "\n" in shown.plain else made.append_text(shown)


def _as_text(value: Json) -> str:
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
