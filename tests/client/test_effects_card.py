"""What a person is shown of what a command did, before it is committed."""

import asyncio
import io
import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.console import Console

from stockade.v1 import approvals_pb2
from stockade_client import Daemon, effects_view
from stockade_client.approvals import Ask
from stockade_client.card import card, parts
from stockade_client.link import Link
from tests.client.effects_cards import DONE, EFFECTS

HANG_S = 60.0  # a hang detector


def ask(link: Link, **changed: Any) -> Ask:
    return Ask(link, approvals_pb2.Ask(ask_id="a", tool="shell", card=json.dumps(DONE | changed).encode()))


def lines(link: Link, **changed: Any) -> list[str]:
    """All of the card, as plain lines."""
    return [line for part in parts(ask(link, **changed)) for line in part.plain.split("\n")]


def effects(*each: dict[str, Any]) -> list[str]:
    shown = effects_view.parts({"effects": list(each), "effects_total": len(each)})
    return [line for part in shown for line in part.plain.split("\n")]


def test_the_card_has_counts_a_tree_what_is_left_out_and_the_differences(link: Link) -> None:
    assert lines(link) == [
        "tool shell · profile dev · workspace /srv/greeter",
        "profile dev asks about effects",
        "command: make greeting",
        "The command has run in a private view. Yes commits all that it did, no drops all of it:",
        "2 created, 1 changed, 1 deleted, 1 renamed, 1 replaced, 1 with other metadata"
        " · 5 files · 1.3 MB of new content",
        "src/  2 created, 1 changed, 1 with other metadata",
        "  changed  greet.py  42 B  +1 -1",
        "  created  logo.png  48 kB  binary",
        "  metadata run.sh    mode 0644 to 0755",
        "  created  latest    symlink  to greet.py",
        "doc/deep/  1 renamed",
        "  renamed  new.txt  from old.txt  1.2 MB",
        "deleted  README.md  812 B",
        "replaced data/",
        "Never committed, and left out:",
        "log.sock: a socket",
        "=== src/greet.py: changed",
        "--- a/src/greet.py",
        "+++ b/src/greet.py",
        "@@ -1,2 +1,2 @@",
        " import sys",
        "-print('hello')",
        "+print('good day')",
        "=== src/logo.png: created, binary, after e7e7e7e7e7e7",
        f"transaction {'7f' * 32}",
        "session greeter · profile_digest 5d5d5d5d · tool_digest 7a7a7a7a",
    ]


def test_the_frame_of_a_terminal_has_all_of_it(link: Link) -> None:
    written = io.StringIO()
    Console(file=written, width=110).print(card(ask(link)))
    for part in ("Run make greeting", "created  logo.png", "log.sock: a socket", "+print('good day')", "7f" * 20):
        assert part in written.getvalue()


def test_what_the_card_has_no_room_for_is_told_of(link: Link) -> None:
    assert "… and 9993 more, which are not shown here and are committed as well" in lines(link, effects_total=10_000)
    assert any("word for word" in line for line in lines(link, complete=False))
    assert not any("word for word" in line or "more," in line for line in lines(link))
    shown = lines(link, effects=[], effects_total=3)
    assert "… and 3 more, which are not shown here and are committed as well" in shown
    assert f"transaction {'7f' * 32}" in shown


def test_why_it_is_asked_about_whatever_the_profile_says_is_told(link: Link) -> None:
    shown = lines(link, reasons=[{"path": ".git/config", "why": "git obeys it"}])
    assert shown[shown.index("Asked about in any case:") + 1] == ".git/config: git obeys it"


