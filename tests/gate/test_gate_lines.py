"""Spans and lines: what an edit touches, what stays known after it, how it is shown. Against plain references."""

import random
import shutil
import subprocess
from pathlib import Path

import pytest

from stockade_daemon.gate.difference import difference
from stockade_daemon.gate.spans import Span, apply, carried, touched


@pytest.mark.parametrize(
    ("content", "span", "lines"),
    [
        (b"a\nb\nc\n", (0, 1), (1, 1)),
        (b"a\nb\nc\n", (0, 2), (1, 1)),
        (b"a\nb\nc\n", (0, 3), (1, 2)),
        (b"a\nb\nc\n", (2, 2), (2, 2)),
        (b"a\nb\nc\n", (6, 6), (3, 3)),
        (b"a\nb", (3, 3), (2, 2)),
        (b"", (0, 0), (1, 0)),
    ],
)
def test_the_lines_that_a_span_changes(content: bytes, span: tuple[int, int], lines: tuple[int, int]) -> None:
    assert list(touched(content, (Span(*span, b"x"),))) == [lines]


def test_known_lines_follow_the_bytes() -> None:
    """Every byte carries a mark whether it is known; a line is known when all its bytes are."""
    seed = random.randrange(1 << 32)
    print(f"seed {seed}")
    chance = random.Random(seed)
    for _ in range(1000):
        before = bytes(chance.choices(b"ab\n", k=chance.randint(0, 40)))
        spans = _spans(chance, before)
        after = apply(before, spans)
        lines = before.splitlines(keepends=True)
        known = {number for number in range(1, len(lines) + 1) if chance.random() < 0.5}
        marks = [number in known for number, line in enumerate(lines, 1) for _ in line]
        for span in reversed(spans):
            marks[span.start : span.end] = [True] * len(span.replacement)
        expected, at = set(), 0
        for number, line in enumerate(after.splitlines(keepends=True), 1):
            if all(marks[at : at + len(line)]):
                expected.add(number)
            at += len(line)
        ranges = carried(before, after, spans, tuple((number, number) for number in sorted(known)))
        assert {number for first, last in ranges for number in range(first, last + 1)} == expected


@pytest.mark.skipif(shutil.which("patch") is None, reason="needs the program `patch`")
def test_the_difference_is_exact(tmp_path: Path) -> None:
    """`patch` makes the new bytes out of the old ones and the difference."""
    seed = random.randrange(1 << 32)
    print(f"seed {seed}")
    chance = random.Random(seed)
    for number in range(60):
        before = bytes(chance.choices(b"abc\n\n", k=chance.randint(1, 200)))
        spans = _spans(chance, before)
        after = apply(before, spans)
        for given in (spans, ()):
            shown = difference(b"file", before, after, given)
            file = tmp_path / f"{number}"
            file.write_bytes(before)
            if shown.text:
                command = ["patch", "--silent", "--force", "--fuzz=0", str(file)]
                subprocess.run(command, input=shown.text.encode(), check=True, capture_output=True)
            assert (file.read_bytes() if file.exists() else b"") == after
            assert shown.complete
            marks = [line[0] for line in shown.text.splitlines()[2:]]
            assert (marks.count("+"), marks.count("-")) == (shown.added, shown.removed)


def test_a_difference_shows_context_and_the_missing_newline() -> None:
    before = b"1\n2\n3\n4\n5\n6\n7\n8"
    shown = difference(b"a", before, before[:-1] + b"eight", (Span(14, 15, b"eight"),))
    assert shown.text == (
        "--- a/a\n+++ b/a\n@@ -5,4 +5,4 @@\n 5\n 6\n 7\n-8\n\\ No newline at end of file\n"
        "+eight\n\\ No newline at end of file\n"
    )
    assert (shown.added, shown.removed) == (1, 1)


def test_a_terminal_is_told_nothing() -> None:
    shown = difference(b"a\n\x1b[2J", b"", "ok \u202e# mr\x1b[2J\rx\n".encode())
    assert "\x1b" not in shown.text
    assert "\u202e" not in shown.text
    assert "+ok \\u202e# mr\\x1b[2J\\rx\n" in shown.text


