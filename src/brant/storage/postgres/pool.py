"""Connections of one process to one server: made when needed, kept while they work, never more than so many.

By hand, since psycopg_pool connects in threads of its own: whoever waits for one of its connections learns that it took
too long, not that the password is wrong; a command would start threads to run one statement, and a fork lose them.
"""

from __future__ import annotations

import math
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from queue import Empty, SimpleQueue

import psycopg

from brant.errors import DatabaseBusy, DatabaseClosed
from brant.storage.postgres.connection import Connection, PostgresSession

_TRUSTED_S = 1.0  # a connection that was used so lately is taken to work
_KEPT_S = 600.0


class Losses:
    """When a connection was found to be lost, and when one was in silence: for all pools of a Database."""

    def __init__(self) -> None:
        self.at = self.in_silence_at = -math.inf

    def note(self, connection: Connection) -> None:
        self.at = time.monotonic()
        if getattr(connection, "was_given_up", False):
            self.in_silence_at = self.at


class Pool:
    """Sessions to lend. Whoever borrows one connects by itself if there is none, so that it learns why it can't."""

    def __init__(
        self,
        connect: Callable[[], PostgresSession],
        check: Callable[[PostgresSession], None],
        is_check_due: Callable[[], bool],
        most: int,
        timeout_s: float,
        losses: Losses,
    ) -> None:
        self._connect = connect
        self._check = check
        self._is_check_due = is_check_due
        self._slots: SimpleQueue[None] = SimpleQueue()  # one token for each; quicker than a semaphore
        for _ in range(most):
            self._slots.put(None)
        self._most = most
        self._timeout_s = timeout_s
        self._losses = losses
        self._lock = threading.Lock()
        self._idle: list[tuple[float, PostgresSession]] = []
        self._closed = False

    def borrow(self) -> PostgresSession:
        try:
            self._slots.get(timeout=self._timeout_s)
        except Empty:
            raise DatabaseBusy(
                f"all {self._most} connections of this Database have been in use for {self._timeout_s:g} s: "
                "end transactions sooner, or open it with a larger max_readers"
            ) from None
        try:
            return self._idle_session() or self._connect()
        except BaseException:
            self._slots.put(None)
            raise

    def give_back(self, session: PostgresSession) -> None:
        now = time.monotonic()
        dropped = []
        if session.connection.closed:
            self._losses.note(session.connection)
        with self._lock:
            if self._closed or session.connection.closed or session.in_transaction():
                dropped.append(session)
            else:
                self._idle.append((now, session))
            while self._idle and now - self._idle[0][0] > _KEPT_S:
                dropped.append(self._idle.pop(0)[1])
        for each in dropped:
            close(each.connection)
        self._slots.put(None)

    def forget_idle(self) -> None:
        """Close the idle ones: one was found dead, and the others have most likely gone with it."""
        with self._lock:
            idle, self._idle = self._idle, []
        for _, session in idle:
            close(session.connection)

    def close(self) -> None:
        with self._lock:
            self._closed = True
        self.forget_idle()

    def _idle_session(self) -> PostgresSession | None:
        with self._lock:
            if self._closed:
                raise DatabaseClosed("Database is closed")
            if not self._idle:
                return None
            since, session = self._idle.pop()
        # After a loss in silence, to ask the others would take long, for the answer that they are lost too.
        if not session.connection.closed and since > self._losses.in_silence_at:
            try:
                if time.monotonic() - since > _TRUSTED_S or since <= self._losses.at or self._is_check_due():
                    self._check(session)
                return session
            except psycopg.Error:
                self._losses.note(session.connection)
        close(session.connection)
        self.forget_idle()
        return None


def close(connection: Connection) -> None:
    with suppress(psycopg.Error, OSError):
        connection.close()
