"""A profile's rules for commands: whether a command may run without somebody's yes, and if not, why.

Every simple command of it has to be allowed by a rule. A rule is words with single spaces between: the command's own
words have to be the same, no more and no fewer. A `*` at its end stands for further plain words, or none: not the ones
that look like options (`-x`, `+x`), files of options (`@x`) or settings (`a=b`), by which many a program runs another.
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from stockade_daemon.command_names import HARMLESS, NEVER, is_plain, runs_its_words
from stockade_daemon.policy import command_tree, command_words, executables
from stockade_daemon.policy.command_words import Simple, Unclear, shown
from stockade_daemon.policy.executables import Surroundings, Unpinned
from stockade_daemon.values import Json

# For one command, before its name; with values that are no paths.
_ASSIGNED: Final = frozenset({"CI", "COLUMNS", "LANG", "LC_ALL", "LINES", "NO_COLOR", "TZ"})
_VALUE: Final = re.compile(r"[A-Za-z0-9_.-]*")


@dataclass(frozen=True, slots=True)
class Verdict:
    """What the rules say about one simple command, or about a text as a whole."""

    text: str  # as it is shown
    rule: str  # what allows it; empty: nothing does
    reason: str  # why nothing does, as a clause; empty where something does
    program: str = ""  # the file that runs; empty: a builtin of bash, or nothing


def judge(arguments: Mapping[str, Json], rules: Sequence[str], surroundings: Surroundings) -> tuple[Verdict, ...]:
    """Of a `shell` call's arguments, one verdict for each simple command. Computes, and asks the file system."""
    command, argv = arguments.get("command"), arguments.get("argv")
    if isinstance(command, str):
        return _of_text(command, rules, surroundings)
    if (
        isinstance(argv, Sequence)
        and not isinstance(argv, str)
        and argv
        and all(isinstance(each, str) for each in argv)
    ):
        words = tuple(str(each) for each in argv)
        return (_of_words(Simple((), words, words), rules, surroundings, builtins=False),)
    return (Verdict("", "", "it is no command that rules can judge"),)


def unruled(verdicts: Sequence[Verdict]) -> str:
    """Why a command is not allowed, as a clause; empty: all of it is."""
    return next((each.reason for each in verdicts if not each.rule), "")


def _of_text(text: str, rules: Sequence[str], surroundings: Surroundings) -> tuple[Verdict, ...]:
    try:
        found = command_words.read(text)
        executables.check_bash(text, surroundings)
    except (Unclear, Unpinned) as unclear:
        return (Verdict(shown(text), "", str(unclear)),)
    if not found:
        return (Verdict(shown(text), "", "there is no command in it"),)
    if command_tree.commands(text) != [each.raw for each in found]:
        return (Verdict(shown(text), "", f"`{shown(text)}` can be read in more than one way"),)
    return tuple(_of_words(each, rules, surroundings, builtins=True) for each in found)


def _of_words(simple: Simple, rules: Sequence[str], surroundings: Surroundings, *, builtins: bool) -> Verdict:
    text = shown(simple.text)
    for name, value in simple.assigned:
        if name not in _ASSIGNED or not _VALUE.fullmatch(value) or not simple.words:
            return Verdict(text, "", f"`{text}` sets {name}")
    name = simple.words[0]
    if name in NEVER:
        return Verdict(text, "", f"`{text}`: no rule can allow {shown(name)}")
    rule = next((each for each in rules if _allows(each, simple.words)), "")
    if not rule:
        return Verdict(text, "", f"`{text}` has no rule")
    if builtins and name in HARMLESS:
        return Verdict(text, rule, "")
    try:
        return Verdict(text, rule, "", executables.find(name, surroundings))
    except Unpinned as unpinned:
        return Verdict(text, "", f"`{text}`: {unpinned}")


def _allows(rule: str, words: Sequence[str]) -> bool:
    wanted = rule.split(" ")
    open_ended = wanted[-1] == "*"
    if open_ended:
        wanted.pop()
    if runs_its_words(wanted[0]) and (open_ended or len(wanted) == 1):
        return False
    if list(words[: len(wanted)]) != wanted:
        return False
    rest = words[len(wanted) :]
    return all(map(is_plain, rest)) if open_ended else not rest
