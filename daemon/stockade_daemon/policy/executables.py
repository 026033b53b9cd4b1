"""Which file a bare name stands for inside a worker, where nothing that a call can write may come first."""

import os
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

# A call's own; whatever lies there, it has written itself.
_OWN: Final = ("/tmp", "/var/tmp", "/dev/shm")  # noqa: S108 (refused, not made)
# Variables by which bash runs a file before a command, or reads the command by other rules (bash(1)).
_STEER_BASH: Final = ("BASH_ENV", "BASHOPTS", "POSIXLY_CORRECT", "SHELLOPTS")

# Where a byte of ASCII is always that character. In GBK, Big5 or Shift-JIS a backslash may be the second half of one.
_AS_UTF_8: Final = re.compile(r"(?:C|POSIX|[^.@]*\.utf-?8(?:@.*)?)\Z", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class Surroundings:
    """What decides where a worker finds programs."""

    workspace: str  # absolute, links resolved
    environment: Mapping[str, str]  # a body's
    shown: tuple[str, ...]  # trees of the host that it sees at the same place, and cannot write


class Unpinned(Exception):
    """Nobody can say which file would run. The message is a clause for people."""


def check_bash(text: str, surroundings: Surroundings) -> None:
    """Raises Unpinned where something is run before a text is, or bash would read other characters in it."""
    for name in _STEER_BASH:
        if name in surroundings.environment:
            raise Unpinned(f"the profile's environment has {name}, which changes what bash runs")
    if not text.isascii():
        # The order of locale(7); an empty one counts as not set.
        names = (surroundings.environment.get(name) for name in ("LC_ALL", "LC_CTYPE", "LANG"))
        locale = next(filter(None, names), "C")
        if not _AS_UTF_8.match(locale):
            raise Unpinned(f"bash reads what is not ASCII in the locale {locale} of the profile, which is not UTF-8")


def find(name: str, surroundings: Surroundings) -> str:
    """The file on the host that the name stands for, links resolved; file work. Raises Unpinned."""
    for directory in surroundings.environment.get("PATH", "").split(":"):
        if not directory.startswith("/"):
            raise Unpinned("the profile's PATH has a directory that is not absolute")
        place = os.path.realpath(directory)
        for each in (os.path.normpath(directory), place):
            if _within(each, (surroundings.workspace, *_OWN)):
                raise Unpinned(f"the profile's PATH has {directory}, where calls can write")
        if not _within(directory, surroundings.shown) and not _within(place, surroundings.shown):
            continue  # not there inside
        file = os.path.join(directory, name)
        if os.path.isfile(file) and os.access(file, os.X_OK):
            real = os.path.realpath(file)
            if _within(real, (surroundings.workspace, *_OWN)):
                raise Unpinned(f"{file} leads to {real}, where calls can write")
            return real
    raise Unpinned(f"no program of the profile's PATH is named {name}")


def _within(path: str, trees: tuple[str, ...]) -> bool:
    return any(path == tree or path.startswith(f"{tree.rstrip('/')}/") for tree in trees)
