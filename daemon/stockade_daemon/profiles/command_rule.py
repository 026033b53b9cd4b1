"""One rule for commands: words with single spaces between, perhaps `*` at the end. policy/command_rules.py says what a
rule allows; here is only how it is written, and which of two is the wider."""

import re
from typing import Final

from stockade_daemon.command_names import is_plain, runs_its_words
from stockade_daemon.settings import Unfit

RULE: Final = 'rules: words with single spaces between, perhaps `*` at the end; for example "git status", "ls *"'
MOST: Final = 256
_LONGEST: Final = 400  # characters
_NAME: Final = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.+-]*\Z")
_WORD: Final = re.compile(r"[A-Za-z0-9_@%+:,./=^-]+\Z")


def command_rule(value: object) -> str:
    """A rule as it is written."""
    if not isinstance(value, str):
        raise Unfit('must be text in quotes, for example "git status"')
    if len(value) > _LONGEST:
        raise Unfit(f"has {len(value)} characters; at most {_LONGEST} are allowed, so shorten it")
    words = value.split(" ")
    if "/" in words[0]:
        raise Unfit("names a program by a path; write its bare name, which is looked up in the profile's PATH")
    if not _NAME.match(words[0]):
        raise Unfit('must begin with the name of a program, a letter, digit or _ first, for example "git status"')
    given = words[1:-1] if words[-1] == "*" else words[1:]
    if not all(map(_WORD.match, given)):
        raise Unfit(
            "has a word that is not taken literally: words are letters, digits and _ @ % + : , . / = ^ -, with one "
            "space between, and `*` is the last one or none"
        )
    return value


def covers(wide: str, narrow: str) -> bool:
    """Whether whatever `narrow` allows `wide` allows too, by the way they are written."""
    if wide == narrow:
        return True
    if not wide.endswith(" *") or runs_its_words(wide.split(" ")[0]) or not f"{narrow} ".startswith(wide[:-1]):
        return False
    return all(is_plain(each) for each in narrow[len(wide) - 1 :].split(" "))
