"""What a rewrite changes besides the text."""

import codecs

import pytest

from stockade_daemon.gate.style import changes, said


def endings(before: str, after: str) -> dict[str, object]:
    return {"line_endings": {"before": before, "after": after}}


def encoding(before: str, after: str) -> dict[str, object]:
    return {"encoding": {"before": before, "after": after}}


@pytest.mark.parametrize(
    ("before", "after", "found"),
    [
        (b"a\n", b"b\n", {}),
        (b"a\r\nb\r\n", b"a\nb\n", endings("crlf", "lf")),
        (b"a\nb\n", b"a\r\nb\n", endings("lf", "mixed")),
        (b"a", b"a\r\nb", {}),
        (b"", b"a\n", {}),
        (b"a\n", b"", {}),
        (b"a\n", b"a", {"final_newline": {"before": True, "after": False}}),
        (b"a", b"a\n", {"final_newline": {"before": False, "after": True}}),
        (codecs.BOM_UTF8 + b"a", b"a", {"byte_order_mark": {"before": "utf-8", "after": None}}),
        ("a\r\nb".encode("utf-16"), "a\nb".encode("utf-16"), endings("crlf", "lf")),
        (
            "a\n".encode("utf-16"),
            b"a\n",
            {"byte_order_mark": {"before": "utf-16", "after": None}, **encoding("utf-16", "utf-8")},
        ),
        (
            "a".encode("utf-16"),
            "a".encode("utf-32"),
            {"byte_order_mark": {"before": "utf-16", "after": "utf-32"}, **encoding("utf-16", "utf-32")},
        ),
        (b"caf\xe9", "café".encode(), encoding("other", "utf-8")),
        ("café".encode(), b"caf\xe9", encoding("utf-8", "other")),
        (b"caf\xe9", b"cafe", {}),  # the same bytes in both
        (b"cafe", "café".encode(), {}),
        ("a\r\nb".encode("utf-16-le"), b"a\nb", endings("crlf", "lf") | encoding("utf-16", "utf-8")),
        (bytes(range(256)), "é".encode(), {}),  # no text
    ],
)
def test_line_endings_final_newline_mark_and_encoding_are_compared(
    before: bytes, after: bytes, found: dict[str, object]
) -> None:
    assert changes(before, after) == found
    assert bool(said(changes(before, after))) == bool(found)
