"""Protected paths: files that no commit touches, whichever tool asks, whether they exist yet or not.

A pattern (patterns.py) binds the file, so it is compared with the real path, after links, and with every name that the
file has; and where a name that it matches is a link, it binds what the link leads to (leads.py).
"""

import os
from collections.abc import Callable, Iterable, Iterator

from stockade_daemon.errors import GateRefusal
from stockade_daemon.gate import leads, links, repositories
from stockade_daemon.gate.names import encoded, shown
from stockade_daemon.gate.patterns import Patterns
from stockade_daemon.gate.refusals import os_errors
from stockade_daemon.gate.steps import MATCHED, States, Steps
from stockade_daemon.gate.workspace import Workspace


class Protected:
    """What is in force for one session: its profile's patterns, and what git obeys (repositories.py)."""

    __slots__ = ("_hides", "_patterns", "_steps", "_workspace")

    def __init__(self, workspace: Workspace, patterns: tuple[str, ...], *, hides: Callable[[bytes], bool]) -> None:
        """`hides` says of a name whether the session must not hear of it."""
        self._hides = hides
        self._workspace = workspace
        self._patterns = Patterns(patterns)
        self._steps = Steps(patterns, repositories.ALWAYS, encoded(workspace.path).lower())

    def check(self, real: bytes, asked: bytes) -> None:
        """Raises GateRefusal FS_PROTECTED where the path, as asked for or after links, or one above it is protected, or
        where a protected name leads; Moved."""
        why = self._why(real) or self._pattern(asked) or repositories.protects_name(self._workspace, asked)
        if why is None:
            with os_errors("look for links to", asked):
                way = leads.through(self._ways(), self._steps, real)
            if way is not None:
                why = f"is where a protected name leads, {self._by(way.name)}"
        if why is not None:
            raise _refusal(asked, why)

    def check_links(self, status: os.stat_result, asked: bytes) -> None:
        """Refuses a file with several names where one of them is protected: it is the same file."""
        ways = tuple(self._ways())
        for name in links.names(self._workspace, status):
            if self._why(name) or leads.through(ways, self._steps, name):
                raise _refusal(asked, f"is another name of {shown(name)}, which is protected")

    def among(self, paths: Iterable[bytes], is_directory: Callable[[bytes], bool]) -> Iterator[tuple[bytes, str]]:
        """Those of many paths that are protected, and why. Links that lead there are looked for once. File work.

        Raises Moved; GateRefusal FS_IO_ERROR and others.
        """
        with os_errors("look for links to", b"."):
            ways = tuple(self._ways())
        known = {b"": self._steps.start}
        for path in paths:
            if not path:
                continue
            if self._states(path, known) == MATCHED:
                yield path, self.why(path) or "is protected"
            elif path.rpartition(b"/")[2].lower() == b".git" and not is_directory(path):
                yield path, "is protected: as a file it would tell git where to find a repository"
            elif ways and (way := leads.through(ways, self._steps, path)) is not None:
                yield path, f"is where a protected name leads, {self._by(way.name)}"

    def why(self, path: bytes) -> str | None:
        """Why a path is protected by its names alone; None where it is not."""
        return self._pattern(path) or repositories.protects_name(self._workspace, path)

    def lists(self, path: bytes) -> bool:
        """Whether the profile itself names a path, or one above it."""
        return self._pattern(path) is not None

    def _states(self, path: bytes, known: dict[bytes, States]) -> States:
        todo = []
        while path not in known:
            path, _, name = path.rpartition(b"/")
            todo.append(name)
        while todo:
            name = todo.pop()
            states = self._steps.step(known[path], name)
            path = path + b"/" + name if path else name
            known[path] = states
        return known[path]

    def _why(self, real: bytes) -> str | None:
        return self._pattern(real) or repositories.protects(self._workspace, real)

    def _by(self, link: bytes) -> str:
        return "by a link" if self._hides(link) else f"by the link {shown(link)}"

    def _ways(self) -> Iterator[leads.Way]:
        return leads.ways(self._workspace, self._steps)

    def _pattern(self, path: bytes) -> str | None:
        pattern = self._patterns.match(path)
        return None if pattern is None else f"is protected by {pattern!r}"


def _refusal(asked: bytes, why: str) -> GateRefusal:
    return GateRefusal(
        "FS_PROTECTED", f"{shown(asked)} {why}. Leave it as it is; a person can change it outside the session."
    )
