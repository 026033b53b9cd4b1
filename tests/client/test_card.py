"""What a person is shown before saying yes."""

import io
import json

from rich.console import Console

from stockade.v1 import approvals_pb2
from stockade_client.approvals import Ask
from stockade_client.card import card
from stockade_client.link import Link
from stockade_client.results import Json


def shown(link: Link, content: dict[str, Json] | bytes, *, colour: bool = False) -> str:
    text = content if isinstance(content, bytes) else json.dumps(content).encode()
    ask = Ask(link, approvals_pb2.Ask(ask_id="a", tool="edit", card=text))
    written = io.StringIO()
    Console(file=written, width=100, force_terminal=colour, color_system="standard" if colour else None).print(
        card(ask, width=100)
    )
    return written.getvalue()


def test_every_part_of_the_card_is_shown(link: Link) -> None:
    text = shown(
        link,
        {
            "title": "Edit a.txt",
            "tool": "edit",
            "profile": "dev",
            "reason": "writes ask",
            "difference": "@@ -1 +1 @@\n-one\n+two\n",
            "path": "a.txt",
            "something": "new",
        },
    )
    for part in ("Edit a.txt", "tool edit", "profile dev", "writes ask", "-one", "+two", "something: new"):
        assert part in text


def test_arguments_are_shown_whole(link: Link) -> None:
    text = shown(link, {"title": "Run", "arguments": {"command": "first\n" * 300 + "last"}})
    assert text.count("first") == 300
    assert "last" in text


def test_no_text_of_a_card_is_taken_for_markup_or_steers_the_terminal(link: Link) -> None:
    text = shown(link, {"title": "[bold]x[/bold] \x1b[2J", "arguments": {"command": "\u202egood :smile:"}})
    assert "[bold]x[/bold] \\x1b[2J" in text
    assert "\\u202egood :smile:" in text
    assert "\x1b" not in text


def test_differences_are_coloured_where_colours_are(link: Link) -> None:
    text = shown(link, {"title": "Edit", "difference": "-one\n+two"}, colour=True)
    assert "\x1b[31m-one" in text
    assert "\x1b[32m+two" in text


def test_a_card_that_cannot_be_read_is_shown_as_it_came(link: Link) -> None:
    text = shown(link, b"not json")
    assert "cannot be read" in text
    assert "not json" in text
