"""Names of files as bytes, and how an answer shows them: reversibly in its value, harmlessly in its text."""

import base64
import unicodedata

# What changes how the text around it is displayed: controls, format characters, surrogates, line separators.
_UNSAFE = frozenset({"Cc", "Cf", "Cs", "Zl", "Zp"})


def shown(name: bytes) -> str:
    """`name` as one line of printable text, for people and models."""
    text = name.decode("utf-8", "backslashreplace")
    if text.isascii() and text.isprintable():
        return text
    return "".join(
        each if unicodedata.category(each) not in _UNSAFE else each.encode("unicode_escape").decode("ascii")
        for each in text
    )


def entry(name: bytes) -> dict[str, str]:
    """`name` in a value: `path`, and where UTF-8 cannot carry it `path_b64`, its bytes."""
    try:
        return {"path": name.decode("utf-8")}
    except UnicodeDecodeError:
        return {"path": shown(name), "path_b64": base64.b64encode(name).decode("ascii")}
