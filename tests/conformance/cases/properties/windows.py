"""What `read` shows: windows, long lines, binary files, and which file a path means."""

from tests.conformance.cases.properties.looking import all_ok, content, everything
from tests.conformance.cases.properties.register import of
from tests.conformance.cases.replies import Played
from tests.conformance.cases.verdicts import hold

CAP: int = 1 << 16  # bytes: what the manifest of `read` allows its text


@of("ENC-20")
def characters_stay_whole(played: Played) -> None:
    for reply in played.all():
        hold("\ufffd" not in everything(reply), "a reply holds U+FFFD")
    hold(content(played.of(1)) == "tail 中\n", f"line 2 is {content(played.of(1))!r}")


@of("PAR-07")
def each_window_is_the_one_that_was_asked_for(played: Played) -> None:
    all_ok(played.all())
    hold(content(played.of(0)) == "l1\nl2\nl3\n", f"the first window is {content(played.of(0))!r}")
    hold(content(played.of(1)) == "l4000\nl4001\nl4002\n", f"the second window is {content(played.of(1))!r}")


@of("PTH-07")
def both_spellings_of_the_root_work(played: Played) -> None:
    all_ok(played.all())
    for reply in played.all():
        hold(content(reply) == "1\n", f"it is {content(reply)!r}")


@of("PTH-09")
def a_tilde_elsewhere_is_a_character(played: Played) -> None:
    hold(content(played.of(0)) == "1\n" and content(played.of(1)) == "2\n", "a name with a tilde was not read")
    last = played.of(2)
    hold(not last.ok or content(last) == "1\n", "`~backup` led to another file")


@of("PTH-22")
def paths_count_from_the_root(played: Played) -> None:
    all_ok(played.all())
    hold(content(played.of(1)) == "root\n", f"read returns {content(played.of(1))!r}")


@of("LRG-01")
def a_long_line_is_cut_and_measured(played: Played) -> None:
    reply = played.of(0)
    size = len(everything(reply).encode())
    hold(size <= 2 * CAP, f"the reply has {size} bytes")
    hold("5000000" in everything(reply).replace(",", "").replace("_", ""), "it does not say that there are 5000000")
    hold(reply.field("cut_lines") == [1] and "cut" in reply.text, "it does not say that the line was cut")


@of("LRG-05")
def a_binary_file_is_not_dumped(played: Played) -> None:
    for reply in played.all():
        text = everything(reply)
        hold("\\u0000" not in text and "\0" not in text, f"{reply.tool}: the reply holds a raw NUL")
    for reply in played.all():
        hold(reply.code == "FS_NOT_TEXT" or "image" in everything(reply) or "\\x00" in reply.text, f"{reply}")
