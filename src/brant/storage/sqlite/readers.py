"""The connections by which one process reads an SQLite file: made when needed, kept for the next, never too many."""

from __future__ import annotations

import sqlite3
import threading
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager

from brant.clock import Clock
from brant.storage.sqlite.connection import SqliteSession, text_of_any_bytes


class Readers:
    """Sessions to lend; `connect` gives a connection that never writes."""

    def __init__(self, connect: Callable[[], sqlite3.Connection], clock: Clock, most: int) -> None:
        self._connect = connect
        self._clock = clock
        self._slots = threading.BoundedSemaphore(most)
        self._lock = threading.Lock()
        self._idle: list[SqliteSession] = []
        self._lent = 0
        self._closed = False

    def borrow(self) -> SqliteSession:
        self._slots.acquire()
        try:
            with self._lock:
                self._lent += 1
                if self._idle:
                    return self._idle.pop()
            return SqliteSession(self._connect(), self._clock)
        except BaseException:
            self._count_back()
            self._slots.release()
            raise

    def give_back(self, session: SqliteSession) -> None:
        is_fit = False
        try:
            if session.connection.in_transaction:
                session.connection.rollback()  # a BEGIN of the user's own would keep its snapshot for ever
            is_fit = True
        finally:
            with self._lock:
                self._lent -= 1
                is_kept = is_fit and not self._closed
                if is_kept:
                    self._idle.append(session)
            if not is_kept:
                session.connection.close()
            self._slots.release()

    @contextmanager
    def snapshot(self) -> Iterator[SqliteSession]:
        with self._lock:
            self._lent += 1  # not one of the pool, but in the way of a fork just as well
        try:
            # A connection of its own: it may be kept for long, while the others are needed.
            with closing(self._connect()) as connection:
                connection.text_factory = text_of_any_bytes
                connection.execute("BEGIN")
                yield SqliteSession(connection, self._clock)
        finally:
            self._count_back()

    def close(self) -> None:
        """Those that are at work close when they are given back."""
        with self._lock:
            self._closed = True
            idle, self._idle = self._idle, []
        for session in idle:
            session.connection.close()

    def disown(self) -> bool:
        """In a child after fork: tells whether none was at work, so that `close` is safe."""
        were_idle = self._lock.acquire(blocking=False) and not self._lent
        self._lock = threading.Lock()  # the thread that may have held it is not in this process
        return were_idle

    def _count_back(self) -> None:
        with self._lock:
            self._lent -= 1
