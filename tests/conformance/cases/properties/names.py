"""Names of files as they come back: complete, reversible, harmless."""

import os

from tests.conformance.cases.properties.looking import all_ok, everything, finds, legible, names
from tests.conformance.cases.properties.register import of
from tests.conformance.cases.replies import Played
from tests.conformance.cases.verdicts import hold


@of("ENC-15")
def names_that_are_no_text_are_reversible(played: Played) -> None:
    all_ok(played.all())
    legible(played.all())
    for reply in played.all():
        finds(reply, b"good.txt")
        if reply.tool != "grep":  # the other file is empty
            finds(reply, b"caf\xe9.txt")
            hold("\\xe9" in reply.text, f"{reply.tool}: the text does not show the other name escaped")


@of("META-07")
def nothing_stray_is_left(played: Played) -> None:
    refused = played.of(2)
    hold(refused.code == "FS_PERMISSION_DENIED", f"{refused}; expected permission")
    finds(played.of(3), b"a.txt", b"ro")
    workspace = played.places.workspace
    hold(sorted(os.listdir(workspace)) == ["a.txt", "ro"], f"the workspace holds {sorted(os.listdir(workspace))}")
    hold(os.listdir(workspace / "ro") == [], "ro is not empty")
    hold(len(names(played.of(3))) == 2 and names(played.of(4)) == [], "list shows something else")


@of("PTH-13")
def a_newline_in_a_name_makes_no_second_entry(played: Played) -> None:
    all_ok(played.all())
    for reply in played.all():
        hold(names(reply) == [b"a\nrm -rf .txt"], f"{reply.tool} gives {names(reply)!r}")
        hold("a\\nrm -rf .txt" in reply.text, f"{reply.tool}: the text does not escape the newline")
        hold("\nrm -rf" not in reply.text, f"{reply.tool}: the text holds the newline")


@of("PTH-14")
def names_with_a_dash_are_data(played: Played) -> None:
    all_ok(played.all())
    for number in (0, 1, 2):
        hold("needle" in everything(played.of(number)), f"call {number} does not find `needle`")
    finds(played.of(3), b"-n", b"--help")
    hold(os.path.lexists(played.places.within("-v")), "-v was not made")
