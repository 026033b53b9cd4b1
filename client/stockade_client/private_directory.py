"""The directory of a private daemon: made, locked, and swept up after whoever died.

A directory is alive while somebody holds the flock of its file `lock`: the client that made it, and the
daemon that inherited the descriptor. The kernel lets go of it when both are gone, however they went, so a
free lock means litter. Standard library only.
"""

import contextlib
import fcntl
import os
import shutil
import stat
import subprocess
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

from stockade_client.addresses import SOCKET_PATH_BYTES

PREFIX: Final = "stockade-private-"
SOCKET: Final = "daemon.sock"
LOCK: Final = "lock"
# Between making a directory and locking it there is a moment without a lock file; nobody is in it this long.
UNFINISHED_S: Final = 60.0


@contextmanager
def private_directory() -> Iterator[tuple[str, int]]:
    """A fresh 0700 directory and the descriptor of its lock; removed at the end if it is still there.

    Dead ones of this uid are removed first.
    """
    parent = _parent()
    sweep(parent)
    path, lock = _make(parent)
    try:
        yield path, lock
    finally:
        remove(path)
        os.close(lock)


def sweep(parent: str) -> list[str]:
    """Removes the directories in `parent` that a dead client and daemon of this uid left; returns their paths."""
    swept = []
    try:
        names = [name for name in os.listdir(parent) if name.startswith(PREFIX)]
    except OSError:
        return []
    for name in names:
        path = os.path.join(parent, name)
        if _is_own_directory(path) and _is_dead(path):
            swept.append(path)
    return swept


def remove(path: str) -> None:
    """Removes the tree.

    What cannot be removed is left for the next sweep, which can then say no more than this.
    """
    try:
        if os.geteuid() != 0:
            _open_up(path)
        shutil.rmtree(path, ignore_errors=True)
    except RecursionError:
        # A command may nest directories deeper than Python's own removal can follow; rm(1) can.
        subprocess.run(["/bin/rm", "-rf", "--", path], stderr=subprocess.DEVNULL, check=False)


def _parent() -> str:
    """The temporary directory, or /tmp where a socket in it would have too long a path."""
    parent = tempfile.gettempdir()
    longest = os.path.join(os.path.abspath(parent), PREFIX + "x" * 8, SOCKET)
    return parent if len(os.fsencode(longest)) <= SOCKET_PATH_BYTES else "/tmp"  # noqa: S108 - mkdtemp below


def _make(parent: str) -> tuple[str, int]:
    while True:
        path = os.path.abspath(tempfile.mkdtemp(prefix=PREFIX, dir=parent))
        lock = os.open(os.path.join(path, LOCK), os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            # A sweep got in between and is removing it.
            os.close(lock)
            continue
        # The sweep may also be through already: then our lock file is no longer in any directory.
        if os.fstat(lock).st_nlink:
            return path, lock
        os.close(lock)


def _is_own_directory(path: str) -> bool:
    try:
        found = os.lstat(path)
    except OSError:
        return False
    return stat.S_ISDIR(found.st_mode) and found.st_uid == os.geteuid()


def _is_dead(path: str) -> bool:
    """Whether nobody holds the directory; if so it has been removed, under its lock."""
    try:
        lock = os.open(os.path.join(path, LOCK), os.O_RDWR | os.O_CLOEXEC | os.O_NOFOLLOW)
    except FileNotFoundError:
        return _is_unfinished(path)
    except OSError:
        return False
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        remove(path)
    except OSError:
        return False
    finally:
        os.close(lock)
    return not os.path.lexists(path)


def _is_unfinished(path: str) -> bool:
    """Whether it was made and never locked, long ago; an empty one is removed, another is not ours to judge."""
    try:
        if time.time() - os.lstat(path).st_mtime < UNFINISHED_S:
            return False
        os.rmdir(path)
    except OSError:
        return False
    return True


def _open_up(path: str) -> None:
    """The work directory of an overlay has mode 000, which stops an ordinary user from listing his own directory."""
    for parent, directories, _ in os.walk(path):
        for name in directories:
            child = os.path.join(parent, name)
            if not os.path.islink(child):
                with contextlib.suppress(OSError):
                    os.chmod(child, 0o700)
