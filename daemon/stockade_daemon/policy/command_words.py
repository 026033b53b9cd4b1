"""The simple commands of a text for bash, where every word of it stands for itself.

What is told here is a small part of bash's language: words in quotes or out of them, joined by `;` `&&` `||` `|` `|&`
`&` and line ends, in `( )` and `{ }`, after `!`, with comments on lines of their own, with redirections to /dev/null
and between descriptors. Of everything else the answer is that it cannot be told, never a guess: whatever bash would
put in (`$`, backquotes, patterns, braces, `~`), files that are written or read, here-documents, compound commands.

Sources: bash(1), QUOTING and SHELL GRAMMAR.
"""

import re
from dataclasses import dataclass
from typing import Final

LONGEST: Final = 16 * 1024  # characters; a command that somebody allowed by rule has a hundredth of it
MOST: Final = 128  # simple commands: the parser's time grows with the square of a pipeline's length

_PLAIN: Final = r"[A-Za-z0-9_@%+:,./=^-]"
_WORD: Final = re.compile(rf"""(?:{_PLAIN}|\\[ -~]|'[^']*'|"(?:[^"\\$`]|\\[ -~])*")+""")
_PIECE: Final = re.compile(rf"""({_PLAIN}+)|\\([ -~])|'([^']*)'|"((?:[^"\\$`]|\\[ -~])*)\"""")
_ASSIGNMENT: Final = re.compile(r"([A-Za-z_]\w*)(\+?=)", re.ASCII)
_END: Final = r"(?=[ \t\n;&|()]|\Z)"
_REDIRECTION: Final = re.compile(rf"(?:\d?(?:>>|>\||>|<)|&>>|&>)[ \t]*/dev/null{_END}|\d?[<>]&[0-2]{_END}", re.ASCII)
_SEPARATOR: Final = re.compile(r"&&|\|\||\|&|;(?![;&])|[|&\n]")
_COMMENT: Final = re.compile(r"#[^\n]*")
_BLANKS: Final = re.compile(r"[ \t]*")

_BECAUSE: Final = (
    ("$", "bash would put something else there"),
    ("`", "bash would put something else there"),
    ("*?[]", "bash would put the names there that fit"),
    ("~", "bash would put a directory there"),
    ("{}", "bash may put several words there"),
    ("<>", "it reads or writes a file"),
    ("()", "it is a function, or nothing that a rule can judge"),
    ("'\"", "the quote does not end, or bash would put something in"),
    ("#", "it is a comment behind a command"),
)


class Unclear(Exception):
    """A text has something that no rule can judge. The message is a clause for people."""


@dataclass(frozen=True, slots=True)
class Simple:
    """A simple command: what is assigned for it, and its words as the program gets them."""

    assigned: tuple[tuple[str, str], ...]  # name and value
    words: tuple[str, ...]  # the name first; empty where there are only assignments
    raw: tuple[str, ...]  # assignments and words as they are written

    @property
    def text(self) -> str:
        return " ".join(self.raw)


def read(text: str) -> list[Simple]:
    """All simple commands of a text, in its order. Raises Unclear."""
    _check(text)
    return _Reader(text).read()


def _check(text: str) -> None:
    if len(text) > LONGEST:
        raise Unclear(f"it has more than {LONGEST} characters, too many to be judged by rules")
    if "\\\n" in text:
        raise Unclear("it has a backslash before the end of a line")
    for character in text:
        if (
            (character < " " and character not in "\t\n")
            or "\x7f" <= character < "\xa0"
            or "\ud800" <= character < "\ue000"
        ):
            raise Unclear(f"it has the character U+{ord(character):04X}")


class _Reader:
    def __init__(self, text: str) -> None:
        self._text = text
        self._found: list[Simple] = []
        self._begin()

    def _begin(self) -> None:
        """What follows is the beginning of a command."""
        self._assigned: list[tuple[str, str]] = []
        self._words: list[str] = []
        self._raw: list[str] = []
        self._closed = False  # a group has ended, and only redirections and separators may follow

    def _end(self) -> None:
        if self._raw:
            if len(self._found) == MOST:
                raise Unclear(f"it has more than {MOST} commands, too many to be judged by rules")
            self._found.append(Simple(tuple(self._assigned), tuple(self._words), tuple(self._raw)))
        self._begin()

    def read(self) -> list[Simple]:
        at, text, fresh = 0, self._text, True  # fresh: nothing but blanks on this line so far
        while (at := self._behind(_BLANKS, at)) < len(text):
            if fresh and (comment := _COMMENT.match(text, at)):
                at = comment.end()
            elif redirection := _REDIRECTION.match(text, at):
                at = redirection.end()
            elif separator := _SEPARATOR.match(text, at):
                self._end()
                at, fresh = separator.end(), separator[0] == "\n"
                continue
            elif group := self._group(at):
                at += group
            else:
                at = self._word(at)
            fresh = False
        self._end()
        return self._found

    def _behind(self, pattern: re.Pattern[str], at: int) -> int:
        found = pattern.match(self._text, at)
        return found.end() if found else at

    def _group(self, at: int) -> int:
        """The length of what opens or closes a group or negates, at the place of a command; 0: there is none."""
        if self._text[at] == ")":
            self._end()
            self._closed = True
            return 1
        if self._raw or self._closed:
            return 0
        if self._text[at] == "(":
            # (( is arithmetic.
            return 0 if self._text.startswith("((", at) else 1
        if self._text[at] in "{}!" and re.match(r"[ \t\n;&|)]|\Z", self._text[at + 1 : at + 2]):
            self._closed = self._text[at] == "}"
            return 1
        return 0

    def _word(self, at: int) -> int:
        """Takes the word that begins here; the place behind it."""
        found = _WORD.match(self._text, at)
        after = self._text[found.end() : found.end() + 1] if found else self._text[at]
        if found is None or after not in ("", " ", "\t", "\n", ";", "&", "|", ")"):
            raise Unclear(self._why(at, found.end() if found else at))
        if self._closed:
            raise Unclear(f"`{shown(found[0])}` stands behind the end of a group")
        word = _decoded(found[0])
        self._raw.append(found[0])
        assignment = None if self._words else _ASSIGNMENT.match(found[0])
        if assignment is None:
            self._words.append(word)
        elif assignment[2] == "=":
            self._assigned.append((assignment[1], word[assignment.end() :]))
        else:
            raise Unclear(f"`{shown(found[0])}` adds to a variable")
        return found.end()

    def _why(self, at: int, fault: int) -> str:
        character = self._text[fault]
        piece = re.compile(r"[^ \t\n]*").match(self._text, at)
        reason = next((why for those, why in _BECAUSE if character in those), "it is nothing that a rule can judge")
        return f"`{shown(piece[0] if piece else character)}`: {reason}"


def _decoded(raw: str) -> str:
    """A word as its program gets it."""
    parts = []
    for plain, escaped, single, double in _PIECE.findall(raw):
        # Within double quotes a backslash stands for itself, but before these.
        parts.append(plain or escaped or single or re.sub(r'\\([$`"\\])', r"\1", double))
    return "".join(parts)


def shown(text: str) -> str:
    """A part of a command as a reason shows it: short, on one line, nothing in it that a terminal obeys."""
    text = "".join(each if each.isprintable() else f"\\u{{{ord(each):x}}}" for each in text)
    return text if len(text) <= 80 else f"{text[:79]}…"
