"""Line endings, encodings, final newlines, metadata and matching."""

import os

from tests.conformance.cases.properties.looking import content, everything, legible, on_disk
from tests.conformance.cases.properties.register import of
from tests.conformance.cases.replies import Played
from tests.conformance.cases.verdicts import hold


@of("EOL-06")
def the_result_says_that_line_endings_changed(played: Played) -> None:
    said = everything(played.last()[0]).lower()
    hold("crlf" in said and "lf" in said.replace("crlf", ""), "the result does not say that CRLF became LF")


@of("ENC-02")
def the_mark_is_not_shown(played: Played) -> None:
    text = content(played.of(0))
    hold(text.startswith("import os\n"), f"line 1 begins {text[:8]!r}")
    hold(text.count("\ufeff") == 1, "the second U+FEFF, which is text, is not shown")


@of("ENC-07")
def the_file_is_never_empty(played: Played) -> None:
    """The bytes are compared by the case; what is left of it is that nothing lies beside them."""
    hold(os.listdir(played.places.workspace) == ["l.txt"], "the refused edit left something behind")


@of("ENC-14")
def what_is_no_text_is_escaped(played: Played) -> None:
    legible(played.all())
    _, grep, shell = played.all()
    hold("ok" in everything(grep), "grep does not show the line `ok`")
    hold("ok" in everything(shell), "shell does not show the line `ok`")


@of("NL-03")
def the_missing_newline_is_named(played: Played) -> None:
    message = played.last()[0].message.lower()
    hold("newline" in message and any(word in message for word in ("no ", "without", "missing")), message)


@of("NL-06")
def ends_of_files_can_be_told_apart(played: Played) -> None:
    texts = [reply.text.replace(name, "NAME") for reply, name in zip(played.all(), "abcd", strict=True)]
    hold(len(set(texts)) == 4, f"two of the four replies look alike: {texts!r}")


@of("META-04")
def the_link_is_still_one(played: Played) -> None:
    path = played.places.within("link.cfg")
    hold(os.path.islink(path) and os.readlink(path) == b"real.cfg", "link.cfg is no longer a link to real.cfg")


@of("MAT-15")
def replacements_are_counted(played: Played) -> None:
    reply = played.last()[0]
    hold(reply.field("replacements") == 3, f"replacements is {reply.field('replacements')!r}, not 3")
    hold("let a = 1" in reply.text, "the first changed line is not shown")


@of("MAT-16")
def what_was_read_is_found(played: Played) -> None:
    hold(played.last()[0].field("replacements") == 1, "it did not match exactly once")
    wanted = b"\tif (a) {  \r\nc();\r\n}\xc2\xa0\n"
    hold(on_disk(played, "t.txt") == wanted, f"the file holds {on_disk(played, 't.txt')!r}, not {wanted!r}")
