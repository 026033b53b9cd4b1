"""The ledger's file: who may open it, what it must look like, and the one lock on it.

Opening blocks for as long as an upgrade of an old file takes; it happens once, before the daemon serves
anybody.
"""

import fcntl
import logging
import os
import sqlite3
import stat
from collections.abc import Iterator
from contextlib import closing, contextmanager
from typing import Final
from urllib.parse import quote

from stockade_daemon.errors import ConfigurationError
from stockade_daemon.ledger.tables import APPLICATION_ID, SCHEMAS
from stockade_daemon.ledger.versions import version_of, versions
from stockade_daemon.values import Durability

_log = logging.getLogger(__name__)

COMPACT_BYTES: Final = 64 * 1024 * 1024  # less free room than this is left in the file
_SINCE_EVENT_VERSIONS: Final = 3  # the schema that has them
_BUSY_MS = 30_000  # a person's sqlite3 shell may hold a lock for a moment; longer counts as a failed disk


@contextmanager
def opened(path: str, durability: Durability) -> Iterator[sqlite3.Connection]:
    """The writing connection to the ledger at `path`, whose schema is this version's; alone among processes.

    The directory must exist and be writable by its owner only. The file is made with mode 0600 where it is
    missing. The connection may be used by one thread at a time, whichever it is.

    Raises ConfigurationError: the directory is missing or not private, another process has the ledger open,
    the file is no ledger, is damaged, or was written by a newer daemon.
    """
    _check_directory(path)
    with _locked(path):
        _make(path)
        if durability == "power":
            _sync_names(path)
        try:
            connection = sqlite3.connect(path, isolation_level=None, check_same_thread=False)
        except sqlite3.Error as error:
            raise ConfigurationError(f"{path}: cannot be opened: {error}; {_ELSEWHERE}") from error
        with closing(connection):
            try:
                _prepare(connection, path, durability)
            except sqlite3.OperationalError as error:
                raise ConfigurationError(
                    f"{path}: cannot be used ({error}); look at the disk's room and rights, then start again"
                ) from error
            except sqlite3.DatabaseError as error:
                raise ConfigurationError(f"{path}: is no ledger or is damaged ({error}); {_ELSEWHERE}") from error
            yield connection


_ELSEWHERE = "move the file away, or start with another --state directory"


def reader(path: str) -> sqlite3.Connection:
    """A connection that cannot write, to a ledger that this process has opened. The caller closes it."""
    return sqlite3.connect(
        f"file:{quote(os.fsencode(path))}?mode=ro", uri=True, isolation_level=None, check_same_thread=False
    )


def _check_directory(path: str) -> None:
    directory = os.path.dirname(path) or "."
    try:
        found = os.stat(directory)
    except OSError as error:
        raise ConfigurationError(
            f"{directory}: no directory for the ledger ({error.strerror}); make it with `mkdir -m 0700 {directory}`"
        ) from error
    # Whoever may write there could put another file in the ledger's place.
    if not stat.S_ISDIR(found.st_mode) or found.st_mode & 0o022 or found.st_uid not in (0, os.geteuid()):
        raise ConfigurationError(
            f"{directory}: the ledger needs a directory of its own user that nobody else can write to; "
            f"use `chmod 0700 {directory}`, or start with another --state directory"
        )


@contextmanager
def _locked(path: str) -> Iterator[None]:
    """Holds an exclusive flock(2) on `path`.lock.

    A file of its own: SQLite's locks on the database itself are POSIX ones, which a close of any descriptor
    drops. It stays when we end; removing it would let two processes lock two files of one name.
    """
    flags = os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW
    try:
        descriptor = os.open(f"{path}.lock", flags, 0o600)
    except OSError as error:
        raise ConfigurationError(f"{path}.lock: cannot be opened: {error.strerror}; {_ELSEWHERE}") from error
    try:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            owner = os.pread(descriptor, 20, 0).decode("ascii", "replace").strip() or "unknown"
            raise ConfigurationError(
                f"{path}: another daemon has this ledger open (process {owner}); "
                "stop it, or start with another --state directory"
            ) from None
        os.ftruncate(descriptor, 0)
        os.pwrite(descriptor, b"%d\n" % os.getpid(), 0)
        yield
    finally:
        os.close(descriptor)


def _make(path: str) -> None:
    """Makes the file before SQLite would: private from its first moment, and never through a link."""
    try:
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK, 0o600)
    except OSError as error:
        raise ConfigurationError(f"{path}: cannot be opened: {error.strerror}; {_ELSEWHERE}") from error
    try:
        if not stat.S_ISREG(os.fstat(descriptor).st_mode):
            raise ConfigurationError(f"{path}: is not a regular file; {_ELSEWHERE}")
        os.fchmod(descriptor, 0o600)  # SQLite gives the mode of this file to -wal and -shm
    finally:
        os.close(descriptor)


def sync(path: str) -> None:
    """Syncs what has been committed to the ledger at `path`: the write-ahead log, and its and the ledger's name.

    A checkpoint that takes frames out of the log has synced them itself, before and after (sqlite.org/wal.html).
    Raises OSError.
    """
    for each, flags in ((f"{path}-wal", 0), (os.path.dirname(os.path.abspath(path)), os.O_DIRECTORY)):
        descriptor = os.open(each, os.O_RDONLY | os.O_CLOEXEC | flags)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)


