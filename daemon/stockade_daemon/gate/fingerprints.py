"""Whether a file is still what it was: by its bytes, and by what the kernel counts for every change of them."""

from dataclasses import dataclass

from stockade_daemon.errors import Refusal
from stockade_daemon.gate.content import take
from stockade_daemon.gate.hidden import Hidden
from stockade_daemon.gate.names import encoded, shown
from stockade_daemon.gate.paths import resolve
from stockade_daemon.gate.publish import settled
from stockade_daemon.gate.scratch import ScratchPaths
from stockade_daemon.gate.workspace import Workspace


@dataclass(frozen=True, slots=True)
class Fingerprint:
    path: str  # as it was asked for
    real: str  # relative to the workspace, links followed, as printable text
    digest: str  # SHA-256 of the bytes, lower-case hex
    # Device, inode, size, times of the last change of bytes and of the file, ns: the last of these cannot be set
    # (inode(7)), so a file that was changed and changed back is told from one that was left alone.
    identity: tuple[int, ...]


def fingerprint(workspace: Workspace, hidden: Hidden, scratch: ScratchPaths, path: str) -> Fingerprint | None:
    """Of a regular file of the workspace that is neither hidden nor scratch; None for anything else. Blocks."""

    def look() -> Fingerprint | None:
        with resolve(workspace, path, hidden) as place:
            # What the workspace has at a scratch path no command runs.
            if scratch.holds(place.asked) or scratch.holds(place.real):
                return None
            if place.status is None or hidden.holds(place):
                return None
            found = take(place)
            status = found.status
            identity = (status.st_dev, status.st_ino, status.st_size, status.st_mtime_ns, status.st_ctime_ns)
            return Fingerprint(path, shown(place.real), found.digest, identity)

    try:
        return settled(look, encoded(path))
    except (Refusal, OSError, ValueError):
        return None
