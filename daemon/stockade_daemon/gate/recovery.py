"""After a crash: what the disk proves about a commit that was begun and never recorded as done.

The `begun` body holds the digests before and after, how the bytes were to be published and under which private name, so
the disk alone can answer; nothing is guessed and nothing is run again.
"""

import hashlib
import os
import stat
from collections.abc import Mapping
from contextlib import suppress

from stockade_daemon.errors import Refusal
from stockade_daemon.gate import syscalls
from stockade_daemon.gate.content import Snapshot, take, take_open
from stockade_daemon.gate.effects import undo
from stockade_daemon.gate.effects.undo import Proof as Proof
from stockade_daemon.gate.names import encoded, of_body
from stockade_daemon.gate.paths import Resolved, resolve
from stockade_daemon.gate.publish import overwrite, settled
from stockade_daemon.gate.temporary import PREFIX
from stockade_daemon.gate.workspace import Workspace
from stockade_daemon.values import Json


def prove(workspace: Workspace, begun: Mapping[str, Json]) -> Proof:
    """Whether a begun commit changed the file, by its bytes: before → none, after → applied, others → unknown.

    Looks only. Raises ValueError where `begun` is no body that `Gate.commit` gave.
    """
    path, before, after = _recorded(begun)

    def look() -> Proof:
        with resolve(workspace, path) as place:
            return _proof(_digest(place), before, after)

    try:
        return settled(look, path)
    except Refusal:
        return "unknown"


def recover(workspace: Workspace, begun: Mapping[str, Json]) -> Proof:
    """Cleans up after a begun commit, then says what `prove` says.

    A file that was being written in place and is half done gets its old bytes back; a file of somebody else's that an
    exchange displaced gets its name back; the private name, and directories made for nothing, go.
    """
    if begun.get("method") == undo.METHOD:
        return undo.recover(workspace, begun)
    path, before, after = _recorded(begun)
    name = encoded(str(begun.get("temporary", "")))

    def tidy() -> None:
        with resolve(workspace, path) as place:
            if not place.missing and name.startswith(PREFIX.encode()) and b"/" not in name:
                _tidy(place, name, begun, before, after)

    with suppress(Refusal, OSError):
        settled(tidy, path)
    proof = prove(workspace, begun)
    if proof == "none" and before is None:
        _remove_directories(workspace, path, begun.get("directories"))
    return proof


def _tidy(place: Resolved, name: bytes, begun: Mapping[str, Json], before: str | None, after: str) -> None:
    try:
        flags = os.O_RDONLY | os.O_NONBLOCK | os.O_NOFOLLOW | os.O_CLOEXEC
        descriptor = os.open(name, flags, dir_fd=place.parent)
    except FileNotFoundError:
        return
    try:
        left = take_open(descriptor, name)
    finally:
        os.close(descriptor)
    present = _digest(place)
    if begun.get("method") == "in place":
        if present not in (before, after) and not _put_back(place, left, begun, before, after):
            return  # not provably our own half-done write: somebody else's bytes stay, and so does the journal
    elif left.digest not in (before, after) and present != before:
        # The exchange had been made, and what it displaced is not what had been decided about: somebody's save. It gets
        # its name back while ours still stands there; otherwise both stay. (While the old bytes stand, there was no
        # exchange, and what is left is a beginning of ours.)
        if before is None or present != after:
            return
        syscalls.renameat2(place.parent, name, place.name, syscalls.RENAME_EXCHANGE)
    os.unlink(name, dir_fd=place.parent)


def _put_back(place: Resolved, journal: Snapshot, begun: Mapping[str, Json], before: str | None, after: str) -> bool:
    """Puts the old bytes back where what stands is a beginning of the new ones over the old; whether it did.

    The journal holds both, the old before the new, synced before the first byte of the file changed.
    """
    size = begun.get("size")
    if not isinstance(size, int) or not 0 <= size <= len(journal.content):
        return False
    border = len(journal.content) - size
    old, new = journal.content[:border], journal.content[border:]
    if hashlib.sha256(old).hexdigest() != before or hashlib.sha256(new).hexdigest() != after:
        return False
    target = os.open(place.name, os.O_RDWR | os.O_NONBLOCK | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=place.parent)
    try:
        status = os.fstat(target)
        if not stat.S_ISREG(status.st_mode) or status.st_ino != begun.get("inode"):
            return False
        present = take_open(target, place.asked).content
        done = next((at for at, pair in enumerate(zip(present, new, strict=False)) if pair[0] != pair[1]), None)
        done = min(len(present), len(new)) if done is None else done
        if present[done:] != old[done:]:
            return False
        overwrite(target, old, status)
        return True
    finally:
        os.close(target)


def _remove_directories(workspace: Workspace, path: bytes, count: Json) -> None:
    for _ in range(count if isinstance(count, int) else 0):
        path = path.rpartition(b"/")[0]
        if not path:
            return
        with suppress(Refusal, OSError), resolve(workspace, path) as place:
            os.rmdir(place.name, dir_fd=place.parent)  # only where it is empty


def _digest(place: Resolved) -> str | None:
    return None if place.status is None else take(place).digest


def _proof(present: str | None, before: str | None, after: str) -> Proof:
    if present == before:
        return "none"
    return "applied" if present == after else "unknown"


def _recorded(begun: Mapping[str, Json]) -> tuple[bytes, str | None, str]:
    path, before, after = of_body(begun, "path"), begun.get("before"), begun.get("after")
    if path is None or not isinstance(after, str) or not (before is None or isinstance(before, str)):
        raise ValueError(f"a recorded commit is incomplete: {begun!r}")
    return path, before, after
