"""Files that a session was shown and that somebody else has changed since: a hint, and never the gate's decision.

A file is looked into only where its status is another one than at the last look. What differs from the observation is
told once for each content, so a change that is undone and made again is told again, and one that stays is not.
"""

import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TypeAlias

from stockade_daemon.errors import Refusal
from stockade_daemon.gate.content import digest_at
from stockade_daemon.gate.hidden import Hidden
from stockade_daemon.gate.names import body_of
from stockade_daemon.gate.observations import Observations
from stockade_daemon.gate.paths import resolve
from stockade_daemon.gate.refusals import Moved
from stockade_daemon.gate.workspace import Workspace
from stockade_daemon.values import Json

_Status: TypeAlias = tuple[int, ...] | None  # None: there is no file


@dataclass(frozen=True, slots=True)
class Changed:
    """A file whose bytes are not those that the session was shown."""

    path: bytes  # real, relative to the workspace
    seen: str | None  # the digest that the session knows; None: that there was nothing
    digest: str | None  # what is there now; None: nothing, or no file that could be read

    def body(self) -> dict[str, Json]:
        """The body of the `fs/changed` event: `path`, `seen`, `digest`; the last two null for nothing."""
        return body_of("path", self.path) | {"seen": self.seen, "digest": self.digest}


class Looks:
    """What the earlier looks of a session found."""

    __slots__ = ("_left_out", "_statuses", "_told")

    def __init__(self) -> None:
        self._statuses: dict[bytes, tuple[_Status, str | None]] = {}  # with the digest that was found
        self._told: dict[bytes, str | None] = {}
        self._left_out: list[str | None] = []

    @contextmanager
    def leaving_out(self, digest: str | None) -> Iterator[None]:
        """While files of this content are changed by the session itself, perhaps under several names at once."""
        self._left_out.append(digest)
        try:
            yield
        finally:
            self._left_out.remove(digest)

    def knows(self, path: bytes, digest: str | None) -> None:
        """Takes a change for known that a command of the session itself has made; None: the file is gone."""
        self._told[path] = digest

    def leaves_out(self, digest: str | None) -> bool:
        return digest is not None and digest in self._left_out

    def look(self, workspace: Workspace, known: Mapping[bytes, str | None], hidden: Hidden) -> list[Changed]:
        """The files of `known` (path → digest) that differ; file work. What is hidden is not there, and not read."""
        found = []
        for path, seen in known.items():
            digest = self._digest(workspace, path, hidden)
            if digest != seen:
                found.append(Changed(path, seen, digest))
        for gone in self._statuses.keys() - known.keys():
            del self._statuses[gone]
        return found

    def new(self, found: list[Changed], seen: Observations) -> list[Changed]:
        """Those of `found` that are still so and have not been told. On the event loop's thread, which knows what the
        session has been shown, or has committed, since."""
        new = []
        for each in found:
            if seen.digest(each.path) != each.seen or (self._told.get(each.path, each.seen) == each.digest):
                continue
            self._told[each.path] = each.digest
            new.append(each)
        for path in [path for path, digest in self._told.items() if seen.digest(path) == digest]:
            del self._told[path]  # the session knows it by now
        return new

    def _digest(self, workspace: Workspace, path: bytes, hidden: Hidden) -> str | None:
        try:
            if hidden.hides(path):
                return None
            with resolve(workspace, path) as place:
                if hidden.holds(place):
                    return None
                status = _facts(place.status)
                before = self._statuses.get(path)
                if before is not None and before[0] == status:
                    return before[1]
                digest = digest_at(place) if status is not None else None
        except (Refusal, Moved, OSError):
            return None  # no file that could be read: a directory, a link that leads out, too large
        self._statuses[path] = status, digest
        return digest


def _facts(status: os.stat_result | None) -> _Status:
    if status is None:
        return None
    return status.st_dev, status.st_ino, status.st_mode, status.st_size, status.st_mtime_ns, status.st_ctime_ns