def _sync_names(path: str) -> None:
    """SQLite syncs what it writes, and the names of its own files; that of the file which we made for it, and those
    of the directories that were made for us, are ours to sync (fsync(2)).
    """
    each = os.path.abspath(path)
    while each != "/":
        each = os.path.dirname(each)
        try:
            descriptor = os.open(each, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        except PermissionError:
            return  # nothing above it was made by this user's daemon
        try:
            os.fsync(descriptor)
        except OSError as error:
            raise ConfigurationError(
                f"{each}: cannot be synced ({error.strerror}), so a power cut could take the ledger; use another "
                '--state directory, or set [ledger] durability = "process"'
            ) from error
        finally:
            os.close(descriptor)


def _prepare(connection: sqlite3.Connection, path: str, durability: Durability) -> None:
    connection.execute(f"PRAGMA busy_timeout = {_BUSY_MS}")
    application = int(connection.execute("PRAGMA application_id").fetchone()[0])
    tables = int(connection.execute("SELECT count(*) FROM sqlite_schema").fetchone()[0])
    if application != APPLICATION_ID and tables:
        raise ConfigurationError(f"{path}: is the database of another program; {_ELSEWHERE}")
    version = _version(connection, path) if tables else 0
    # Before anything is written: a file that is not for us stays as it is.
    _check_versions(connection, path, version)
    connection.execute("PRAGMA journal_mode = WAL")
    # NORMAL: a commit is a write without a sync, so it survives a kill of the daemon, not a power cut. FULL: the
    # write-ahead log is synced by each commit, before anybody hears of it (sqlite.org/pragma.html#pragma_synchronous).
    connection.execute(f"PRAGMA synchronous = {'FULL' if durability == 'power' else 'NORMAL'}")
    connection.execute("PRAGMA journal_size_limit = 67108864")
    connection.execute("PRAGMA foreign_keys = ON")
    _upgrade(connection, version)
    _compact(connection, path)


def _version(connection: sqlite3.Connection, path: str) -> int:
    row = connection.execute("SELECT value FROM meta WHERE key = 'schema_version'").fetchone()
    if row is None or not str(row[0]).isascii() or not str(row[0]).isdigit():
        raise ConfigurationError(f"{path}: does not say which version it is, so it is damaged; {_ELSEWHERE}")
    return int(row[0])


def _check_versions(connection: sqlite3.Connection, path: str, version: int) -> None:
    if version > len(SCHEMAS):
        raise _newer(path, f"schema {version}; this one knows {len(SCHEMAS)}")
    if version < _SINCE_EVENT_VERSIONS:
        return
    for type, recorded in connection.execute("SELECT type, version FROM event_versions ORDER BY type"):
        if recorded > version_of(type):
            raise _newer(path, f"events {type} in version {recorded}; this one knows {version_of(type)}")


def _newer(path: str, what: str) -> ConfigurationError:
    return ConfigurationError(
        f"{path}: was written by a newer Stockade ({what}); "
        "install that version again, or start with another --state directory"
    )


def _compact(connection: sqlite3.Connection, path: str) -> None:
    """Gives back the room of removed sessions where it is most of the file. In between it is used again."""
    free, pages, size = (
        int(connection.execute(f"PRAGMA {name}").fetchone()[0])
        for name in ("freelist_count", "page_count", "page_size")
    )
    if 2 * free < pages or free * size < COMPACT_BYTES:
        return
    try:
        connection.execute("VACUUM")
    except sqlite3.OperationalError as error:
        # It needs room for a second file; the ledger is as good without it.
        _log.warning("%s: %d bytes of removed sessions stay in the file: %s", path, free * size, error)
    else:
        _log.info("%s: %d bytes of removed sessions were given back", path, free * size)


def _upgrade(connection: sqlite3.Connection, version: int) -> None:
    """Applies the missing scripts in one transaction: a kill half way leaves the old version."""
    known = (
        dict(connection.execute("SELECT type, version FROM event_versions")) if version >= _SINCE_EVENT_VERSIONS else {}
    )
    if version == len(SCHEMAS) and known == versions():
        return
    connection.execute("BEGIN IMMEDIATE")
    try:
        for script in SCHEMAS[version:]:
            for statement in _statements(script):
                connection.execute(statement)
        connection.execute(
            "INSERT INTO meta (key, value) VALUES ('schema_version', ?) "
            "ON CONFLICT (key) DO UPDATE SET value = excluded.value",
            (str(len(SCHEMAS)),),
        )
        connection.executemany(
            "INSERT INTO event_versions (type, version) VALUES (?, ?) "
            "ON CONFLICT (type) DO UPDATE SET version = excluded.version",
            versions().items(),
        )
        connection.execute(f"PRAGMA application_id = {APPLICATION_ID}")
        connection.execute("COMMIT")
    except BaseException:
        if connection.in_transaction:
            connection.execute("ROLLBACK")
        raise


def _statements(script: str) -> Iterator[str]:
    """The script's statements one by one; Connection.executescript would commit the transaction that we are
    in.
    """
    statement = ""
    for line in script.splitlines(keepends=True):
        statement += line
        if sqlite3.complete_statement(statement):
            yield statement
            statement = ""