async def test_the_card_of_a_real_daemon_is_shown_and_yes_commits_what_it_shows(
    daemon: Daemon, workspace: Path
) -> None:
    command = "mkdir new; echo x > new/x.txt; echo 2 > a.txt; rm b.txt; head -c 300 /dev/zero > zeros; ln -s a.txt link"
    async with (
        asyncio.timeout(HANG_S),
        daemon.session(workspace, "dev") as session,
        daemon.approvals(session.session_id) as asks,
    ):
        call = await session.start("shell", command=command)
        ask = await anext(asks)
        shown = [line for part in parts(ask) for line in part.plain.split("\n")]
        await ask.decide(True)
        result = await call.result()
    assert result.ok, result.error
    told = "\n".join(shown)
    for part in ("new/", "created  x.txt", "changed  a.txt", "deleted  b.txt", "binary", "to a.txt", "+2", "-two"):
        assert part in told, told
    assert f"transaction {ask.card['transaction']}" in shown
    left = set(ask.card) - effects_view.SHOWN
    assert left <= {*DONE, "operands", "note"}, left  # nothing of it is shown as bare data
    assert (workspace / "new" / "x.txt").read_text() == "x\n"
    assert not (workspace / "b.txt").exists()


def test_a_difference_that_is_cut_says_so() -> None:
    long = {"path": "a", "change": "changed", "kind": "file", "size": 1, "cut": True, "before": "a1" * 32}
    assert "=== a: changed, a large difference is not shown, before a1a1a1a1a1a1" in effects(long)
    shown = effects({**long, "difference": "@@ -1 +1 @@\n-x\n+y\n"})
    assert shown[-1] == "The difference goes on; only its beginning is shown here"


def test_names_that_look_like_something_else_are_quoted_and_hidden_characters_are_seen() -> None:
    for name, shown in (
        ("a\nreplaced data/", '"a\\nreplaced data"/'),
        ("a  812 B", '"a  812 B"'),
        ("a from b", '"a from b"'),
        (" a", '" a"'),
        ("a\x1b[2J\u202eb", "a\\x1b[2J\\u202eb"),
        ("[bold]a[dim]", "[bold]a[dim]"),
    ):
        (line,) = (line for line in effects({"path": name, "change": "created", "kind": "file"}) if "created" in line)
        assert shown.rstrip("/") in line, line
        assert "\x1b" not in line


def test_an_entry_that_is_not_as_expected_is_shown_as_it_came() -> None:
    shown = effects({"path": "a", "change": "vanished", "kind": "door", "xattr": {"user.x": 1}}, "b")  # type: ignore[arg-type]
    assert 'vanished a  door  xattr {"user.x": 1}' in shown
    assert any("b" in line.split() for line in shown)
    assert any('"1"' in line or " 1" in line for line in effects({"path": 1, "change": None}))


def test_a_tree_of_two_thousand_directories_is_drawn() -> None:
    below = [{"path": "d/" * depth + "f", "change": "created", "kind": "file"} for depth in range(0, 2000, 7)]
    shown = effects(*below)
    assert sum("created " in line and "f" in line for line in shown) >= len(below)
    assert max(len(line) - len(line.lstrip()) for line in shown) <= 40


@pytest.mark.parametrize(
    ("count", "shown"),
    [(0, "0 B"), (999, "999 B"), (1000, "1.0 kB"), (48_211, "48 kB"), (999_600, "1.0 MB"), (10**16, "10000 TB")],
)
def test_sizes_are_short(count: int, shown: str) -> None:
    assert effects_view.size(count) == shown


VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=4), inner, max_size=3),
    max_leaves=6,
)


@given(
    st.dictionaries(st.sampled_from(sorted(effects_view.SHOWN)), VALUES),
    st.lists(st.dictionaries(st.sampled_from([*EFFECTS[1], "target", "mode", "binary", "other"]), VALUES), max_size=4),
)
def test_whatever_a_card_holds_is_drawn_without_a_control_character(
    rest: dict[str, Any], some: list[dict[str, Any]]
) -> None:
    for part in effects_view.parts(rest | {"effects": some}):
        assert all(each in "\n\t" or each.isprintable() for each in part.plain)
