"""Reading the ledger beside the writer: a few read-only connections, each used by one thread at a time.

SQLite's write-ahead log gives every read a snapshot, so a reader never waits for the writer nor the writer
for it.
"""

import asyncio
import queue
import sqlite3
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, closing, contextmanager
from typing import TypeVar

from stockade_daemon.errors import InfrastructureFailure
from stockade_daemon.ledger.file import reader

T = TypeVar("T")

_THREADS = 2  # one long page of a subscriber must not hold up a short look-up


class Readers:
    def __init__(
        self, path: str, connections: list[sqlite3.Connection], threads: ThreadPoolExecutor, remedy: str
    ) -> None:
        self._path = path
        self._remedy = remedy
        self._threads = threads
        self._idle: queue.SimpleQueue[sqlite3.Connection] = queue.SimpleQueue()
        for connection in connections:
            self._idle.put(connection)

    @classmethod
    @contextmanager
    def open(cls, path: str, *, remedy: str) -> Iterator["Readers"]:
        with ExitStack() as stack:
            connections = [stack.enter_context(closing(reader(path))) for _ in range(_THREADS)]
            # Last in, first out: the threads have ended when the connections are closed.
            threads = stack.enter_context(ThreadPoolExecutor(_THREADS, thread_name_prefix="ledger-reader"))
            yield cls(path, connections, threads, remedy)

    async def do(self, query: Callable[[sqlite3.Connection], T]) -> T:
        """The query's value. Raises InfrastructureFailure where the file cannot be read."""
        try:
            return await asyncio.get_running_loop().run_in_executor(self._threads, self._run, query)
        except sqlite3.Error as error:
            raise InfrastructureFailure(
                "FS_IO_ERROR",
                f"The ledger {self._path} cannot be read ({error}). {self._remedy}",
            ) from error

    def _run(self, query: Callable[[sqlite3.Connection], T]) -> T:
        connection = self._idle.get()  # never waits: as many connections as threads
        try:
            return query(connection)
        finally:
            self._idle.put(connection)