def test_lines_that_all_end_in_crlf_are_shown_without() -> None:
    assert "-one\n+ONE\n" in difference(b"a", b"one\r\ntwo\r\n", b"ONE\r\ntwo\r\n").text
    assert "-one\\r\n+one\n" in difference(b"a", b"one\r\ntwo\r\n", b"one\ntwo\r\n").text


def test_a_long_difference_says_that_it_is_cut() -> None:
    shown = difference(b"a", None, b"line\n" * 1_000_000)
    assert not shown.complete
    assert "longer than is shown here" in shown.text[-200:]
    assert shown.added == 1_000_000


def test_binary_content_is_not_printed() -> None:
    shown = difference(b"a", b"\0\1", b"\0\2\3")
    assert shown.text == "Binary content: 2 bytes become 3 bytes.\n"


@pytest.mark.parametrize("encoding", ["utf-16", "utf-16-be", "utf-16-le", "utf-32"])
def test_a_change_of_utf_16_or_32_is_shown_as_text(encoding: str) -> None:
    before, after = (f"café\n{word}\n日本\n".encode(encoding) for word in ("one", "two"))
    shown = difference(b"a", before, after)
    name = f"{encoding.upper()} without" if encoding.endswith("e") else f"{encoding.upper()}-LE with"
    assert shown.text.startswith(f"Shown decoded: {name} a byte-order mark.\n")
    assert " café\n-one\n+two\n 日本\n" in shown.text
    assert (shown.added, shown.removed, shown.complete) == (1, 1, True)
    assert "+one\n" in difference(b"a", None, before).text
    assert "+x\\x1b[2J\\u202e\n" in difference(b"a", None, "x\x1b[2J\u202e\n".encode("utf-16")).text


def test_a_conversion_says_what_it_was_and_what_it_becomes() -> None:
    shown = difference(b"a", "one\ntwo\n".encode("utf-16"), b"one\n2\n")
    assert shown.text == (
        "Shown decoded: before UTF-16-LE with a byte-order mark, after as its bytes are.\n"
        "--- a/a\n+++ b/a\n@@ -1,2 +1,2 @@\n one\n-two\n+2\n"
    )
    assert shown.complete
    same = difference(b"a", "one\n".encode("utf-16"), b"one\n")
    assert same.complete
    assert same.text == "Shown decoded: before UTF-16-LE with a byte-order mark, after as its bytes are.\n"


@pytest.mark.parametrize("after", [b"\xff\xfe\0\xd8", b"a\0\0b", b"\1\0\2\0", b"\x7fELF\2\1\1\0"])
def test_what_only_looks_like_utf_16_is_binary(after: bytes) -> None:
    shown = difference(b"a", "one\n".encode("utf-16"), after)
    assert not shown.complete
    assert shown.text.startswith("Binary content: 10 bytes become")


def test_bytes_that_are_no_utf_8_are_shown_as_escapes() -> None:
    shown = difference(b"a", b"caf\xe9 1\n", b"caf\xe9 2\n")
    assert "-caf\\xe9 1\n+caf\\xe9 2\n" in shown.text
    assert shown.complete


def _spans(chance: random.Random, content: bytes) -> tuple[Span, ...]:
    points = sorted(chance.choices(range(len(content) + 1), k=2 * chance.randint(1, 3)))
    return tuple(
        Span(start, end, bytes(chance.choices(b"xy\n", k=chance.randint(0, 4))))
        for start, end in zip(points[::2], points[1::2], strict=True)
    )


def test_very_many_spans_in_one_line_take_no_longer_than_reading_it() -> None:
    before = b"ab" * 100_000
    spans = tuple(Span(at, at + 1, b"x") for at in range(0, len(before), 2))
    shown = difference(b"a", before, apply(before, spans), spans)
    assert (shown.added, shown.removed) == (1, 1)
    assert "of the line's 200000 bytes, from 0" in shown.text


def test_of_a_long_line_the_changed_part_is_shown() -> None:
    before = b"0123456789" * 10_000 + b"\n"
    after = before[:50_000] + b"CHANGED" + before[50_001:]
    for spans in ((Span(50_000, 50_001, b"CHANGED"),), ()):
        text = difference(b"a", before, after, spans).text
        assert "+…" in text
        assert "789CHANGED123" in text
        assert len(text) < 10_000
