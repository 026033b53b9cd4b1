"""The one thread that writes the ledger, and its group commit.

Changes are queued by the event loop and run here, in that order; all that queued up while one transaction was
being committed share the next. A change is a function of a Transaction that only touches the database, so it
can be run again: when one of a group refuses, the group is rolled back and its changes are committed one by
one, and the refusal reaches its own caller alone. That keeps the usual case, in which nobody refuses, free of
savepoints.

When the database itself fails (no room, an I/O error), everything queued and everything later fails too: a
story with a hole in it would be worse than one that ends.
"""

import asyncio
import logging
import queue
import sqlite3
import threading
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Generic, NamedTuple, TypeVar

from stockade_daemon.errors import InfrastructureFailure, RequestError
from stockade_daemon.ledger.neighbour import Neighbour
from stockade_daemon.ledger.versions import version_of
from stockade_daemon.values import ITSELF

_log = logging.getLogger(__name__)

T = TypeVar("T")

# What these mean is that one change was wrong, not that the database is.
_OF_ONE_CHANGE = (sqlite3.IntegrityError, sqlite3.DataError, sqlite3.ProgrammingError, sqlite3.InterfaceError)


@dataclass(frozen=True, slots=True)
class Entry:
    """An event before it has its number."""

    session_id: str
    type: str
    call_id: str
    time_ms: int
    body: str  # JSON text
    principal: str | None = None  # who caused it; None: who started the call, or of a session's events the daemon

    def record(self, transaction: "Transaction") -> "Recorded":
        """Adds it to an open session."""
        return transaction.record(transaction.open_tail(self.session_id), self)


class Recorded(NamedTuple):
    """What an event was given when it was added."""

    seq: int
    principal: str


@dataclass(slots=True)
class Tail:
    """Where a session's events end."""

    session_no: int
    seq: int
    closed: bool


class Transaction:
    """What a change may use: the connection, inside a transaction, and the sessions' tails."""

    def __init__(self, connection: sqlite3.Connection) -> None:
        self.connection = connection
        self.touched: set[str] = set()  # sessions that have new events
        self._tails: dict[str, Tail] = {}

    def tail(self, session_id: str) -> Tail:
        """Raises RequestError NOT_FOUND where there is no such session."""
        tail = self._tails.get(session_id)
        if tail is None:
            row = self.connection.execute(
                "SELECT session_no, state = 'closed', coalesce((SELECT max(seq) FROM events AS e"
                " WHERE e.session_no = s.session_no), 0) FROM sessions AS s WHERE session_id = ?",
                (session_id,),
            ).fetchone()
            if row is None:
                raise RequestError("NOT_FOUND", f"There is no session {session_id!r}; open it first.")
            tail = self._tails[session_id] = Tail(session_no=row[0], seq=row[2], closed=bool(row[1]))
        return tail

    def open_tail(self, session_id: str) -> Tail:
        """The same; raises RequestError FAILED_PRECONDITION where the session is closed."""
        tail = self.tail(session_id)
        if tail.closed:
            raise RequestError("FAILED_PRECONDITION", f"The session {session_id!r} is closed; open one with a new id.")
        return tail

    def record(self, tail: Tail, entry: Entry) -> Recorded:
        """Adds an event to a session, whose tail this is."""
        principal = self._caller(tail, entry.call_id) if entry.principal is None else entry.principal
        self.connection.execute(
            "INSERT INTO events (session_no, seq, type, call_id, time_ms, body, version, principal)"
            " VALUES (?, ?, ?, ?, ?, ?, ?, ?)",
            (
                tail.session_no,
                tail.seq + 1,
                entry.type,
                entry.call_id,
                entry.time_ms,
                entry.body,
                version_of(entry.type),
                principal,
            ),
        )
        tail.seq += 1
        self.touched.add(entry.session_id)
        return Recorded(tail.seq, principal)

    def _caller(self, tail: Tail, call_id: str) -> str:
        """Who started the call; the daemon where there is none."""
        found = (
            call_id
            and self.connection.execute(
                "SELECT principal FROM calls WHERE session_no = ? AND call_id = ?", (tail.session_no, call_id)
            ).fetchone()
        )
        return str(found[0]) if found else ITSELF.name

    def forget(self, session_id: str) -> None:
        """The session is gone."""
        self._tails.pop(session_id, None)

    def begin(self) -> None:
        self.touched.clear()
        self.connection.execute("BEGIN IMMEDIATE")

    def commit(self) -> None:
        self.connection.execute("COMMIT")

    def rollback(self) -> None:
        self._tails.clear()  # they may count events that are gone
        if self.connection.in_transaction:
            self.connection.execute("ROLLBACK")

    def tidy(self) -> None:
        """Moves the write-ahead log into the file, so that closing the connection has nothing left to do."""
        try:
            self.connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchall()
        except sqlite3.Error as error:
            _log.warning("the ledger's write-ahead log stays until the next start: %s", error)

    def forget_closed(self) -> None:
        """Keeps the memory of a long-lived daemon from growing with the sessions that it once had."""
        for session_id in self.touched:
            tail = self._tails.get(session_id)
            if tail is not None and tail.closed:
                del self._tails[session_id]


@dataclass(slots=True)
class Queued(Generic[T]):
    """A change on its way. Without a future nobody waits for it."""

    change: Callable[[Transaction], T]
    future: asyncio.Future[T] | None
    value: T | None = None
    error: BaseException | None = None


