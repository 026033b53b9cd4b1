"""A socket of our own: one daemon for each, a stale one replaced, a live one refused."""

import fcntl
import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from stockade_daemon.errors import ConfigurationError
from stockade_daemon.principals import broker


@contextmanager
def socket_of_our_own(socket: Path, *, shared: bool = False) -> Iterator[None]:
    """Holds the socket's lock, so that one daemon at most serves it; removes the socket at the end,
    and its directory if it was made here and is empty.

    shared: others may come through its directory, which is made so, and nobody else may write it.

    Raises ConfigurationError: another daemon serves it, or its directory is open to others, or a symbolic link.
    """
    directory, made = socket.parent, False
    try:
        try:
            directory.mkdir(mode=0o700, parents=True)
            made = True
            if shared:
                directory.chmod(0o711)
        except FileExistsError:
            pass
        found = directory.lstat()
    except OSError as error:
        raise ConfigurationError(
            f"{directory}: cannot be the socket's directory: {error.strerror}; choose another one with --socket"
        ) from error
    _check(directory, found, shared=shared)
    lock = _locked(socket)
    try:
        # We have the lock, so whoever made a socket that is still here has ended.
        _remove(socket)
        _remove(broker(socket))
        try:
            yield
        finally:
            _remove(socket)
            _remove(broker(socket))
            _remove(Path(f"{socket}.lock"))
    finally:
        os.close(lock)
        if made:
            with suppress(OSError):  # somebody else has put something there, or removed it
                directory.rmdir()


def _check(directory: Path, found: os.stat_result, *, shared: bool) -> None:
    """Raises ConfigurationError."""
    if stat.S_ISLNK(found.st_mode):
        # What is checked now could be another directory by the time that the socket is made.
        raise ConfigurationError(
            f"{directory}: the socket's directory is a symbolic link, which whoever owns it may turn elsewhere; "
            f"name the directory itself with --socket: {os.path.realpath(directory)}"
        )
    uid, mode = os.geteuid(), stat.S_IMODE(found.st_mode)
    it_is = f"it has owner {found.st_uid} and mode {mode:04o}"
    if shared:
        if found.st_uid != uid or mode & 0o022 or not mode & 0o011:
            raise ConfigurationError(
                f"{directory}: the socket's directory of a shared daemon must belong to uid {uid}, be searchable for "
                f"others or a group and writable for neither; {it_is}; use another directory, or: "
                f"chmod 0711 {directory}"
            )
    elif found.st_uid != uid or mode & 0o077:
        raise ConfigurationError(
            f"{directory}: the socket's directory must belong to uid {uid} alone; {it_is}; use another directory, or: "
            f"chmod 0700 {directory}"
        )


def _locked(socket: Path) -> int:
    """A descriptor that holds the lock of `socket`, flock(2) on a file beside it."""
    path = f"{socket}.lock"
    while True:
        try:
            lock = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
        except OSError as error:
            raise ConfigurationError(
                f"{path}: cannot be opened: {error.strerror}; choose another socket with --socket"
            ) from error
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            pid = os.pread(lock, 32, 0).decode("ascii", "replace").strip() or "unknown"
            os.close(lock)
            raise ConfigurationError(
                f"{socket}: another daemon (pid {pid}) serves this socket; use it, stop it, or choose another "
                "with --socket"
            ) from None
        if _stands(path, lock):
            os.ftruncate(lock, 0)
            os.pwrite(lock, f"{os.getpid()}\n".encode(), 0)
            return lock
        # The daemon before us removed the file when it ended, after we had opened it: ours is a lock of no name.
        os.close(lock)


def _stands(path: str, descriptor: int) -> bool:
    try:
        return os.path.samestat(os.lstat(path), os.fstat(descriptor))
    except FileNotFoundError:
        return False


def _remove(path: Path) -> None:
    try:
        found = path.lstat()
    except FileNotFoundError:
        return
    if not (stat.S_ISSOCK(found.st_mode) or stat.S_ISREG(found.st_mode)):
        raise ConfigurationError(f"{path}: is no socket of ours; move it away or choose another --socket")
    path.unlink()
