"""What is shown must be what stands there."""

import pytest

from stockade_client.visible import one_line, visible


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("plain text\n\twith layout", "plain text\n\twith layout"),
        ("Grüße, 世界, 🙂", "Grüße, 世界, 🙂"),
        ("\x1b[2Jgone", "\\x1b[2Jgone"),
        ("a\rb", "a\\x0db"),
        ("a\u202eb\u2069", "a\\u202eb\\u2069"),
        ("zero\u200bwidth\ufeff", "zero\\u200bwidth\\ufeff"),
        ("no\u00a0break", "no\\xa0break"),
        ("filler\u3164", "filler\\u3164"),
        ("tag\U000e0041", "tag\\U000e0041"),
        ("selector\ufe0f", "selector\\ufe0f"),
        ("lone\ud800", "lone\\ud800"),
        ("line\u2028end", "line\\u2028end"),
        ("c1\x9b31m", "c1\\x9b31m"),
    ],
)
def test_hidden_characters_are_shown_as_escapes(text: str, shown: str) -> None:
    assert visible(text) == shown


def test_one_line_is_one_line_of_that_width() -> None:
    assert one_line("a\nb\x07", 80) == "a b\\x07"
    assert one_line("x" * 100, 10) == "x" * 9 + "…"
