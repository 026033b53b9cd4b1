"""The scripts that a command names: files of the workspace whose bytes decide what runs.

    ./x   dir/x            a path in the place of the command
    bash x   python3 x     whatever an interpreter is given that is a file; `.` and `source` too

A guess, from words: what a script reads in turn, what a variable or a pattern stands for, is not found. Words that name
no file cost nothing, so a guess too many does no harm.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from itertools import islice
from typing import Final

from stockade_daemon.values import Json

_INTERPRETERS: Final = re.compile(
    r"(?:ba|da|z|k|a|fi|mk)?sh|python[\d.]*|pypy[\d.]*|node|nodejs|deno|bun|ruby|perl|php|lua|Rscript|tclsh|awk|gawk|mawk"
    r"|sed|make|gmake|source|\."
)
# What runs the command behind it.
_WRAPPERS: Final = frozenset(
    {"command", "builtin", "exec", "env", "nohup", "time", "nice", "timeout", "setsid", "stdbuf", "xargs", "sudo", "!"}
    | {"if", "then", "else", "elif", "while", "until", "do", "{"}
)
_ASSIGNMENT: Final = re.compile(r"[A-Za-z_]\w*\+?=")
_PIECE: Final = re.compile(
    r"""(?P<blank>[ \t\r]+)|(?P<breaks>[;&|()<>\n`]+)|(?P<plain>[^ \t\r;&|()<>\n`'"\\]+)"""
    r"""|'(?P<single>[^']*)'|"(?P<double>(?:[^"\\]++|\\.)*+)"|\\(?P<escaped>.)""",
    re.DOTALL,
)
_ESCAPED: Final = re.compile(r'\\([\\"])')
_MOST: Final = 4096  # of one command: looking for one that is not there takes microseconds
_TOLD: Final = 16 * _MOST  # with repetitions, of which a long command for a wrapper has the square of its words
_SUBSTITUTED: Final = re.compile(r"\$\(([^()]*)\)|`([^`]*)`")


def operands(arguments: Mapping[str, Json]) -> list[str]:
    """Paths of a shell call's arguments that may name its scripts, relative to the workspace or absolute. Computes: a
    command may have megabytes."""
    cwd = arguments.get("cwd")
    directory = cwd if isinstance(cwd, str) else ""
    command, argv = arguments.get("command"), arguments.get("argv")
    found: Iterator[str] = iter(())
    if isinstance(command, str):
        found = _of_text(command, directory)
    elif isinstance(argv, Sequence):
        found = _of_words([str(each) for each in argv], directory)
    return list(dict.fromkeys(islice(found, _TOLD)))[:_MOST]


def _of_text(text: str, directory: str) -> Iterator[str]:
    for inner in _SUBSTITUTED.finditer(text):  # also within double quotes, where words are not told
        yield from _of_text(inner[1] or inner[2] or "", directory)
    for words in _commands(text):
        if words[:1] == ["cd"] and len(words) == 2:
            directory = _joined(directory, words[1])
            continue
        yield from _of_words(words, directory)


def _of_words(words: Sequence[str], directory: str) -> Iterator[str]:
    if words and words[0] in _WRAPPERS:
        # Which words are values of its options nobody can tell: whatever may be a command behind it counts.
        for position, word in enumerate(words[1:], start=1):
            if _INTERPRETERS.fullmatch(word.rpartition("/")[2]):
                yield from _of_words(words[position:], directory)
            elif "/" in word:
                yield _joined(directory, word)
    first = 0
    while first < len(words) and (
        words[first] in _WRAPPERS or _ASSIGNMENT.match(words[first]) or words[first].startswith("-")
    ):
        first += 1
    if 0 < first < len(words) and re.fullmatch(r"[\d.]+[smhd]?", words[first]):
        first += 1  # the time of `timeout`
    if first == len(words):
        return
    name, given = words[first], words[first + 1 :]
    if "/" in name:
        yield _joined(directory, name)
    if not _INTERPRETERS.fullmatch(name.rpartition("/")[2]):
        return
    for position, word in enumerate(given):
        if re.fullmatch("-[a-z]*c", word) and position + 1 < len(given) and name.endswith("sh"):
            yield from _of_text(given[position + 1], directory)
        yield _joined(directory, word)
    if name in ("make", "gmake"):
        yield from (_joined(directory, each) for each in ("GNUmakefile", "makefile", "Makefile"))


def _commands(text: str) -> Iterator[list[str]]:
    """The simple commands of a text for bash; as far as its words can be told."""
    words: list[str] = []
    try:
        for word, breaks in words_of(text):
            if breaks:
                if words:
                    yield words
                # A redirection's file is a word of its own: `bash < x` runs x.
                words = ["."] if word == "<" else []
            else:
                words.append(word)
    except ValueError:  # a quote that does not end, perhaps in a comment: each line by itself, then
        for line in text.splitlines() if "\n" in text else ():
            yield from _commands(line)
    if words:
        yield words


def words_of(text: str) -> Iterator[tuple[str, bool]]:
    """Words, and what breaks them up (true); a word of any length costs no more than its length, which shlex's costs
    the square of. Raises ValueError where a quote does not end, or nothing follows a backslash."""
    at = 0
    parts: list[str] = []
    while at < len(text):
        found = _PIECE.match(text, at)
        if found is None:
            raise ValueError("a quote does not end")
        at = found.end()
        kind, piece = found.lastgroup, found[found.lastindex or 0]
        if kind in ("blank", "breaks"):
            if parts:
                yield "".join(parts), False
                parts = []
            if kind == "breaks":
                yield piece, True
        else:
            parts.append(_ESCAPED.sub(r"\1", piece) if kind == "double" else piece)
    if parts:
        yield "".join(parts), False


def _joined(directory: str, word: str) -> str:
    word = re.sub(r"(^|/)(?:\./)+", r"\1", word)
    directory = "" if directory == "." else directory
    return word if word.startswith("/") or not directory else f"{directory.rstrip('/')}/{word}"
