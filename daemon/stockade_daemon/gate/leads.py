"""Where protected names lead: what git, or whoever else goes by such a name, finds there is protected like the name.

A symbolic link at a protected name, in the middle of it or below it binds what it leads to, through any number of
links and whether it is there yet or not. Nothing at a file says which links lead to it, so the links are looked for,
from the workspace's root, and each time: what was found a moment ago may no longer be so. A directory that is still the same is not read again
(directories.py), and only links that are
protected names, or may lead to one, are resolved.
"""

import os
import stat
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Final

from stockade_daemon.errors import Refusal
from stockade_daemon.gate import directories, repositories
from stockade_daemon.gate.paths import resolve
from stockade_daemon.gate.steps import MATCHED, States, Steps
from stockade_daemon.gate.workspace import Workspace

_GIT: Final = {name.lower(): name for name in (*repositories.SETTINGS, *repositories.MARKS)}


@dataclass(frozen=True, slots=True)
class Way:
    """A link that a protected name is, or runs through."""

    name: bytes  # of the link
    real: bytes  # where it leads, relative to the workspace; `.` is the workspace itself
    states: States  # what the patterns make of that place; MATCHED: it is protected, with all below it


def through(ways: Iterable[Way], steps: Steps, path: bytes) -> Way | None:
    """The way by which a protected name leads to `path`, which is real, or to a directory above it."""
    names = path.split(b"/")
    for way in ways:
        above = [] if way.real == b"." else way.real.split(b"/")
        if names[: len(above)] != above:
            continue
        states = way.states
        for name in names[len(above) :]:
            states = steps.step(states, name)
        if states == MATCHED:
            return way
    return None


def ways(workspace: Workspace, steps: Steps) -> Iterator[Way]:
    """All of them, as they are now. Directories that this user may not list are passed over.

    Raises OSError where one cannot be listed otherwise; Moved.
    """
    linked: list[tuple[bytes, States]] = []
    for name, states in _links(workspace, steps):
        yield from _followed(workspace, steps, name, states, linked)
    # Directories that were reached through links, which hold further links.
    seen: dict[bytes, States] = {}
    while linked:
        path, states = linked.pop()
        known = seen.get(path, frozenset())
        if known == MATCHED or states <= known:
            continue
        seen[path] = MATCHED if states == MATCHED else known | states
        found = directories.look(workspace, path, _GIT)
        for name in found.below:
            further = _further(steps, states, name)
            if further:
                linked.append((_joined(path, name), further))
        for name in found.links:
            further = _further(steps, states, name)
            if further:
                yield from _followed(workspace, steps, _joined(path, name), further, linked)


def _links(workspace: Workspace, steps: Steps) -> Iterator[tuple[bytes, States]]:
    """Every link that is a protected name, or may lead to one, by its own path."""
    todo = [(b"", steps.start)]
    while todo:
        path, states = todo.pop()
        found = directories.look(workspace, path, _GIT)
        repository = bool(found.marked) and repositories.is_repository(found.marked)
        for name in found.below:
            if repository and name.lower() == b"objects":
                continue  # many directories, and nothing in them that git obeys
            setting = repository and name.lower() in repositories.SETTINGS
            todo.append((_joined(path, name), MATCHED if setting else steps.step(states, name)))
        for name in found.links:
            if repository and name.lower() in repositories.SETTINGS:
                yield _joined(path, name), MATCHED
            else:
                further = _further(steps, states, name)
                if further:
                    yield _joined(path, name), further


def _followed(
    workspace: Workspace, steps: Steps, name: bytes, states: States, linked: list[tuple[bytes, States]]
) -> Iterator[Way]:
    """Where a link leads in the workspace, if it does; a directory there is added to `linked`."""
    real, directory = _target(workspace, name)
    if real is None:
        return
    if not directory and name.rpartition(b"/")[2].lower() == b".git":
        states = MATCHED  # as a file it says where the repository is
    yield Way(name, real, states)
    if directory:
        linked.append((b"" if real == b"." else real, states))


def _further(steps: Steps, states: States, name: bytes) -> States:
    """The states after a name, without what holds of every directory anyway."""
    states = steps.step(states, name)
    return states if states == MATCHED else states - steps.everywhere


def _target(workspace: Workspace, name: bytes) -> tuple[bytes | None, bool]:
    """The real path of what a link leads to, None outside the workspace, and whether it is a directory."""
    try:
        with resolve(workspace, name) as place:
            return place.real, place.status is not None and stat.S_ISDIR(place.status.st_mode)
    except Refusal as refusal:
        if refusal.code not in ("FS_OUTSIDE_WORKSPACE", "FS_NOT_FOUND"):
            return None, False  # a loop, or a way that no written file can open
    # It may come back by a link out there, or lead on once a directory is made that it leaves by `..`.
    real = os.path.realpath(os.path.join(os.fsencode(workspace.path), name))
    beneath = workspace.beneath(real)
    return (None, False) if beneath is None else (beneath or b".", os.path.isdir(real))


def _joined(above: bytes, name: bytes) -> bytes:
    return above + b"/" + name if above else name
