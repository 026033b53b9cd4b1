"""Glob patterns as regular expressions that are matched without running back and forth.

`*` and `?` stand for characters of one name, `[a-z]` and `[!a-z]` for one of several, `{a,b}` for alternatives, `**` as
a whole name for any number of directories; a backslash takes the next character as it is. A pattern without `/` is for
names at any depth. After each star the nearest fit of what follows is taken for good, which is enough (the later stars
can take the rest), so a long row of stars costs no more than its length.
"""

import re
from dataclasses import dataclass

from stockade_toolkit import ToolError

_MOST_ALTERNATIVES = 100
_SPECIAL = frozenset("*?[{\\")


@dataclass(frozen=True, slots=True)
class Glob:
    """A pattern, relative to where it begins."""

    expression: re.Pattern[str]

    def matches(self, path: bytes) -> bool:
        return self.expression.match(path.decode("utf-8", "surrogateescape")) is not None


def parse(pattern: str) -> Glob:
    """Raises ToolError (SEARCH_INVALID_PATTERN) with the place."""
    alternatives = [_path(each) for each in _expanded(pattern)]
    return Glob(re.compile(f"(?:{'|'.join(alternatives)})\\Z", re.DOTALL))


def fixed(pattern: str) -> tuple[str, str]:
    """The leading directories of a pattern that are plain names, and the rest. All of it where nothing is special."""
    parts = pattern.split("/")
    count = 0
    while count < len(parts) and not _SPECIAL.intersection(parts[count]):
        count += 1
    return "/".join(parts[:count]), "/".join(parts[count:])


def invalid(pattern: str, place: int, why: str) -> ToolError:
    return ToolError(
        "SEARCH_INVALID_PATTERN",
        f"the glob {pattern!r} is not valid at character {place + 1}: {why}; write a backslash in front of a character "
        "that stands for itself",
    )


def _expanded(pattern: str) -> list[str]:
    """The pattern without braces, once for each choice."""
    done: list[str] = []
    todo = [pattern]
    while todo:
        text = todo.pop()
        opening = _find(text, "{", 0)
        if opening < 0:
            done.append(text)
        else:
            choices, closing = _choices(text, opening)
            if closing < 0:
                raise invalid(text, opening, "there is no } to this {")
            todo.extend(text[:opening] + each + text[closing + 1 :] for each in reversed(choices))
        if len(done) + len(todo) > _MOST_ALTERNATIVES:
            raise ToolError(
                "SEARCH_INVALID_PATTERN",
                f"the braces of the glob make more than {_MOST_ALTERNATIVES} patterns; search several times instead",
            )
    return done


def _choices(text: str, opening: int) -> tuple[list[str], int]:
    """What stands between braces, separated, and where they close; -1 where they do not."""
    depth, start, choices = 0, opening + 1, []
    position = opening
    while position < len(text):
        match text[position]:
            case "\\":
                position += 1
            case "[" if (end := _class_end(text, position)) > 0:
                position = end
            case "{":
                depth += 1
            case "," if depth == 1:
                choices.append(text[start:position])
                start = position + 1
            case "}":
                depth -= 1
                if depth == 0:
                    return [*choices, text[start:position]], position
        position += 1
    return [], -1


def _find(text: str, wanted: str, start: int) -> int:
    """Where `wanted` stands for what it is a sign of: not behind a backslash or in brackets."""
    position = start
    while position < len(text):
        if text[position] == wanted:
            return position
        if text[position] == "\\":
            position += 1
        elif text[position] == "[" and (end := _class_end(text, position)) > 0:
            position = end
        position += 1
    return -1


def _class_end(text: str, start: int) -> int:
    """Where the bracket that opens at `start` closes, or -1. Directly behind the opening, `]` is itself."""
    position = start + 1
    if text[position : position + 1] in ("!", "^"):
        position += 1
    return text.find("]", position + 1)


def _path(pattern: str) -> str:
    """A pattern without braces, for a whole path."""
    parts = [part for part in pattern.split("/") if part not in ("", ".")]
    if pattern.endswith("/") or not parts:
        parts.append("**")
    if "/" not in pattern and parts != ["**"]:
        parts.insert(0, "**")
    # Runs of names between `**`: all but the last take the nearest place where they fit.
    runs: list[list[str]] = [[]]
    for part in parts:
        if part == "**":
            runs.append([])
        else:
            runs[-1].append(_name(part, pattern))
    if len(runs) == 1:
        return "/".join(runs[0])
    first, *middle, last = runs
    text = "".join(f"{each}/" for each in first)
    text += "".join(f"(?>(?:[^/]+/)*?{''.join(f'{each}/' for each in run)})" for run in middle if run)
    return f"{text}(?:[^/]+/)*{'/'.join(last)}" if last else f"{text}.+"


def _name(part: str, pattern: str) -> str:
    """A pattern without braces, for one name."""
    pieces = [""]  # what stands between stars
    position = 0
    while position < len(part):
        character = part[position]
        if character == "*":
            pieces.append("")
        elif character == "?":
            pieces[-1] += "[^/]"
        elif character == "[":
            end = _class_end(part, position)
            if end < 0:
                raise invalid(pattern, pattern.find(part) + position, "there is no ] to this [")
            pieces[-1] += _class(part[position + 1 : end], pattern, pattern.find(part) + position)
            position = end
        elif character == "\\":
            position += 1
            if position == len(part):
                raise invalid(pattern, len(pattern) - 1, "there is nothing behind this backslash")
            pieces[-1] += re.escape(part[position])
        else:
            pieces[-1] += re.escape(character)
        position += 1
    if len(pieces) == 1:
        return pieces[0]
    first, *middle, last = pieces
    near = "".join(f"(?>[^/]*?{piece})" for piece in middle if piece)
    whole = "" if first or any(middle) or last else "(?=[^/])"  # a name is never empty
    return f"{first}{near}{whole}[^/]*{last}(?=/|\\Z)"


def _class(inside: str, pattern: str, place: int) -> str:
    negated = inside[:1] in ("!", "^")
    members = inside[1:] if negated else inside
    text = ""
    position = 0
    while position < len(members):
        low = members[position]
        if members[position + 1 : position + 2] == "-" and position + 2 < len(members):
            high = members[position + 2]
            if high < low:
                raise invalid(pattern, place, f"the range {low}-{high} runs backwards")
            text += f"{re.escape(low)}-{re.escape(high)}"
            position += 3
        else:
            text += re.escape(low)
            position += 1
    return f"(?!/)[{'^' if negated else ''}{text}]"
