"""Checks of the project's own cases."""

import os

from tests.conformance.cases.properties.looking import all_ok, everything, legible, names, on_disk
from tests.conformance.cases.properties.register import of
from tests.conformance.cases.replies import Played, Reply
from tests.conformance.cases.verdicts import Fails, hold


def _entries(reply: Reply) -> dict[str, dict[str, object]]:
    found = reply.field("entries")
    if not isinstance(found, list):
        raise Fails(f"{reply}: there are no entries")
    return {each["name"]: each for each in found}


@of("OWN-LST-01")
def hidden_names_are_listed(played: Played) -> None:
    kinds = {name: each["kind"] for name, each in _entries(played.of(0)).items()}
    hold(kinds == {".a": "file", ".d": "directory", "b": "file"}, f"it lists {kinds}")


@of("OWN-LST-02")
def an_empty_directory_has_no_entries(played: Played) -> None:
    hold(_entries(played.of(0)) == {}, f"it lists {_entries(played.of(0))}")


@of("OWN-LST-04")
def links_are_listed_as_links(played: Played) -> None:
    found = {name: (each["kind"], each.get("target")) for name, each in _entries(played.of(0)).items()}
    wanted = {"gone": ("link", "nowhere"), "out": ("link", "/etc"), "me": ("link", ".")}
    hold(found == wanted, f"it lists {found}")


@of("OWN-LST-05")
def a_cut_list_says_how_to_go_on(played: Played) -> None:
    first, second = played.of(0), played.of(1)
    for reply in (first, second):
        hold(reply.field("total") == 3000, f"the total is {reply.field('total')!r}")
    hold(first.field("truncated") is True and "offset" in first.text, "it does not say how to go on")
    hold(list(_entries(first)) == [f"n{number:04}" for number in range(len(_entries(first)))], "it has gaps")
    hold(next(iter(_entries(second))) == "n1000", f"the second begins with {next(iter(_entries(second)))}")


@of("OWN-SRC-04")
def a_dollar_matches_before_crlf(played: Played) -> None:
    hold([each["line"] for each in played.of(0).field("matches")] == [1], f"it finds {played.of(0).field('matches')}")


@of("OWN-SRC-05", "OWN-INJ-01", "OWN-INJ-02", "OWN-INJ-03", "OWN-INJ-04", "OWN-INJ-05", "OWN-INJ-06")
def there_is_one_match(played: Played) -> None:
    legible(played.all())
    hold(played.of(0).field("total") == 1, f"{played.of(0).field('total')!r} matches: {everything(played.of(0))[:200]}")
    hold(sorted(os.listdir(played.places.workspace)) == ["a"], "something was made")


@of("OWN-SRC-06", "OWN-SRC-07")
def only_the_workspaces_own_file_is_found(played: Played) -> None:
    all_ok(played.all())
    for reply in played.all():
        hold(names(reply) == [b"a"], f"{reply.tool} gives {names(reply)!r}")


@of("OWN-SRC-08")
def case_and_include_are_kept(played: Played) -> None:
    hold(names(played.of(0)) == [b"a.py"], f"the first gives {names(played.of(0))!r}")
    hold(names(played.of(1)) == [b"b.txt"], f"the second gives {names(played.of(1))!r}")


@of("OWN-CON-02", "OWN-CON-03")
def what_was_ok_is_there_and_what_was_refused_is_not(played: Played) -> None:
    found = on_disk(played, "f").decode()
    hold(any(reply.ok for reply in played.last()), "every edit was refused")
    for reply in played.last():
        hold(reply.ok or reply.code == "FS_STALE_VERSION", f"{reply}; expected ok or stale")
        new = reply.arguments["new_string"]
        hold((new in found) == reply.ok, f"{reply}, and the file holds {found!r}")


@of("OWN-CON-04")
def one_made_the_file_whole(played: Played) -> None:
    made = [reply for reply in played.last() if reply.ok]
    hold(len(made) == 1, f"{len(made)} made it")
    hold(on_disk(played, "n").decode() == made[0].arguments["content"], "it holds something else")
    (refused,) = [reply for reply in played.last() if not reply.ok]
    hold(refused.code in ("FS_STALE_VERSION", "FS_NOT_OBSERVED", "FS_EXISTS"), f"{refused}; expected a refusal")


@of("OWN-CON-07")
def nothing_of_another_program_is_lost(played: Played) -> None:
    codes = {reply.code for reply in played.last()}
    hold(codes <= {"", "FS_STALE_VERSION", "FS_CONFLICT", "FS_NOT_OBSERVED"}, f"there are {codes}")
