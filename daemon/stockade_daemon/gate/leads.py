"""Where protected names lead: what git, or whoever else goes by such a name, finds there is protected like the name.

A symbolic link at a protected name, in the middle of it or below it binds what it leads to, through any number of
links and whether it is there yet or not. Nothing at a file says which links lead to it, so they are looked for each
time, from the workspace's root; a directory that is proven to be the same is not read again (directories.py), and only
links that are protected names, or may lead to one, are resolved.

A link out of the workspace may lead back by others: its own target is followed, and, where that is a directory, the
links directly in it. The same is done for a repository that the workspace lies in.
"""

import os
import stat
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Final

from stockade_daemon.errors import Refusal
from stockade_daemon.gate import directories, repositories
from stockade_daemon.gate.names import joined
from stockade_daemon.gate.paths import resolve
from stockade_daemon.gate.steps import MATCHED, States, Steps
from stockade_daemon.gate.workspace import Workspace

_GIT: Final = {name.lower(): name for name in (*repositories.SETTINGS, *repositories.MARKS)}


@dataclass(frozen=True, slots=True)
class Way:
    """A link that a protected name is, or runs through."""

    name: bytes  # of the link; of one outside the workspace, or of what it was reached from there, absolute
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
    yield from _from_above(workspace, linked)
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
                linked.append((joined(path, name), further))
        for name in found.links:
            further = _further(steps, states, name)
            if further:
                yield from _followed(workspace, steps, joined(path, name), further, linked)


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
            todo.append((joined(path, name), MATCHED if setting else steps.step(states, name)))
        for name in found.links:
            if repository and name.lower() in repositories.SETTINGS:
                yield joined(path, name), MATCHED
            else:
                further = _further(steps, states, name)
                if further:
                    yield joined(path, name), further


def _followed(
    workspace: Workspace, steps: Steps, name: bytes, states: States, linked: list[tuple[bytes, States]]
) -> Iterator[Way]:
    """Where a link leads in the workspace, if it does; a directory there is added to `linked`."""
    try:
        with resolve(workspace, name) as place:
            real, directory = place.real, place.status is not None and stat.S_ISDIR(place.status.st_mode)
    except Refusal as refusal:
        # It leads out, or through a directory that is not there and that it leaves by `..`. All others (a loop, a file
        # as a directory, one that may not be searched) lead nowhere, and no file that is written changes that.
        if refusal.code in ("FS_OUTSIDE_WORKSPACE", "FS_NOT_FOUND"):
            yield from _outside(workspace, os.path.join(os.fsencode(workspace.place), name), name, states, linked)
        return
    if not directory and name.rpartition(b"/")[2].lower() == b".git":
        states = MATCHED  # as a file it says where the repository is
    yield _way(name, real, directory, states, linked)


def _from_above(workspace: Workspace, linked: list[tuple[bytes, States]]) -> Iterator[Way]:
    """Links of repositories in whose working tree the workspace lies."""
    above = os.fsencode(workspace.path)
    while above != b"/":
        above = os.path.dirname(above)
        if os.path.lexists(os.path.join(above, b".git")):
            for obeyed in repositories.OBEYED:
                path = os.path.join(above, b".git", os.fsencode(obeyed))
                yield from _outside(workspace, path, path, MATCHED, linked)


def _outside(
    workspace: Workspace, path: bytes, name: bytes, states: States, linked: list[tuple[bytes, States]]
) -> Iterator[Way]:
    """Where a path of the host comes into the workspace, itself or by a link directly in the directory that it is."""
    real = os.path.realpath(path)
    beneath = workspace.beneath(real)
    if beneath is not None:
        yield _way(name, beneath or b".", os.path.isdir(real), states, linked)
    elif states == MATCHED:
        try:
            found = os.listdir(real)
        except OSError:
            return  # no directory, or none that this user may list
        for each in found:
            inner = os.path.join(real, each)
            if os.path.islink(inner):
                real_inner = os.path.realpath(inner)
                beneath = workspace.beneath(real_inner)
                if beneath is not None:
                    yield _way(name, beneath or b".", os.path.isdir(real_inner), states, linked)


def _way(name: bytes, real: bytes, directory: bool, states: States, linked: list[tuple[bytes, States]]) -> Way:
    if directory:
        linked.append((b"" if real == b"." else real, states))
    return Way(name, real, states)


def _further(steps: Steps, states: States, name: bytes) -> States:
    """The states after a name, without what holds of every directory anyway."""
    states = steps.step(states, name)
    return states if states == MATCHED else states - steps.everywhere
