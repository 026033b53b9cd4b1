"""A regular expression is checked before anything is searched, and what is wrong with it is said with its place."""

from collections.abc import Sequence

from stockade_toolkit import ToolError
from stockade_worker.tools.ripgrep import Ripgrep

_GROUPS = ("unclosed group", "unopened group")


def check(arguments: Sequence[str], pattern: str) -> None:
    """Compiles `pattern`, which `arguments` give to ripgrep. Raises ToolError (SEARCH_INVALID_PATTERN)."""
    with Ripgrep([*arguments, "--", "/dev/null"]) as run:
        while run.read():
            pass
        if run.end() == 2:
            raise ToolError("SEARCH_INVALID_PATTERN", _why(run.complaints().decode("utf-8", "replace"), pattern))


def _why(said: str, pattern: str) -> str:
    lines = said.splitlines()
    reason = next((line.removeprefix("error: ") for line in lines if line.startswith("error: ")), None)
    if reason is None:
        reason = (lines or ["it is refused"])[0].removeprefix("rg: ")[:300]
        if "literal" in reason:
            reason = "a match lies within one line, so it cannot contain a line break"
        elif "size limit" in reason:
            reason = "it becomes too large; use smaller repetitions"
        return f"the pattern is not valid: {reason}. Correct it, then repeat the call"
    place = _unbalanced(pattern) if reason in _GROUPS else _place(lines)
    where = f" at character {place + 1}" if place is not None and place < len(pattern) else ""
    return (
        f"the pattern is not valid{where}: {reason}. It is a regular expression of Rust's regex crate; write a "
        "backslash in front of a character that stands for itself"
    )


def _place(lines: list[str]) -> int | None:
    """Where the mark of ripgrep's message stands in the pattern; None where that has several lines.

    The text is indented by four columns, and begins with `(?:`, which is not the caller's.
    """
    mark = next((line for line in lines if "^" in line and not line.strip(" ^")), None)
    at = mark.index("^") - 4 - len("(?:") if mark is not None and len(lines) == 4 else -1
    return at if at >= 0 else None


def _unbalanced(pattern: str) -> int | None:
    """Where a parenthesis stands that has no other; ripgrep, which puts a pair around the pattern, marks its own."""
    opened: list[int] = []
    position, brackets = 0, 0
    while position < len(pattern):
        match pattern[position]:
            case "\\":
                if position + 1 == len(pattern):
                    return position
                position += 1
            case "[":
                brackets += 1
            case "]" if brackets:
                brackets -= 1
            case "(" if not brackets:
                opened.append(position)
            case ")" if not brackets:
                if not opened:
                    return position
                opened.pop()
        position += 1
    return opened[-1] if opened else None
