"""Scratch paths of the workspace: what a profile may call so.

A scratch path is one directory, named outright. A directory of the session's own is mounted there for commands, so it
has to have one place: no pattern, none inside another, and nothing that is hidden or protected as well.
"""

from collections.abc import Sequence
from typing import Final

from stockade_daemon.path_patterns import matches, parts_of
from stockade_daemon.profiles.patterns import workspace_pattern
from stockade_daemon.settings import Unfit, several

MOST: Final = 8  # each is a descriptor in the one message that has a worker made
PATH: Final = f'at most {MOST} paths below the workspace, without patterns; for example "node_modules", ".venv"'


def _path(value: object) -> str:
    path = workspace_pattern(value)
    if "*" in path:
        raise Unfit(f'is "{path}", a pattern; a scratch path is one directory: name each')
    if any(part.lower() == ".git" for part in path.split("/")):
        raise Unfit(f'is "{path}"; what git keeps belongs to the workspace: remove it')
    return path


def scratch(value: object) -> tuple[str, ...]:
    """The scratch paths of a profile, in the file's order."""
    paths = several(_path, most=MOST)(value)
    for number, path in enumerate(paths):
        above = next((each for each in paths if path.startswith(f"{each}/")), None)
        if above is not None:
            raise Unfit(f'element {number + 1} is "{path}", which lies in "{above}"; remove one of them', (number,))
    return paths


def clash(paths: Sequence[str], patterns: Sequence[str]) -> tuple[str, str] | None:
    """A scratch path, and a pattern that matches it or a directory above it; None where there are none."""
    known = [(pattern, parts_of(pattern.encode())) for pattern in patterns]
    for path in paths:
        names = path.encode().split(b"/")
        for pattern, parts in known:
            if matches(names, parts):
                return path, pattern
    return None
