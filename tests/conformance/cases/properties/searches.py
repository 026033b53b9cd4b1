"""grep, glob and list: what they find, what they say of the rest, and that they end."""

import os
import re
from pathlib import Path

from tests.conformance.cases.properties.looking import all_ok, everything, finds, legible, names
from tests.conformance.cases.properties.register import of
from tests.conformance.cases.replies import Played
from tests.conformance.cases.verdicts import hold

_CAP = 1 << 16


@of("SRC-01")
def what_is_named_is_found_though_hidden(played: Played) -> None:
    all_ok(played.all())
    wanted = b".github/workflows/ci.yml"
    finds(played.of(0), wanted)
    finds(played.of(1), wanted)
    hold(wanted in names(played.of(2)) or "hidden" in played.of(2).text, "the third neither finds it nor says why not")


@of("SRC-02")
def what_is_named_is_found_though_ignored(played: Played) -> None:
    all_ok(played.all())
    finds(played.of(0), b"dist/a.js")
    second = played.of(1)
    said = b"dist/a.js" in names(second) or re.search(r"\b1\b.*ignored", second.text)
    hold(said, "the second neither lists it nor says that one is ignored")


@of("SRC-06")
def a_pattern_ends_and_leaves_nothing_running(played: Played) -> None:
    for number in (0, 1):
        reply = played.of(number)
        hold(reply.ok or reply.code == "TOOL_TIMEOUT", f"{reply}; expected ok or timeout")
    hold(played.of(2).ok, f"{played.of(2)}; expected ok")
    searching = [pid for pid in _processes() if b"(a+)+$" in _line(pid) or b"(a|aa)+$" in _line(pid)]
    hold(not searching, f"a search is still running: {searching}")


@of("SRC-08")
def links_are_not_walked(played: Played) -> None:
    all_ok(played.all())
    hold(names(played.of(0)) == [b"d/a"], f"grep gives {names(played.of(0))!r}")
    hold(names(played.of(1)).count(b"d/a") == 1, f"glob gives {names(played.of(1))!r}")
    hold(not [name for name in names(played.of(1)) if b"loop/" in name or b"self/" in name], "a link was walked")


@of("SRC-10")
def many_matches_are_capped(played: Played) -> None:
    reply = played.of(0)
    legible([reply])
    hold(len(reply.text.encode()) <= _CAP, f"the text has {len(reply.text.encode())} bytes")
    hold(reply.field("truncated") is True, "it does not say that it was cut")
    hold("at least" in reply.text or isinstance(reply.field("total"), int), "it does not say of how many")
    hold("\ufffd" not in everything(reply), "a character was cut in two")


@of("SRC-11")
def the_environment_changes_nothing(played: Played) -> None:
    reply = played.of(0)
    hold(reply.field("total") == 1, f"{reply.field('total')!r} matches")
    hold("\x1b" not in everything(reply) and "\\u001b" not in everything(reply), "there are ANSI codes")


@of("SRC-12")
def the_order_is_stable(played: Played) -> None:
    first, second, third, fourth = played.all()
    hold(first.value == second.value and first.text == second.text, "grep's replies differ")
    hold(third.value == fourth.value and third.text == fourth.text, "glob's replies differ")
    hold(len(names(third)) == 200, f"glob gives {len(names(third))} of 200")


def _processes() -> list[int]:
    return [int(name) for name in os.listdir("/proc") if name.isdecimal()]


def _line(pid: int) -> bytes:
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes()
    except OSError:
        return b""