class Writer:
    """Owned by the event loop that made it; every method but those of the thread is called there."""

    def __init__(
        self, path: str, connection: sqlite3.Connection, committed: Callable[[set[str]], None], *, remedy: str
    ) -> None:
        """`committed` is called in the loop, with the sessions that have new events, after each commit. `remedy` is a
        sentence on what to do once nothing can be written."""
        self.transactions = 0  # commits so far
        self.changes = 0  # changes that they held
        self.failure: InfrastructureFailure | None = None  # set once, when nothing can be written any more
        self._path = path
        self._remedy = remedy
        self._transaction = Transaction(connection)
        self._committed = committed
        self._loop = asyncio.get_running_loop()
        self._queue: queue.SimpleQueue[list[Queued[Any]] | None] = queue.SimpleQueue()
        self._waiting: list[Queued[Any]] = []  # not handed over yet
        self._soon = False  # a handover is due in the loop's next turn
        self._later: asyncio.TimerHandle | None = None  # the one that nobody waits for
        self._closed = False
        # A daemon thread: an interpreter that dies without closing us must not hang, and the file survives
        # that.
        self._thread = threading.Thread(target=self._run, name="ledger-writer", daemon=True)
        self._thread.start()
        self._neighbour = Neighbour(self._thread)

    async def do(self, change: Callable[[Transaction], T]) -> T:
        """The change's value, once it is durable. If the caller is cancelled the change is made all the same.

        Raises what the change raised, or InfrastructureFailure where the ledger cannot be written.
        """
        self._check()
        future: asyncio.Future[T] = self._loop.create_future()
        self._waiting.append(Queued(change, future))
        if not self._soon:
            # In the loop's next turn: whatever else this turn asks for shares the transaction.
            self._soon = True
            self._loop.call_soon(self._hand_over)
        return await future

    def queue(self, change: Callable[[Transaction], object], *, linger_s: float = 0.01) -> None:
        """Queues a change that nobody waits for; it is committed with the next one, `linger_s` from now at
        the latest.

        Waking the thread for each would cost more than the change: it would compete with the loop for the
        interpreter.
        """
        self._check()
        self._waiting.append(Queued(change, None))
        if self._later is None and not self._soon:
            self._later = self._loop.call_later(linger_s, self._hand_over)

    async def close(self) -> None:
        """Commits what is queued and ends the thread."""
        self._hand_over()
        self._closed = True
        self._queue.put(None)
        await asyncio.to_thread(self._thread.join)

    def _check(self) -> None:
        if self.failure is not None:
            raise InfrastructureFailure(self.failure.code, self.failure.message)
        if self._closed:
            raise InfrastructureFailure("FS_IO_ERROR", "The ledger is closed; the daemon is stopping.")

    def _hand_over(self) -> None:
        self._soon = False
        if self._later is not None:
            self._later.cancel()
            self._later = None
        if self._waiting:
            self._neighbour.come()
            self._queue.put(self._waiting)
            self._waiting = []

    def _deliver(self, batch: list[Queued[Any]], touched: set[str]) -> None:
        for queued in batch:
            if queued.future is None:
                if queued.error is not None:
                    _log.error("an event was not recorded: %s", queued.error)
            elif not queued.future.done():  # a cancelled caller's is
                if queued.error is not None:
                    queued.future.set_exception(queued.error)
                else:
                    queued.future.set_result(queued.value)
        if touched:
            self._committed(touched)

    # In the thread.

    def _run(self) -> None:
        ended = False
        while not ended:
            batch: list[Queued[Any]] = []
            item = self._queue.get()
            while True:
                if item is None:
                    ended = True
                    break
                batch.extend(item)
                try:
                    item = self._queue.get_nowait()
                except queue.Empty:
                    break
            if batch:
                touched = self._write(batch)
                self._loop.call_soon_threadsafe(self._deliver, batch, touched)
        self._transaction.tidy()

    def _write(self, batch: list[Queued[Any]]) -> set[str]:
        """Commits the batch; its values and errors are filled in. Returns the sessions that have new events."""
        if self.failure is None:
            try:
                return self._together(batch)
            except _OF_ONE_CHANGE:
                pass
            except sqlite3.Error as error:
                self._fail(error)
            except Exception as error:  # a refusal, or a bug in one change: find out whose
                _log.debug("a group of %d changes is made one by one: %s", len(batch), error)
            if self.failure is None:
                return self._one_by_one(batch)
        for queued in batch:
            queued.error = self._failed()
        return set()

    def _together(self, batch: list[Queued[Any]]) -> set[str]:
        transaction = self._transaction
        try:
            transaction.begin()
            for queued in batch:
                queued.value = queued.change(transaction)
            transaction.commit()
        except BaseException:
            self._undo()
            raise
        self.transactions += 1
        self.changes += len(batch)
        touched = set(transaction.touched)
        transaction.forget_closed()
        return touched

    def _one_by_one(self, batch: list[Queued[Any]]) -> set[str]:
        touched: set[str] = set()
        for queued in batch:
            if self.failure is not None:
                queued.error = self._failed()
                continue
            try:
                touched |= self._together([queued])
            except _OF_ONE_CHANGE as error:
                queued.error = error
            except sqlite3.Error as error:
                self._fail(error)
                queued.error = self._failed()
            except Exception as error:
                queued.error = error
        return touched

    def _undo(self) -> None:
        try:
            self._transaction.rollback()
        except sqlite3.Error as error:
            self._fail(error)

    def _fail(self, error: sqlite3.Error) -> None:
        if self.failure is None:
            self.failure = InfrastructureFailure(
                "FS_IO_ERROR",
                f"The ledger {self._path} cannot be written ({error}), so nothing more is run or recorded. "
                f"{self._remedy}",
            )
            _log.critical("%s", self.failure.message)

    def _failed(self) -> InfrastructureFailure:
        """One for each caller: an exception that several tasks raise would mix their tracebacks."""
        assert self.failure is not None
        return InfrastructureFailure(self.failure.code, self.failure.message)
