"""Text of unknown origin, made safe to look at.

What a person says yes to must be what stands there: control characters can rewrite a terminal's screen,
bidirectional controls can show one text and mean another (CVE-2021-42574), and characters without width hide
between others. They are replaced by escapes such as \\x1b and \\u202e. Standard library only.
"""

import unicodedata
from collections.abc import Iterator
from typing import Final

# Categories: control, format (all bidirectional controls are here), surrogate, private use, unassigned, and
# the line and paragraph separators, which some terminals obey.
_HIDDEN_CATEGORIES: Final = frozenset({"Cc", "Cf", "Cs", "Co", "Cn", "Zl", "Zp"})
# Letters and marks that have no width, or look like a space: fillers and selectors of Unicode's
# Default_Ignorable_Code_Point (DerivedCoreProperties.txt).
_HIDDEN: Final = frozenset(
    [
        *(0x034F, 0x115F, 0x1160, 0x17B4, 0x17B5, 0x2800, 0x3164, 0xFFA0),
        *range(0x180B, 0x1810),
        *range(0xFE00, 0xFE10),
        *range(0xE0100, 0xE01F0),
    ]
)
_LAYOUT: Final = "\n\t"


def segments(text: str) -> Iterator[tuple[str, bool]]:
    """The text in pieces, and for each whether it is an escape that stands for something hidden."""
    plain: list[str] = []
    for character in text:
        if _is_hidden(character):
            if plain:
                yield "".join(plain), False
                plain.clear()
            yield _escape(character), True
        else:
            plain.append(character)
    if plain:
        yield "".join(plain), False


def visible(text: str) -> str:
    """The text with everything hidden made visible; line ends and tabs stay."""
    return "".join(piece for piece, _ in segments(text))


def one_line(text: str, width: int) -> str:
    """The text made visible on one line of at most `width` characters."""
    line = visible(" ".join(text.split()))
    return line if len(line) <= width else line[: max(0, width - 1)] + "…"


def _is_hidden(character: str) -> bool:
    if " " <= character <= "~" or character in _LAYOUT:
        return False
    category = unicodedata.category(character)
    return category in _HIDDEN_CATEGORIES or ord(character) in _HIDDEN or (category == "Zs" and character != " ")


def _escape(character: str) -> str:
    code = ord(character)
    if code <= 0xFF:
        return f"\\x{code:02x}"
    return f"\\u{code:04x}" if code <= 0xFFFF else f"\\U{code:08x}"
